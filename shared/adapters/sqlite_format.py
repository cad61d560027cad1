"""The format of the SQLite file. One flipped bit is never read as "there is no such item".

Each item has a checksum over its key and its bytes. Each key is in two B-trees: in `items_5` with
the item, and in `places` under a hash of its partition. A flipped bit changes only one of the
trees, so a key that is in only one of them is reported as corrupt (docs/adr/14).
"""

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Final

from shared.adapters import sqlite_audit, sqlite_encoding, sqlite_items
from shared.errors import InvalidSettings
from shared.model import deployment

# Stored in `PRAGMA user_version`, which is 0 in new files. `sqlite_conversion` makes each
# change here to older files. If the number rises, the table of items gets another name.
FORMAT: Final = 5

ITEMS: Final = """
CREATE TABLE items_5 (
    pk BLOB NOT NULL, sk TEXT NOT NULL, item BLOB NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (pk, sk)
) WITHOUT ROWID
"""
_PLACES: Final = """
CREATE TABLE places (
    partition INTEGER NOT NULL, sk TEXT NOT NULL, PRIMARY KEY (partition, sk)
) WITHOUT ROWID
"""
_NEW: Final = (ITEMS, _PLACES, *sqlite_audit.SCHEMA, *sqlite_items.EXPIRING)

# Each problem, and a query for the number of its items.
_FAULTS: Final = {
    "items do not match their checksum": """
        SELECT count(*) FROM items_5 WHERE checksum IS NOT checksum(pk, sk, item)""",
    "items are missing from the table places": """
        SELECT count(*) FROM items_5 WHERE NOT EXISTS (
            SELECT 1 FROM places WHERE partition = place(pk) AND places.sk = items_5.sk)""",
    "items are missing from the table items": """
        SELECT (SELECT count(*) FROM places) - (SELECT count(*) FROM items_5)""",
    "audit entries are missing from their tallies": f"""
        SELECT abs((SELECT coalesce(sum(n), 0) FROM tallies WHERE path = '')
            - (SELECT count(*) FROM items_5 WHERE {sqlite_audit.IS_ENTRY}))""",  # noqa: S608
}


@lru_cache(maxsize=1024)
def seed(table: str, pk: str) -> int:
    """Return the start of the checksums in a partition."""
    return zlib.crc32(sqlite_encoding.named(table, pk))


def checksum(seed_: int, sk: str, item: bytes) -> int:
    """Return the CRC-32 of an item and its whole key; `seed_` is that of its partition."""
    return zlib.crc32(item, zlib.crc32(sk.encode() + b"\0", seed_))


def prepare(connection: sqlite3.Connection) -> None:
    """Create the tables in a new file. Leave any other file unchanged.

    Raises `InvalidSettings` for a file of another format, and `sqlite3.DatabaseError` for a damaged
    one.
    """
    if version(connection) == FORMAT:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        _create(connection)
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


def _create(connection: sqlite3.Connection) -> None:
    found = version(connection)
    if found == FORMAT:
        return  # Another process has created them.
    if found > FORMAT:
        raise InvalidSettings(
            f"SVC_STORE: the database has format {found}; this release reads format {FORMAT}.",
            "Use the release that wrote the database, or a newer one.",
        )
    if found or _has_items(connection):
        raise deployment.too_old("the database")
    for statement in (*_NEW, f"PRAGMA user_version = {FORMAT}"):
        connection.execute(statement)


def version(connection: sqlite3.Connection) -> int:
    """Return the format of a file; that of a new one is 0."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


def _damage(connection: sqlite3.Connection, check: str) -> Iterator[str]:
    lines = connection.execute(f"PRAGMA {check}")
    return (line for (line,) in lines if line != "ok")


def _has_items(connection: sqlite3.Connection) -> bool:
    statement = "SELECT 1 FROM sqlite_master WHERE name = 'items'"
    return connection.execute(statement).fetchone() is not None


def _add_functions(connection: sqlite3.Connection) -> None:
    connection.create_function("place", 1, _place, deterministic=True)
    connection.create_function("checksum", 3, _checksum, deterministic=True)


def _place(key: bytes) -> int | None:
    with suppress(ValueError):
        return sqlite_encoding.place(*sqlite_encoding.partition_of(key))
    return None


def _checksum(key: bytes, sk: str, item: object) -> int | None:
    with suppress(ValueError):
        if isinstance(item, bytes):
            return checksum(seed(*sqlite_encoding.partition_of(key)), sk, item)
    return None
