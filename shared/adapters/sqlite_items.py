"""The items in a SQLite file. One flipped bit is never read as "there is no such item".

Each item has a checksum over its key and its bytes. Each key is in two B-trees: in `items_5` with
the item, and in `places` under a hash of its partition. A flipped bit changes only one of the
trees, so a key that is in only one of them is reported as corrupt (docs/adr/14).
"""

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from typing import Final, TypeAlias

from shared.adapters import sqlite_audit, sqlite_encoding
from shared.adapters.preconditions import added
from shared.errors import Corrupt, InvalidSettings
from shared.ports.store import (
    MOST_CHANGES,
    Address,
    At,
    Change,
    Delete,
    Expect,
    Increment,
    Item,
    Put,
    Table,
    Value,
)

_GET = "SELECT item, checksum FROM items_5 WHERE pk = ? AND sk = ?"
# One statement, so that no write comes between. A key that is only in `places` has no item.
_CONFIRM = """SELECT item, checksum FROM places
    LEFT JOIN items_5 ON pk = ? AND items_5.sk = ?
    WHERE partition = ? AND places.sk = ?"""
# The same for several keys, which are numbered. Where there is an item, no place is looked for.
_MANY = """WITH wanted (number, pk, sk, place) AS (VALUES {})
    SELECT number, item, checksum, places.sk FROM wanted
    LEFT JOIN items_5 USING (pk, sk)
    LEFT JOIN places
        ON partition = CASE WHEN item IS NULL THEN place END AND places.sk = wanted.sk"""
# Not INSERT OR REPLACE, which runs no delete trigger for the replaced row.
_PUT = """INSERT INTO items_5 (pk, sk, item, checksum) VALUES {}
    ON CONFLICT (pk, sk) DO UPDATE SET item = excluded.item, checksum = excluded.checksum"""
_PUT_PLACES = "INSERT OR IGNORE INTO places (partition, sk) VALUES {}"
_DELETE = "DELETE FROM items_5 WHERE pk = ? AND sk = ?"
_DELETE_PLACE = "DELETE FROM places WHERE partition = ? AND sk = ?"

Row: TypeAlias = tuple[object, object]
_Parameter: TypeAlias = str | int | bytes

# The index by which expired items of the table `keys` are found without reading the others.
# A stored item is encoded bytes, which do not say when it expires.
EXPIRING: Final = (
    """CREATE TABLE expiring (
        expires INTEGER NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL, PRIMARY KEY (expires, pk, sk)
    ) WITHOUT ROWID""",
)

_NOTE: Final = "INSERT OR IGNORE INTO expiring VALUES (?, ?, ?)"
_FORGET: Final = "DELETE FROM expiring WHERE expires = ? AND pk = ? AND sk = ?"
_EXPIRED: Final = "SELECT expires, pk, sk FROM expiring WHERE expires < ? ORDER BY expires LIMIT ?"


def stored(connection: sqlite3.Connection, address: Address) -> Row | None:
    """Return the row of an item, or None. Raises `Corrupt` if only `places` has the key."""
    row: Row | None = connection.execute(_GET, _key(address)).fetchone()
    if row is None:
        row = connection.execute(_CONFIRM, (*_key(address), *_place(address))).fetchone()
        if row == (None, None):
            raise Corrupt
    return row


def stored_many(connection: sqlite3.Connection, addresses: Sequence[Address]) -> dict[Address, Row]:
    """Return the rows of those items that exist, with one statement for each hundred.

    Raises `Corrupt` if only `places` has a key.
    """
    found: dict[Address, Row] = {}
    for start in range(0, len(addresses), MOST_CHANGES):
        part = addresses[start : start + MOST_CHANGES]
        wanted = [(number, *_key(each), _place(each)[0]) for number, each in enumerate(part)]
        rows = connection.execute(_rows(_MANY, len(part), 4), _flat(wanted))
        for number, item, checksum, place in rows:
            if item is not None:
                found[part[number]] = item, checksum
            elif place is not None:
                raise Corrupt
    return found


@cache
def _rows(statement: str, number: int, columns: int) -> str:
    """Return a statement with the parameters of so many rows."""
    row = f"({', '.join('?' * columns)})"
    return statement.format(", ".join([row] * number))


def _flat(rows: Iterable[tuple[_Parameter, ...]]) -> list[_Parameter]:
    return [each for row in rows for each in row]


def _key(address: Address) -> tuple[bytes, str]:
    return sqlite_encoding.partition(address.table, address.pk), address.sk


def address(pk: bytes, sk: str) -> Address:
    """Return the address of a row. Raises `Corrupt`."""
    try:
        return Address(*sqlite_encoding.partition_of(pk), sk)
    except ValueError as error:
        raise Corrupt from error


def _place(address: Address) -> tuple[int, str]:
    return sqlite_encoding.place(address.table, address.pk), address.sk


def is_read(change: Change) -> bool:
    """Return whether the item must be read before the change."""
    return change.expect is not Expect.ANYTHING or isinstance(change, Increment)


