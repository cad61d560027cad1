"""The store in one SQLite file, for one machine with any number of threads and processes.

Each write is one transaction, which is on the disk before it is acknowledged. Tests use `:memory:`.
"""

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from shared.adapters import sqlite_audit, sqlite_encoding, sqlite_items
from shared.adapters.bells import Bells
from shared.adapters.preconditions import check_write
from shared.adapters.sqlite_audit import Span
from shared.adapters.sqlite_database import MEMORY, Database
from shared.adapters.sqlite_encoding import MAY_HAVE
from shared.errors import Corrupt, ExpectationLost, Unavailable
from shared.ports.one_machine import Listener, News
from shared.ports.store import (
    EVERYTHING,
    Address,
    Change,
    ColumnPage,
    Item,
    Partition,
    Row,
    Table,
    Where,
)

_PAGE = 1000
# Of sort keys alone, which a page has as one text.
_PAGE_OF_NAMES = 10_000

_COUNT = "SELECT count(*) FROM items_5 WHERE pk = ? AND sk > ? AND sk < ?"
_ITEMS = "SELECT sk, item, checksum FROM items_5 WHERE pk = ?"
_COLUMN = f"""SELECT sk, CASE WHEN {MAY_HAVE} THEN item END, checksum
    FROM items_5 WHERE pk = ?"""  # noqa: S608
_ALL = """SELECT pk, sk, item, checksum FROM items_5
    WHERE (pk, sk) > (?, ?) AND pk < ? ORDER BY pk, sk LIMIT ?"""
_LOST = "SELECT (SELECT count(*) FROM places) - (SELECT count(*) FROM items_5)"
_NAMES = "SELECT sk FROM places WHERE partition = ?"
_UP = " AND sk > ? AND sk < ? ORDER BY sk LIMIT ?"
_DOWN = " AND sk > ? AND sk < ? ORDER BY sk DESC LIMIT ?"

# Sort keys as one text: as many rows in Python take several times as long. A literal, since SQLite
# would call `char` for each row.
_JOINED_NAMES = {
    order: f"SELECT group_concat(sk, '\n') FROM ({_NAMES}{order})"  # noqa: S608
    for order in (_UP, _DOWN)
}
# Also how many there are, and how many of the items may contain a text. Without a subquery, which
# takes twice as long: SQLite does not promise the order then.
_NAMED = f"""SELECT group_concat(sk, '\n'), count(*), count(*) FILTER (WHERE {MAY_HAVE})
    FROM items_5 WHERE pk = ? AND sk > ? AND sk <= ?"""  # noqa: S608
_KEPT_NAMES = f"SELECT sk FROM items_5 WHERE pk = ?{_UP}"  # noqa: S608
_HAVING = f"SELECT sk, item, checksum FROM ({_ITEMS}{_UP}) WHERE {MAY_HAVE}"  # noqa: S608

# Bounds of all sort keys: no sort key is empty, and SQLite sorts every blob after every text.
_LOWEST = ""
_HIGHEST = b""

# The exclusive bounds of sort keys, and the most rows.
_Bounds: TypeAlias = tuple[str, str | bytes, int]


