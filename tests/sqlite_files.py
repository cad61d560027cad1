"""SQLite files of the store, changed behind its back."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path

import cbor2

from shared.adapters import sqlite_format
from shared.ports.store import Address, Item

_FORMAT_4 = Path(__file__).parent / "golden/format-4.sql"


def format_4(path: Path, items: Mapping[Address, Item]) -> None:
    """Make a file with these items as release 0.3.0 wrote it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(_FORMAT_4.read_text())
        rows = [(key, cbor2.dumps(dict(item))) for key, item in items.items()]
        insert(connection, rows, table="items")


def insert(
    connection: sqlite3.Connection, rows: Iterable[tuple[Address, bytes]], table: str = "items_5"
) -> None:
    """Add items as they are encoded, each with its checksum and its place."""
    for (of, pk, sk), item in rows:
        checksum = sqlite_format.checksum(sqlite_format.seed(of, pk), sk, item)
        row = (of, pk, sk, item, checksum)
        connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", row)
        place = (sqlite_format.place(of, pk), sk)
        connection.execute("INSERT INTO places VALUES (?, ?)", place)


def restore(connection: sqlite3.Connection, copy: Path, tables: Iterable[str]) -> None:
    """Replace the items of these tables by those of another file, in one transaction."""
    connection.create_function("place", 2, sqlite_format.place)
    connection.execute("ATTACH ? AS backup", (str(copy),))
    connection.execute("BEGIN IMMEDIATE")
    for table in tables:
        connection.execute("DELETE FROM items_5 WHERE tbl = ?", (table,))
        connection.execute(
            "INSERT INTO items_5 SELECT * FROM backup.items_5 WHERE tbl = ?", (table,)
        )
    connection.execute("DELETE FROM places")
    connection.execute("INSERT INTO places SELECT place(tbl, pk), sk FROM items_5")
    connection.execute("COMMIT")