def holds(change: Change, row: Row | None) -> bool:
    """Return whether the expectation of a change holds for this row of its item.

    Raises `Corrupt` if the item is damaged.
    """
    if change.expect is Expect.ANYTHING:
        return True
    if not isinstance(change.expect, At):
        return (row is not None) == (change.expect is Expect.PRESENT)
    version = None if row is None else decode_at(change.address, row).get("version")
    return type(version) is int and version == change.expect.version


def apply(
    connection: sqlite3.Connection, changes: Sequence[Change], rows: Mapping[Address, Row]
) -> None:
    """Apply changes in this transaction; `rows` are those of the items that exist and are read."""
    puts, gone = list[tuple[Address, Item]](), list[Address]()
    for change in changes:
        key = change.address
        match change:
            case Put(item=item):
                puts.append((key, item))
            case Delete():
                gone.append(key)
            case Increment():
                item = decode_at(key, rows[key]) if key in rows else {}
                puts.append((key, added(item, change)))
        if isinstance(change, Put | Increment) and change.expect is not Expect.ABSENT:
            _forget(connection, key)
    delete(connection, gone)
    if puts:
        _put(connection, puts)


def delete(connection: sqlite3.Connection, addresses: Sequence[Address]) -> None:
    """Delete those of the items that exist, in this transaction."""
    for each in addresses:
        _forget(connection, each)
    connection.executemany(_DELETE, map(_key, addresses))
    connection.executemany(_DELETE_PLACE, map(_place, addresses))


def _forget(connection: sqlite3.Connection, address: Address) -> None:
    if sqlite_audit.has_tallies(address.table, address.pk):
        sqlite_audit.forget(connection, *_key(address))


def _put(connection: sqlite3.Connection, items: Sequence[tuple[Address, Item]]) -> None:
    stored = []
    for address, item in items:
        encoded = sqlite_encoding.encoded(item, address.pk, address.sk)
        seed = seed_of(address.table, address.pk)
        stored.append((*_key(address), encoded, checksum_of(seed, address.sk, encoded)))
        note_expiry(connection, address, item)
    connection.execute(_rows(_PUT, len(stored), 4), _flat(stored))
    places = [_place(address) for address, _ in items]
    connection.execute(_rows(_PUT_PLACES, len(places), 2), _flat(places))


def decode_at(address: Address, row: Row) -> dict[str, Value]:
    """Return the item of a row. Raises `Corrupt` unless the row was stored under this key."""
    return decode(address[:2], address.sk, *row)


def decode(
    partition: tuple[str, str], sk: str, encoded: object, checksum: object
) -> dict[str, Value]:
    """Return the item of a row. Raises `Corrupt` unless the row was stored under these keys."""
    return _item(_plain(partition, sk, encoded, checksum))


def decode_having(
    text: bytes, partition: tuple[str, str], sk: str, encoded: object, checksum: object
) -> dict[str, Value] | None:
    """Return the item of a row if its plain bytes contain `text`. Raises `Corrupt`."""
    plain = _plain(partition, sk, encoded, checksum)
    return _item(plain) if text in plain else None


def _plain(partition: tuple[str, str], sk: str, encoded: object, checksum: object) -> bytes:
    seed = seed_of(*partition)
    if type(encoded) is not bytes or checksum != checksum_of(seed, sk, encoded):
        raise Corrupt
    try:
        return sqlite_encoding.plain(encoded, partition[1], sk)
    except ValueError as error:
        raise Corrupt from error


def _item(plain: bytes) -> dict[str, Value]:
    try:
        return sqlite_encoding.decoded(plain)
    except ValueError as error:
        raise Corrupt from error


def note_expiry(connection: sqlite3.Connection, address: Address, item: Item) -> None:
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


# Stored in `PRAGMA user_version`, which is 0 in new files. If the number rises, the table of items
# gets another name.
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
_NEW: Final = (ITEMS, _PLACES, *sqlite_audit.SCHEMA, *EXPIRING)

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
def seed_of(table: str, pk: str) -> int:
    """Return the start of the checksums in a partition."""
    return zlib.crc32(sqlite_encoding.named(table, pk))


def checksum_of(seed_: int, sk: str, item: bytes) -> int:
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
    if found:
        raise InvalidSettings(
            f"SVC_STORE: the database has format {found}; this release reads format {FORMAT}.",
            "Use a release that reads the database's format.",
        )
    for statement in (*_NEW, f"PRAGMA user_version = {FORMAT}"):
        connection.execute(statement)


def version(connection: sqlite3.Connection) -> int:
    """Return the format of a file; that of a new one is 0."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


def _damage(connection: sqlite3.Connection, check: str) -> Iterator[str]:
    lines = connection.execute(f"PRAGMA {check}")
    return (line for (line,) in lines if line != "ok")


def _add_functions(connection: sqlite3.Connection) -> None:
    connection.create_function("place", 1, _place_of, deterministic=True)
    connection.create_function("checksum", 3, _checksum, deterministic=True)


def _place_of(key: bytes) -> int | None:
    with suppress(ValueError):
        return sqlite_encoding.place(*sqlite_encoding.partition_of(key))
    return None


def _checksum(key: bytes, sk: str, item: object) -> int | None:
    with suppress(ValueError):
        if isinstance(item, bytes):
            return checksum_of(seed_of(*sqlite_encoding.partition_of(key)), sk, item)
    return None
