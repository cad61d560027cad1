"""The store in one SQLite file, for one machine: any number of threads and processes.

Each write is one transaction, on the disk before it is acknowledged. With `:memory:` it is the
test double.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import cbor2

from shared.adapters import sqlite_format
from shared.adapters.messages import CORRUPT
from shared.adapters.preconditions import check_write
from shared.adapters.sqlite_database import Database
from shared.errors import Conflict, Corrupt
from shared.ports.store import (
    At,
    Change,
    Check,
    Delete,
    Entry,
    Expect,
    Increment,
    Item,
    Key,
    Partition,
    Put,
    Value,
)

_PAGE = 1000

_GET = "SELECT item, checksum FROM items WHERE tbl = ? AND pk = ? AND sk = ?"
# One statement, so that no write comes between: a key that is in `places` alone has no item.
_CONFIRM = """SELECT item, checksum FROM places
    LEFT JOIN items ON tbl = ? AND pk = ? AND items.sk = ? WHERE partition = ? AND places.sk = ?"""
_PUT = "INSERT OR REPLACE INTO items (tbl, pk, sk, item, checksum) VALUES (?, ?, ?, ?, ?)"
_PUT_PLACE = "INSERT OR IGNORE INTO places (partition, sk) VALUES (?, ?)"
_DELETE = "DELETE FROM items WHERE tbl = ? AND pk = ? AND sk = ?"
_DELETE_PLACE = "DELETE FROM places WHERE partition = ? AND sk = ?"
_ITEMS = "SELECT sk, item, checksum FROM items WHERE tbl = ? AND pk = ?"
# An encoded item has the names of its attributes in it.
_COLUMN = """SELECT sk, CASE WHEN instr(item, ?) THEN item END, checksum
    FROM items WHERE tbl = ? AND pk = ?"""
_NAMES = "SELECT sk FROM places WHERE partition = ?"
_UP = " AND sk > ? AND sk < ? ORDER BY sk LIMIT ?"
_DOWN = " AND sk > ? AND sk < ? ORDER BY sk DESC LIMIT ?"

# Bounds that hold every sort key: none is empty, and SQLite sorts any blob after every text.
_LOWEST = ""
_HIGHEST = b""

_Row: TypeAlias = tuple[object, object]


class SqliteStore:
    """A `Store` in the file at `path`, made new if need be, or `:memory:`.

    `busy_seconds` is how long to wait for another process.
    """

    def __init__(self, path: str, *, busy_seconds: float = 5) -> None:
        self._database = Database(path, sqlite_format.prepare, busy_seconds=busy_seconds)

    def close(self) -> None:
        """Let go of the file; whatever is asked afterwards is `Unavailable`."""
        self._database.close()

    def problems(self, *, quickly: bool = False) -> Iterator[str]:
        """What is wrong with the file itself, found by reading all of it. Raises `Unavailable`."""
        with self._database as connection:
            found = list(sqlite_format.problems(connection, quickly=quickly))
        yield from found

    def get(self, key: Key) -> Item | None:
        """The item, or None where there is none. Raises `Unavailable`."""
        with self._database as connection:
            row = _row(connection, key)
        return None if row is None else _decode_at(key, row)

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """The items that exist among `keys`. Raises `Unavailable`."""
        wanted = dict.fromkeys(keys)
        with self._database as connection:
            rows = [(key, _row(connection, key)) for key in wanted]
        return {key: _decode_at(key, row) for key, row in rows if row is not None}

    def query(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[Entry]:
        """The partition's entries in order, a page at a time. Raises `Unavailable`."""
        seed = sqlite_format.seed(*partition)
        order = _DOWN if newest_first else _UP
        low = _LOWEST if after is None else after
        high = _HIGHEST if before is None else before
        while limit is None or limit > 0:
            size = _PAGE if limit is None else min(_PAGE, limit)
            rows = self._page(_ITEMS + order, partition, (low, high, size), order)
            for sk, item, checksum in rows:
                yield Entry(sk, _decode(seed, sk, item, checksum))
            if len(rows) < size:
                return
            low, high = (low, rows[-1][0]) if newest_first else (rows[-1][0], high)
            limit = None if limit is None else limit - size

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[list[tuple[str, Value]]]:
        """The sort keys after `after`, each with one attribute. Raises `Unavailable`."""
        seed = sqlite_format.seed(*partition)
        low = _LOWEST if after is None else after
        while True:
            bounds = (low, _HIGHEST, _PAGE)
            rows = self._page(_COLUMN + _UP, partition, bounds, _UP, attribute.encode())
            yield [
                (sk, item and _decode(seed, sk, item, checksum).get(attribute))
                for sk, item, checksum in rows
            ]
            if len(rows) < _PAGE:
                return
            low = rows[-1][0]

    def _page(
        self,
        statement: str,
        partition: Partition,
        bounds: tuple[str, str | bytes, int],
        order: str,
        *first: bytes,
    ) -> list[tuple[Any, ...]]:
        """The rows between the bounds. Raises `Corrupt` unless `places` has the same sort keys."""
        place = sqlite_format.place(*partition)
        # Neither lock nor cursor outlives a page: the caller may write between two.
        with self._database.snapshot() as connection:
            rows = connection.execute(statement, (*first, *partition, *bounds)).fetchall()
            names = connection.execute(_NAMES + order, (place, *bounds)).fetchall()
        if [row[0] for row in rows] != [name for (name,) in names]:
            raise Corrupt(CORRUPT)
        return rows

    def write(self, *changes: Change) -> None:
        """Apply every change or none.

        Raises `Conflict` with the keys whose expectation did not hold, and `Unavailable`.
        """
        check_write(changes)
        with self._database.transaction() as connection:
            lost = [change.key for change in changes if not _holds(connection, change)]
            if lost:
                raise Conflict(lost)
            for change in changes:
                _apply(connection, change)


