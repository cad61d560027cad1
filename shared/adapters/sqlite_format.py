"""The format of the SQLite file. One flipped bit is never read as "there is no such item".

Each item has a checksum over its key and its bytes. Each key is in two B-trees: in `items` with the
item, and in `places` under a hash of its partition. A flipped bit changes only one of the trees, so
a key that is in only one of them is reported as corrupt (docs/adr/0025).
"""

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator
from typing import Final

from shared.adapters import sqlite_audit, sqlite_expiry
from shared.errors import InvalidSettings

# Stored in `PRAGMA user_version`, which is 0 in new files and in files of the first releases.
FORMAT: Final = 4

_ITEMS: Final = """
CREATE TABLE items (
    tbl TEXT NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL,
    item BLOB NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (tbl, pk, sk)
) WITHOUT ROWID
"""
_PLACES: Final = """
CREATE TABLE places (
    partition INTEGER NOT NULL, sk TEXT NOT NULL, PRIMARY KEY (partition, sk)
) WITHOUT ROWID
"""
_UPGRADE: Final = (
    "ALTER TABLE items RENAME TO old_items",
    _ITEMS,
    _PLACES,
    "INSERT INTO items SELECT tbl, pk, sk, item, checksum(tbl, pk, sk, item) FROM old_items",
    "INSERT INTO places SELECT place(tbl, pk), sk FROM items",
    "DROP TABLE old_items",
    "DROP TABLE IF EXISTS writes",
    *sqlite_audit.SCHEMA,
    *sqlite_expiry.SCHEMA,
)
# What files of these formats lack.
_LACKING: Final = {
    2: (*sqlite_audit.SCHEMA, *sqlite_expiry.SCHEMA),
    3: sqlite_expiry.SCHEMA,
}

# Each problem, and a query for the number of its items.
_FAULTS: Final = {
    "items do not match their checksum": """
        SELECT count(*) FROM items WHERE checksum IS NOT checksum(tbl, pk, sk, item)""",
    "items are missing from the table places": """
        SELECT count(*) FROM items WHERE NOT EXISTS (
            SELECT 1 FROM places WHERE partition = place(tbl, pk) AND places.sk = items.sk)""",
    "items are missing from the table items": """
        SELECT (SELECT count(*) FROM places) - (SELECT count(*) FROM items)""",
    "audit entries are missing from their tallies": """
        SELECT abs((SELECT coalesce(sum(n), 0) FROM tallies WHERE path = '')
            - (SELECT count(*) FROM items WHERE tbl = 'audit'))""",
}


def place(table: str, pk: str) -> int:
    """Return the hash of a partition, a signed 64-bit integer, which is its key in `places`."""
    digest = hashlib.blake2b(_partition(table, pk), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def seed(table: str, pk: str) -> int:
    """Return the start of the checksums in a partition."""
    return zlib.crc32(_partition(table, pk))


def checksum(seed_: int, sk: str, item: bytes) -> int:
    """Return the CRC-32 of an item and its whole key; `seed_` is that of its partition."""
    return zlib.crc32(item, zlib.crc32(sk.encode() + b"\0", seed_))


def _partition(table: str, pk: str) -> bytes:
    return (table + "\0" + pk + "\0").encode()


def prepare(connection: sqlite3.Connection) -> None:
    """Create the tables in a new file, or upgrade an older file to this format.

    If that fails, the file is unchanged. Raises `InvalidSettings` for a file of a newer format, and
    `sqlite3.DatabaseError` for a damaged one.
    """
    if _version(connection) == FORMAT:
        return
    _add_functions(connection)
    connection.execute("BEGIN IMMEDIATE")
    try:
        _upgrade(connection)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def problems(connection: sqlite3.Connection, *, quickly: bool) -> Iterator[str]:
    """Yield a sentence for each problem of the file; `quickly` omits checks that read each item."""
    try:
        damage = list(_damage(connection, "quick_check" if quickly else "integrity_check"))
    except sqlite3.DatabaseError as error:
        damage = [str(error)]
    yield from (f"SQLite reports: {line}" for line in damage)
    if quickly or damage:
        return
    _add_functions(connection)
    for fault, statement in _FAULTS.items():
        (number,) = connection.execute(statement).fetchone()
        if number > 0:
            yield f"{number} {fault}"


def _upgrade(connection: sqlite3.Connection) -> None:
    found = _version(connection)
    if found == FORMAT:
        return  # Another process has upgraded it.
    if found > FORMAT:
        raise InvalidSettings(
            f"SVC_STORE: the database has format {found}; this release reads format {FORMAT}.",
            "Use the release that wrote the database, or a newer one.",
        )
    if found:
        if found not in _LACKING:
            raise sqlite3.DatabaseError(f"the file has the format {found}, which never was")
        statements: tuple[str, ...] = _LACKING[found]
    elif _has_items(connection):
        # A new checksum would make damaged data look valid.
        for damage in _damage(connection, "integrity_check(1)"):
            raise sqlite3.DatabaseError(f"the file is damaged: {damage}")
        statements = _UPGRADE
    else:
        statements = (_ITEMS, _PLACES, *sqlite_audit.SCHEMA, *sqlite_expiry.SCHEMA)
    for statement in (*statements, f"PRAGMA user_version = {FORMAT}"):
        connection.execute(statement)


def _damage(connection: sqlite3.Connection, check: str) -> Iterator[str]:
    lines = connection.execute(f"PRAGMA {check}")
    return (line for (line,) in lines if line != "ok")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _has_items(connection: sqlite3.Connection) -> bool:
    statement = "SELECT 1 FROM sqlite_master WHERE name = 'items'"
    return connection.execute(statement).fetchone() is not None


def _add_functions(connection: sqlite3.Connection) -> None:
    connection.create_function("place", 2, place, deterministic=True)
    connection.create_function("checksum", 4, _checksum, deterministic=True)


def _checksum(table: str, pk: str, sk: str, item: object) -> int | None:
    if not isinstance(item, bytes):
        return None
    return checksum(seed(table, pk), sk, item)
