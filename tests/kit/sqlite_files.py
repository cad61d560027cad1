"""SQLite files of the store, changed behind its back."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from shared.adapters import sqlite_encoding, sqlite_items
from shared.adapters.sqlite_encoding import LETTERS, partition, partition_of
from shared.ports.store import Address, Table


def insert(connection: sqlite3.Connection, rows: Iterable[tuple[Address, bytes]]) -> None:
    """Add items as they are encoded, each with its checksum and its place."""
    for address, item in rows:
        _insert(connection, "items_5", row_of(address), address, item)


def row_of(address: Address) -> tuple[bytes, str]:
    """The keys of an item in the file."""
    return partition(address.table, address.pk), address.sk


def _insert(
    connection: sqlite3.Connection,
    table: str,
    keys: tuple[str | bytes, ...],
    address: Address,
    item: bytes,
) -> None:
    of, pk, sk = address
    row = (*keys, item, sqlite_items.checksum_of(sqlite_items.seed_of(of, pk), sk, item))
    connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    connection.execute("INSERT INTO places VALUES (?, ?)", (sqlite_encoding.place(of, pk), sk))


def restore(connection: sqlite3.Connection, copy: Path, tables: Iterable[str]) -> None:
    """Replace the items of these tables by those of another file, in one transaction."""
    connection.create_function("place", 1, lambda pk: sqlite_encoding.place(*partition_of(pk)))
    connection.execute("ATTACH ? AS backup", (str(copy),))
    connection.execute("BEGIN IMMEDIATE")
    for letter in b"".join(LETTERS[Table(table)] for table in tables):
        is_of_table = f"substr(pk, 1, 1) = x'{letter:02x}'"
        connection.execute(f"DELETE FROM items_5 WHERE {is_of_table}")
        connection.execute(f"INSERT INTO items_5 SELECT * FROM backup.items_5 WHERE {is_of_table}")
    connection.execute("DELETE FROM places")
    connection.execute("INSERT INTO places SELECT place(pk), sk FROM items_5")
    connection.execute("COMMIT")
