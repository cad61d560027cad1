"""Reads and changes of single items in a SQLite file."""

import sqlite3
from typing import TypeAlias

import cbor2

from shared.adapters import sqlite_audit, sqlite_expiry, sqlite_format
from shared.errors import Corrupt
from shared.ports.store import (
    Address,
    At,
    Change,
    Check,
    Delete,
    Expect,
    Increment,
    Item,
    Put,
    Table,
    Value,
)

_GET = "SELECT item, checksum FROM items_5 WHERE tbl = ? AND pk = ? AND sk = ?"
# One statement, so that no write comes between. A key that is only in `places` has no item.
_CONFIRM = """SELECT item, checksum FROM places
    LEFT JOIN items_5 ON tbl = ? AND pk = ? AND items_5.sk = ?
    WHERE partition = ? AND places.sk = ?"""
# Not INSERT OR REPLACE, which runs no delete trigger for the replaced row.
_PUT = """INSERT INTO items_5 (tbl, pk, sk, item, checksum) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (tbl, pk, sk) DO UPDATE SET item = excluded.item, checksum = excluded.checksum"""
_PUT_PLACE = "INSERT OR IGNORE INTO places (partition, sk) VALUES (?, ?)"
_DELETE = "DELETE FROM items_5 WHERE tbl = ? AND pk = ? AND sk = ?"
_DELETE_PLACE = "DELETE FROM places WHERE partition = ? AND sk = ?"

Row: TypeAlias = tuple[object, object]


def stored(connection: sqlite3.Connection, address: Address) -> Row | None:
    """Return the row of an item, or None. Raises `Corrupt` if only `places` has the key."""
    row: Row | None = connection.execute(_GET, address).fetchone()
    if row is None:
        row = connection.execute(_CONFIRM, (*address, *_place(address))).fetchone()
        if row == (None, None):
            raise Corrupt
    return row


def _place(address: Address) -> tuple[int, str]:
    return sqlite_format.place(address.table, address.pk), address.sk


def holds(connection: sqlite3.Connection, change: Change) -> bool:
    """Return whether the expectation of a change holds. Raises `Corrupt` if the item is damaged."""
    if change.expect is Expect.ANYTHING:
        return True
    row = stored(connection, change.address)
    if not isinstance(change.expect, At):
        return (row is not None) == (change.expect is Expect.PRESENT)
    version = None if row is None else decode_at(change.address, row).get("version")
    return type(version) is int and version == change.expect.version


def apply(connection: sqlite3.Connection, change: Change) -> None:
    """Apply one change in this transaction."""
    match change:
        case Put(address=key, item=item):
            _put(connection, key, item)
        case Delete(address=key):
            delete(connection, key)
        case Increment(address=key):
            row = stored(connection, key)
            item = {} if row is None else decode_at(key, row)
            _put(connection, key, _added(item, change))
        case Check():
            pass


def delete(connection: sqlite3.Connection, address: Address) -> None:
    """Delete an item in this transaction, if it exists."""
    if address.table is Table.AUDIT:
        sqlite_audit.forget(connection, address.pk, address.sk)
    connection.execute(_DELETE, address)
    connection.execute(_DELETE_PLACE, _place(address))


def _put(connection: sqlite3.Connection, address: Address, item: Item) -> None:
    if address.table is Table.AUDIT:
        sqlite_audit.forget(connection, address.pk, address.sk)
    encoded = cbor2.dumps(dict(item))
    seed = sqlite_format.seed(address.table, address.pk)
    connection.execute(_PUT, (*address, encoded, sqlite_format.checksum(seed, address.sk, encoded)))
    connection.execute(_PUT_PLACE, _place(address))
    sqlite_expiry.note(connection, address, item)


def _added(item: Item, change: Increment) -> dict[str, Value]:
    sums = dict(item)
    for name, amount in change.amounts.items():
        held = sums.get(name, 0)
        if type(held) is not int:
            raise TypeError("only an integer is incremented")
        sums[name] = held + amount
    return sums | dict(change.assign)


def decode_at(address: Address, row: Row) -> dict[str, Value]:
    """Return the item of a row. Raises `Corrupt` unless the row was stored under this key."""
    return decode(sqlite_format.seed(address.table, address.pk), address.sk, *row)


def decode(seed: int, sk: str, encoded: object, checksum: object) -> dict[str, Value]:
    """Return the item of a row; `seed` is that of its partition. Raises `Corrupt`."""
    if type(encoded) is not bytes or checksum != sqlite_format.checksum(seed, sk, encoded):
        raise Corrupt
    try:
        item = cbor2.loads(encoded)
    except cbor2.CBORDecodeError as error:
        raise Corrupt from error
    if not isinstance(item, dict):
        raise Corrupt
    return item
