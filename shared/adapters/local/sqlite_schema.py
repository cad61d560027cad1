"""The tables of the SQLite store, and its items as rows.

Items are JSON, readable with `sqlite3 svc.db`; bytes are `{"$bytes": "<base64>"}`. Each row has a
CRC-32 over its key and its item. Each key of `keys` and `revocations` is in two B-trees: the table,
and the index `<table>_again`. A flipped bit changes only one of them. A key that is in only one
B-tree is reported as corrupt and never read as absent (docs/adr/14).
"""

import json
import sqlite3
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from shared.errors import DataCorrupt, InvalidSettings
from shared.ports.store import SEARCHED, Address, Item, Table, Value, at_path

# Stored in `PRAGMA user_version`, which is 0 in a new file.
FORMAT: Final = 7

_BYTES: Final = "$bytes"
_MAP: Final = "$map"


# Entries are searched by warrant only until the transparency log has them, which takes seconds.
INDEXED: Final = {
    table: tuple(path for path in paths if path != "details.warrant_id")
    for table, paths in SEARCHED.items()
}
# Entries of the index by warrant are deleted with the audit entries that they name.
IS_ENTRY: Final = "instr(pk, '#audit-of#') = 0"
IS_REMOVED: Final = f"expires IS NOT NULL AND {IS_ENTRY}"


def column(path: str) -> str:
    """Return the column for an indexed path."""
    return path.rpartition(".")[2]


def _create_table(table: Table) -> Iterator[str]:
    columns = [column(path) for path in INDEXED[table]]
    yield f"""CREATE TABLE {table} (
        pk TEXT NOT NULL, sk TEXT NOT NULL, item TEXT NOT NULL, checksum INTEGER NOT NULL,
        expires INTEGER, {"".join(f"{each} TEXT, " for each in columns)}PRIMARY KEY (pk, sk)
    ) WITHOUT ROWID"""
    # The transparency log reveals a missing audit entry. Its index is only for counts.
    if table is Table.AUDIT:
        yield f"CREATE INDEX audit_by_time ON audit (pk, sk, expires) WHERE {IS_ENTRY}"
    else:
        yield f"CREATE INDEX {table}_again ON {table} (pk, sk)"
    if table is not Table.REVOCATIONS:
        yield f"CREATE INDEX {table}_expiring ON {table} (expires) WHERE {IS_REMOVED}"
    for each in columns:
        # With the columns that a count needs, so that it reads only the index.
        beside = "action, expires" if each.startswith("actor") else "expires"
        yield f"""CREATE INDEX {table}_by_{each} ON {table} (pk, {each}, sk, {beside})
            WHERE {IS_ENTRY if each == "action" else f"{each} IS NOT NULL"}"""


_TABLES: Final = [statement for table in Table for statement in _create_table(table)]


def prepare(connection: sqlite3.Connection) -> None:
    """Create the tables in a new file. Each connection reads their definitions.

    Raises `InvalidSettings` for a file of another format; `DataCorrupt` if a definition is damaged.
    """
    if _version(connection) != FORMAT:
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection)
            if version not in (0, FORMAT):
                raise InvalidSettings(
                    f"RESCIND_STORE: the database has format {version}; this release reads format"
                    f" {FORMAT}.",
                    "Use the release that wrote the database.",
                )
            if not version:
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {FORMAT}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master")}
    # A flipped bit in a column type would change how SQLite compares keys in both B-trees.
    if not found.issuperset(_TABLES):
        raise DataCorrupt


def find_problems(connection: sqlite3.Connection, *, quickly: bool) -> Iterator[str]:
    """Yield a sentence for each problem. `quickly` skips the checks that read each item.

    The full check compares every index with the table, so it also finds a key that is missing from
    one of the two B-trees.
    """
    try:
        check = "quick_check" if quickly else "integrity_check"
        damage = [line for (line,) in connection.execute(f"PRAGMA {check}") if line != "ok"]
    except sqlite3.DatabaseError as error:
        damage = [str(error)]
    yield from (f"SQLite reports: {line}" for line in damage)
    if quickly or damage:
        return
    # Damaged text may not be UTF-8.
    connection.text_factory = partial(str, encoding="utf-8", errors="replace")
    try:
        number = sum(
            checksum != compute_checksum(table, *row)
            for table in Table
            for checksum, *row in connection.execute(
                f"SELECT checksum, pk, sk, item FROM {table}"  # noqa: S608
            )
        )
    finally:
        connection.text_factory = str
    if number:
        yield f"{number} items do not match their checksum"


def compute_checksum(table: str, pk: str, sk: str, value: object) -> int | None:
    """Return the CRC-32 of an item and its key; None if the item is not text."""
    if type(value) is not str:
        return None
    return zlib.crc32(f"{table}\0{pk}\0{sk}\0{value}".encode())


def to_row(address: Address, item: Item) -> tuple[str | int | None, ...]:
    """Return the row of an item, in the order of the columns."""
    encoded, expires = encode_item(item), item.get("expires")
    searched = (at_path(item, path) for path in INDEXED[address.table])
    return (
        address.pk,
        address.sk,
        encoded,
        compute_checksum(*address, encoded),
        expires if type(expires) is int else None,
        *(value if isinstance(value, str) else None for value in searched),
    )


def from_row(address: Address, value: object, checksum: object) -> dict[str, Value]:
    """Return the item of a row.

    Raises `DataCorrupt` unless the row was stored under this address.
    """
    if type(value) is not str or checksum != compute_checksum(*address, value):
        raise DataCorrupt
    return decode_item(value)


def encode_item(item: Item) -> str:
    """Return an item as JSON."""
    encoded = _encoder.encode(item)
    # Reserved map keys are rare, so the item is searched for them only in this case.
    return _encoder.encode(_escape(item)) if '{"$' in encoded else encoded


def decode_item(text: str) -> dict[str, Value]:
    """Return the item for its JSON. Raises `DataCorrupt` if it is malformed."""
    try:
        found = json.loads(text, object_hook=_restore if '{"$' in text else None)
    except ValueError as error:
        raise DataCorrupt from error
    if type(found) is not dict:
        raise DataCorrupt
    return found


def _escape(value: Any) -> Any:
    """Escape maps that would be read as bytes."""
    if isinstance(value, list):
        return [_escape(each) for each in value]
    if not isinstance(value, dict):
        return value
    members = {name: _escape(member) for name, member in value.items()}
    is_reserved = members.keys() in ({_BYTES}, {_MAP})
    return {_MAP: [list(each) for each in members.items()]} if is_reserved else members


def _restore(document: dict[str, Any]) -> Any:
    if document.keys() == {_BYTES}:
        return b64decode(document[_BYTES], validate=True)
    return dict(document[_MAP]) if document.keys() == {_MAP} else document


def _version(connection: sqlite3.Connection) -> int:
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


_encoder: Final = json.JSONEncoder(
    ensure_ascii=False,
    separators=(",", ":"),
    default=lambda value: {_BYTES: b64encode(value).decode()},
)