def _row(connection: sqlite3.Connection, key: Key) -> _Row | None:
    """The item of a key as it is stored. Raises `Corrupt` where only `places` has the key."""
    row: _Row | None = connection.execute(_GET, key).fetchone()
    if row is None:
        row = connection.execute(_CONFIRM, (*key, *_place(key))).fetchone()
        if row == (None, None):
            raise Corrupt(CORRUPT)
    return row


def _place(key: Key) -> tuple[int, str]:
    return sqlite_format.place(key.table, key.pk), key.sk


def _holds(connection: sqlite3.Connection, change: Change) -> bool:
    if change.expect is Expect.ANYTHING:
        return True
    row = _row(connection, change.key)
    if not isinstance(change.expect, At):
        return (row is not None) == (change.expect is Expect.PRESENT)
    version = None if row is None else _decode_at(change.key, row).get("version")
    return type(version) is int and version == change.expect.version


def _apply(connection: sqlite3.Connection, change: Change) -> None:
    match change:
        case Put(key=key, item=item):
            _put(connection, key, item)
        case Delete(key=key):
            connection.execute(_DELETE, key)
            connection.execute(_DELETE_PLACE, _place(key))
        case Increment(key=key):
            row = _row(connection, key)
            item = {} if row is None else _decode_at(key, row)
            _put(connection, key, _added(item, change))
        case Check():
            pass


def _put(connection: sqlite3.Connection, key: Key, item: Item) -> None:
    encoded = cbor2.dumps(dict(item))
    seed = sqlite_format.seed(key.table, key.pk)
    connection.execute(_PUT, (*key, encoded, sqlite_format.checksum(seed, key.sk, encoded)))
    connection.execute(_PUT_PLACE, _place(key))


def _added(item: Item, change: Increment) -> dict[str, Value]:
    sums = dict(item)
    for name, amount in change.amounts.items():
        held = sums.get(name, 0)
        if type(held) is not int:
            raise TypeError("only an integer is incremented")
        sums[name] = held + amount
    return sums | dict(change.assign)


def _decode_at(key: Key, row: _Row) -> dict[str, Value]:
    return _decode(sqlite_format.seed(key.table, key.pk), key.sk, *row)


def _decode(seed: int, sk: str, encoded: object, checksum: object) -> dict[str, Value]:
    if type(encoded) is not bytes or checksum != sqlite_format.checksum(seed, sk, encoded):
        raise Corrupt(CORRUPT)
    try:
        item = cbor2.loads(encoded)
    except cbor2.CBORDecodeError as error:
        raise Corrupt(CORRUPT) from error
    if not isinstance(item, dict):
        raise Corrupt(CORRUPT)
    return item
