"""The index by which SQLite finds expired items of the table `keys` without reading the others.

The tables of items do not say when an item expires, because an item is stored as encoded bytes.
"""

import sqlite3
from typing import Final

from shared.ports.store import Address, Item, Table

SCHEMA: Final = (
    """CREATE TABLE expiring (
        expires INTEGER NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL, PRIMARY KEY (expires, pk, sk)
    ) WITHOUT ROWID""",
)

_NOTE: Final = "INSERT OR IGNORE INTO expiring VALUES (?, ?, ?)"
_FORGET: Final = "DELETE FROM expiring WHERE expires = ? AND pk = ? AND sk = ?"
_EXPIRED: Final = "SELECT expires, pk, sk FROM expiring WHERE expires < ? ORDER BY expires LIMIT ?"


def note(connection: sqlite3.Connection, address: Address, item: Item) -> None:
    """Note when an item of the table `keys` expires, in the transaction that stores it."""
    expires = item.get("expires")
    if address.table is Table.KEYS and type(expires) is int:
        connection.execute(_NOTE, (expires, address.pk, address.sk))


def take_expired(
    connection: sqlite3.Connection, before: int, most: int
) -> list[tuple[int, Address]]:
    """Return when items expired before `before`, and their addresses; forget them.

    An item may have been replaced or deleted since.
    """
    rows = connection.execute(_EXPIRED, (before, most)).fetchall()
    connection.executemany(_FORGET, rows)
    return [(expires, Address(Table.KEYS, pk, sk)) for expires, pk, sk in rows]
