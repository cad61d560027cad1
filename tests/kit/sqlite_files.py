"""SQLite files of the store, changed behind its back."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from shared.adapters.local.sqlite_schema import compute_checksum
from shared.ports.store import Address, Table


def insert(connection: sqlite3.Connection, rows: Iterable[tuple[Address, str]]) -> None:
    """Add items as they are encoded, each with its checksum."""
    for address, item in rows:
        connection.execute(
            f"INSERT INTO {address.table} (pk, sk, item, checksum) VALUES (?, ?, ?, ?)",
            (address.pk, address.sk, item, compute_checksum(*address, item)),
        )


def restore(connection: sqlite3.Connection, copy: Path, tables: Iterable[str]) -> None:
    """Replace the items of these tables by those of another file, in one transaction."""
    connection.execute("ATTACH ? AS backup", (str(copy),))
    connection.execute("BEGIN IMMEDIATE")
    for table in map(Table, tables):
        connection.execute(f"DELETE FROM {table}")
        connection.execute(f"INSERT INTO {table} SELECT * FROM backup.{table}")
    connection.execute("COMMIT")
