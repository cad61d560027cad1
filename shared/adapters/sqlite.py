"""The store in one SQLite file, for one machine: any number of threads and processes.

Each write is one transaction, on the disk before it is acknowledged. With `:memory:` it is the
test double.
"""

import sqlite3
from collections.abc import Iterable, Iterator

import cbor2

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

_SCHEMA = """
CREATE TABLE IF NOT EXISTS items (
    tbl TEXT NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL, item BLOB NOT NULL,
    PRIMARY KEY (tbl, pk, sk)
) WITHOUT ROWID;
"""

_GET = "SELECT item FROM items WHERE tbl = ? AND pk = ? AND sk = ?"
_PUT = "INSERT OR REPLACE INTO items (tbl, pk, sk, item) VALUES (?, ?, ?, ?)"
_DELETE = "DELETE FROM items WHERE tbl = ? AND pk = ? AND sk = ?"
_PAGE_UP = """SELECT sk, item FROM items
    WHERE tbl = ? AND pk = ? AND sk > ? AND sk < ? ORDER BY sk LIMIT ?"""
_PAGE_DOWN = """SELECT sk, item FROM items
    WHERE tbl = ? AND pk = ? AND sk > ? AND sk < ? ORDER BY sk DESC LIMIT ?"""
# An encoded item has the names of its attributes in it.
_COLUMN = """SELECT sk, CASE WHEN instr(item, ?) THEN item END FROM items
    WHERE tbl = ? AND pk = ? AND sk > ? ORDER BY sk LIMIT ?"""

# Bounds that hold every sort key: none is empty, and SQLite sorts any blob after every text.
_LOWEST = ""
_HIGHEST = b""


class SqliteStore:
    """A `Store` in the file at `path`, made new if need be, or `:memory:`.

    `busy_seconds` is how long to wait for another process.
    """

    def __init__(self, path: str, *, busy_seconds: float = 5) -> None:
        self._database = Database(path, _SCHEMA, busy_seconds=busy_seconds)

    def close(self) -> None:
        """Let go of the file; whatever is asked afterwards is `Unavailable`."""
        self._database.close()

    def get(self, key: Key) -> Item | None:
        """The item, or None where there is none. Raises `Unavailable`."""
        with self._database as connection:
            row = connection.execute(_GET, key).fetchone()
        return None if row is None else _decode(row[0])

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """The items that exist among `keys`. Raises `Unavailable`."""
        wanted = dict.fromkeys(keys)
        with self._database as connection:
            rows = [(key, connection.execute(_GET, key).fetchone()) for key in wanted]
        return {key: _decode(row[0]) for key, row in rows if row is not None}

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
        statement = _PAGE_DOWN if newest_first else _PAGE_UP
        low = _LOWEST if after is None else after
        high = _HIGHEST if before is None else before
        while limit is None or limit > 0:
            size = _PAGE if limit is None else min(_PAGE, limit)
            # Neither lock nor cursor outlives a page: the caller may write between two.
            with self._database as connection:
                rows = connection.execute(statement, (*partition, low, high, size)).fetchall()
            for sk, item in rows:
                yield Entry(sk, _decode(item))
            if len(rows) < size:
                return
            low, high = (low, rows[-1][0]) if newest_first else (rows[-1][0], high)
            limit = None if limit is None else limit - size

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[list[tuple[str, Value]]]:
        """The sort keys above `after`, each with one attribute. Raises `Unavailable`."""
        name, low = attribute.encode(), _LOWEST if after is None else after
        while True:
            with self._database as connection:
                rows = connection.execute(_COLUMN, (name, *partition, low, _PAGE)).fetchall()
            yield [(sk, item and _decode(item).get(attribute)) for sk, item in rows]
            if len(rows) < _PAGE:
                return
            low = rows[-1][0]

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


def _holds(connection: sqlite3.Connection, change: Change) -> bool:
    if change.expect is Expect.ANYTHING:
        return True
    row = connection.execute(_GET, change.key).fetchone()
    if not isinstance(change.expect, At):
        return (row is not None) == (change.expect is Expect.PRESENT)
    version = None if row is None else _decode(row[0]).get("version")
    return type(version) is int and version == change.expect.version


def _apply(connection: sqlite3.Connection, change: Change) -> None:
    match change:
        case Put(key=key, item=item):
            connection.execute(_PUT, (*key, cbor2.dumps(dict(item))))
        case Delete(key=key):
            connection.execute(_DELETE, key)
        case Increment(key=key):
            row = connection.execute(_GET, key).fetchone()
            item = {} if row is None else _decode(row[0])
            connection.execute(_PUT, (*key, cbor2.dumps(_added(item, change))))
        case Check():
            pass


def _added(item: dict[str, Value], change: Increment) -> dict[str, Value]:
    sums = dict(item)
    for name, amount in change.amounts.items():
        held = sums.get(name, 0)
        if type(held) is not int:
            raise TypeError("only an integer is incremented")
        sums[name] = held + amount
    return sums | dict(change.assign)


def _decode(blob: bytes) -> dict[str, Value]:
    try:
        item = cbor2.loads(blob)
    except cbor2.CBORDecodeError as error:
        raise Corrupt(CORRUPT) from error
    if not isinstance(item, dict):
        raise Corrupt(CORRUPT)
    return item