class SqliteStore:
    """A `Store` in the file at `path`, which is created if it is missing, or `:memory:`.

    `busy_seconds` is how long to wait for another process. Raises `InvalidSettings` for a file of
    another format; `Unavailable`.
    """

    def __init__(self, path: str, *, busy_seconds: float = 5) -> None:
        self._database = Database(path, sqlite_items.prepare, busy_seconds=busy_seconds)
        # What is beside the file itself, whatever link led to it.
        self._beside = None if path == MEMORY else str(Path(path).resolve())
        self._bells = Bells(Path(f"{self._beside}-news")) if self._beside else None

    def close(self) -> None:
        """Close the file. Every later call raises `Unavailable`."""
        self._database.close()

    def listen(self, news: News) -> Listener | None:
        """Return what hears of such news; None for `:memory:`. Raises `OSError`."""
        return None if self._bells is None else self._bells.listen(news)

    def lock(self, name: str) -> Callable[[], None] | None:
        """Hold the lock of this name until this process ends, or calls what is returned.

        Returns None if another one has it; no other process has `:memory:`. Raises `Unavailable`.
        """
        if self._beside is None:
            return lambda: None
        try:
            descriptor = os.open(f"{self._beside}-{name}", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise Unavailable from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if isinstance(error, BlockingIOError):
                return None
            raise Unavailable from error
        return partial(_unlock, descriptor)

    def problems(self, *, quickly: bool = False) -> Iterator[str]:
        """Read the whole file and yield a sentence for each problem. Raises `Unavailable`."""
        with self._database as connection:
            found = list(sqlite_items.problems(connection, quickly=quickly))
        yield from found

    def made_at(self) -> str:
        """Return nothing: `restore` marks what it puts back."""
        return ""

    def get(self, address: Address) -> Item | None:
        """Return the item, or None if there is none. Raises `Unavailable`."""
        with self._database as connection:
            row = sqlite_items.stored(connection, address)
        return None if row is None else sqlite_items.decode_at(address, row)

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Item]:
        """Return the items that exist. Raises `Unavailable`."""
        wanted = list(dict.fromkeys(addresses))
        with self._database as connection:
            rows = sqlite_items.stored_many(connection, wanted)
        return {key: sqlite_items.decode_at(key, rows[key]) for key in wanted if key in rows}

    def query(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        where: Where = EVERYTHING,
    ) -> Iterator[Row]:
        """Yield the rows of the partition in order, read by pages. Raises `Unavailable`."""
        span = _span(after, before)
        if where == EVERYTHING:
            return self._walk(partition, span, newest_first=newest_first, limit=limit)
        parts = self._parts(partition, span, where, newest_first=newest_first)
        found = (
            entry
            for part in parts
            for entry in self._matching(partition, part, where, newest_first=newest_first)
        )
        return islice(found, limit)

    def query_many(
        self,
        partitions: Iterable[Partition],
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> dict[Partition, list[Row]]:
        """Return the rows of each partition, one after another. Raises `Unavailable`."""
        read = partial(self.query, after=after, before=before, limit=limit)
        return {each: list(read(each)) for each in partitions}

    def _matching(
        self, partition: Partition, span: Span, where: Where, *, newest_first: bool = False
    ) -> Iterator[Row]:
        """Yield the rows between the bounds that match `where`; few others are decoded."""
        text = max(where.equal.values(), key=len, default="").encode()
        walk = self._walk(partition, span, newest_first=newest_first, text=text)
        return (entry for entry in walk if where.holds(entry.item))

    def _walk(
        self,
        partition: Partition,
        span: Span,
        *,
        newest_first: bool,
        limit: int | None = None,
        text: bytes = b"",
    ) -> Iterator[Row]:
        """Yield the rows between the bounds; with `text`, only those whose bytes contain it."""
        order = _DOWN if newest_first else _UP
        low, high = span
        while limit is None or limit > 0:
            size = _PAGE if limit is None else min(_PAGE, limit)
            bounds = (low, high, size)
            rows = (
                self._page(_COLUMN + order, partition, bounds, order, text)
                if text
                else self._page(_ITEMS + order, partition, bounds, order)
            )
            for sk, item, checksum in rows:
                if item is None:
                    continue
                found = sqlite_items.decode_having(text, partition, sk, item, checksum)
                if found is not None:
                    yield Row(sk, found)
            if len(rows) < size:
                return
            low, high = (low, rows[-1][0]) if newest_first else (rows[-1][0], high)
            limit = None if limit is None else limit - size

    def _parts(
        self, partition: Partition, span: Span, where: Where, *, newest_first: bool
    ) -> list[Span]:
        """Return the parts of `span` that must be read, in the order of the iteration."""
        if not (where.equal and sqlite_audit.has_tallies(*partition)):
            return [span]
        with self._database.snapshot() as connection:
            if sqlite_audit.is_stale(connection):
                return [span]
            parts = list(sqlite_audit.holding(connection, _key(partition), where, span))
        return parts[::-1] if newest_first else parts

    def count(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        where: Where = EVERYTHING,
    ) -> int:
        """Return the number of rows that `query` would yield. Raises `Unavailable`.

        Entries of the audit table are counted by the tallies of their blocks, if there are tallies
        for these values.
        """
        if sqlite_audit.has_tallies(*partition) and sqlite_audit.is_tallied(where):
            found = self._tallied(partition, _span(after, before), where)
            if found is not None:
                return found
        return sum(1 for _ in self.query(partition, after=after, before=before, where=where))

    def _tallied(self, partition: Partition, span: Span, where: Where) -> int | None:
        """Count entries by their tallies; return None if these cannot be used now."""
        pk = _key(partition)
        if isinstance(span.before, str) and span.before <= span.after:
            return 0
        with self._database.snapshot() as connection:
            if sqlite_audit.is_stale(connection):
                return None
            tail = sqlite_audit.tail(connection, pk, where, span)
            total = sqlite_audit.inside(connection, pk, where, span) + tail.inside
            expiring = list(sqlite_audit.expiring(connection, pk, where, span, tail.expired))
            edges = sqlite_audit.edges(connection, pk, where, span)
        of_any_age = Where(where.equal)
        total += sum(self._count(partition, edge, of_any_age) for edge in edges)
        for part in expiring:
            entries = self._matching(partition, part, of_any_age)
            total -= sum(1 for entry in entries if not where.holds(entry.item))
        return total

    def _count(self, partition: Partition, span: Span, where: Where) -> int:
        if where == EVERYTHING:
            with self._database as connection:
                (found,) = connection.execute(_COUNT, (_key(partition), *span)).fetchone()
            return int(found)
        return sum(1 for _ in self._matching(partition, span, where))

    def index_audit_entries(self, *, most: int = _PAGE) -> int:
        """Add up to `most` audit entries to the index by which they are searched and counted.

        Returns how many they were; 0 means that none is left. Raises `Unavailable`.
        """
        with self._database as connection:
            if not sqlite_audit.is_behind(connection):
                return 0
        with self._database.transaction() as connection:
            return sqlite_audit.catch_up(connection, most)

    def remove_expired(self, *, before: int, most: int = _PAGE) -> int:
        """Remove items of the table `keys` that expired before `before`, then audit entries.

        Audit entries go if they expired on a day before that of `before`, which is in seconds since
        the epoch. Removes at most `most` items, and returns their number; 0 means that none is
        left. Raises `Unavailable`.
        """
        if removed := self._remove_expired_keys(before, most):
            return removed
        while self.index_audit_entries():
            pass
        with self._database.transaction() as connection:
            found = sqlite_audit.expired(connection, before, most)
            sqlite_items.delete(connection, found)
        return len(found)

    def _remove_expired_keys(self, before: int, most: int) -> int:
        with self._database.transaction() as connection:
            found = sqlite_items.take_expired(connection, before, most)
            for expires, address in found:
                row = sqlite_items.stored(connection, address)
                # A damaged item stays, as the doctor reports it.
                with suppress(Corrupt):
                    item = {} if row is None else sqlite_items.decode_at(address, row)
                    if item.get("expires") == expires:
                        sqlite_items.delete(connection, [address])
        return len(found)

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[ColumnPage]:
        """Yield the sort keys after `after` with one attribute. Raises `Unavailable`."""
        low = _LOWEST if after is None else after
        while True:
            page = self._part_of_column(partition, attribute, (low, _HIGHEST, _PAGE_OF_NAMES))
            yield page
            if len(page.names) < _PAGE_OF_NAMES:
                return
            low = page.names[-1]

    def _part_of_column(self, partition: Partition, attribute: str, bounds: _Bounds) -> ColumnPage:
        """Return the sort keys between the bounds, and the values of those that have one."""
        text, place = attribute.encode(), sqlite_encoding.place(*partition)
        with self._database.snapshot() as connection:
            (names,) = connection.execute(_JOINED_NAMES[_UP], (place, *bounds)).fetchone()
            keys = [] if names is None else names.split("\n")
            last = _HIGHEST if len(keys) < _PAGE_OF_NAMES else keys[-1]
            span = (text, _key(partition), bounds[0], last)
            *found, having = connection.execute(_NAMED, span).fetchone()
            if found != [names, len(keys)]:
                # A sort key contains a line feed, the order is another, or a key is missing.
                keys = [key for (key,) in connection.execute(_NAMES + _UP, (place, *bounds))]
                kept = connection.execute(_KEPT_NAMES, (_key(partition), *bounds))
                if keys != [key for (key,) in kept]:
                    raise Corrupt
                having = len(keys)
            values = (_key(partition), *bounds, text)
            rows = connection.execute(_HAVING, values).fetchall() if having else []
        found = ((sk, sqlite_items.decode(partition, sk, *row)) for sk, *row in rows)
        return ColumnPage.of(keys, found, attribute)

    def everything(self, table: Table) -> Iterator[tuple[Address, Item]]:
        """Yield all items of a table, in order of their keys. Raises `Unavailable`."""
        for letter in sqlite_encoding.LETTERS[table]:
            yield from self._of_letter(letter)
        with self._database as connection:
            (lost,) = connection.execute(_LOST).fetchone()
        if lost:
            raise Corrupt

    def _of_letter(self, letter: int) -> Iterator[tuple[Address, Item]]:
        rows: list[Any] = [(bytes([letter]), _LOWEST)]
        while rows:
            with self._database as connection:
                bounds = (*rows[-1][:2], bytes([letter + 1]), _PAGE)
                rows = connection.execute(_ALL, bounds).fetchall()
            for pk, sk, *row in rows:
                address = sqlite_items.address(pk, sk)
                yield address, sqlite_items.decode_at(address, (row[0], row[1]))

    def _page(
        self,
        statement: str,
        partition: Partition,
        bounds: _Bounds,
        order: str,
        *first: bytes,
    ) -> list[tuple[Any, ...]]:
        """Return the rows between the bounds. Raises `Corrupt` if `places` has other sort keys."""
        place = sqlite_encoding.place(*partition)
        # No lock or cursor stays open after a page: the caller may write between two pages.
        with self._database.snapshot() as connection:
            rows = connection.execute(statement, (*first, _key(partition), *bounds)).fetchall()
            (names,) = connection.execute(_JOINED_NAMES[order], (place, *bounds)).fetchone()
        if names != ("\n".join([row[0] for row in rows]) if rows else None):
            raise Corrupt
        return rows

    def write(self, *changes: Change) -> None:
        """Apply all changes or none.

        Raises `ExpectationLost`, with the addresses whose expectation failed, and `Unavailable`.
        """
        check_write(changes)
        with self._database.transaction() as connection:
            read = [each.address for each in changes if sqlite_items.is_read(each)]
            rows = sqlite_items.stored_many(connection, read)
            lost = [
                each.address
                for each in changes
                if not sqlite_items.holds(each, rows.get(each.address))
            ]
            if lost:
                raise ExpectationLost(lost)
            sqlite_items.apply(connection, changes, rows)
        if self._bells is not None:
            self._bells.ring(change.address for change in changes)


def _unlock(descriptor: int) -> None:
    """Release a lock, also if a child process has the file open."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _key(partition: Partition) -> bytes:
    return sqlite_encoding.partition(*partition)


def _span(after: str | None, before: str | None) -> Span:
    return Span(_LOWEST if after is None else after, _HIGHEST if before is None else before)
