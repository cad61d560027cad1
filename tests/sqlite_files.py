"""SQLite files of the store, changed behind its back."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from shared.adapters import sqlite_format
from shared.ports.store import Address


def insert(connection: sqlite3.Connection, rows: Iterable[tuple[Address, bytes]]) -> None:
    """Add items as they are encoded, each with its checksum and its place."""
    for (table, pk, sk), item in rows:
        checksum = sqlite_format.checksum(sqlite_format.seed(table, pk), sk, item)
        row = (table, pk, sk, item, checksum)
        connection.execute("INSERT INTO items VALUES (?, ?, ?, ?, ?)", row)
        place = (sqlite_format.place(table, pk), sk)
        connection.execute("INSERT INTO places VALUES (?, ?)", place)


def restore(connection: sqlite3.Connection, copy: Path, tables: Iterable[str]) -> None:
    """Replace the items of these tables by those of another file, in one transaction."""
    connection.create_function("place", 2, sqlite_format.place)
    connection.execute("ATTACH ? AS backup", (str(copy),))
    connection.execute("BEGIN IMMEDIATE")
    for table in tables:
        connection.execute("DELETE FROM items WHERE tbl = ?", (table,))
        connection.execute("INSERT INTO items SELECT * FROM backup.items WHERE tbl = ?", (table,))
    connection.execute("DELETE FROM places")
    connection.execute("INSERT INTO places SELECT place(tbl, pk), sk FROM items")
    connection.execute("COMMIT")
