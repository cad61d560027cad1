"""The store in one SQLite file, for all threads and processes on one machine.

Each write is one transaction, which is on the disk before it is acknowledged. Tests use `:memory:`.
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final, TypeAlias, TypeVar

from shared.adapters.local import sqlite_schema
from shared.adapters.local.bells import FileNotifier
from shared.adapters.local.sqlite_database import MEMORY, Database
from shared.adapters.local.sqlite_schema import INDEXED, IS_REMOVED, column, from_row, to_row
from shared.adapters.preconditions import apply_increment, check_write, is_met
from shared.errors import DataCorrupt, PreconditionFailed, Unavailable
from shared.model.audit import audit_log
from shared.ports.one_machine import CommitKind, Listener
from shared.ports.store import (
    EVERYTHING,
    MOST_CHANGES,
    SEARCHED,
    Address,
    Change,
    ColumnPage,
    Delete,
    Expect,
    Increment,
    Item,
    ItemFilter,
    ItemRow,
    Partition,
    Put,
    Table,
)

_PAGE: Final = 1000
_PAGE_OF_NAMES: Final = 10_000
_DAY_SECONDS: Final = 24 * 3600

# A page of sort keys as one text, because as many rows take several times as long in Python.
_NAMES: Final = """SELECT json_group_array(sk) FROM (
    SELECT sk FROM {0} INDEXED BY {1}
    WHERE pk = ? AND sk > ? AND sk < ? ORDER BY sk {2} LIMIT ?)"""

# The columns for searches of audit entries, ordered by selectivity.
_BY_RARITY: Final = (
    "resource_id",
    "batch_id",
    "summary_id",
    "actor_key_id",
    "actor_id",
    "actor",
    "action",
)

# Bounds of all sort keys: no sort key is empty, and SQLite sorts every blob after every text.
_LOWEST: Final = ""
_HIGHEST: Final = b""

_Span: TypeAlias = tuple[str, str | bytes]
T = TypeVar("T")


class SqliteStore:
    """A `Store` in the file at `path`, which is created if it is missing, or `:memory:`.

    `busy_seconds` is the maximum wait for another process. Raises `InvalidSettings` for a file of
    another format, and `Unavailable`.
    """

    def __init__(self, path: str, *, busy_seconds: float = 5) -> None:
        self._database = Database(path, sqlite_schema.prepare, busy_seconds=busy_seconds)
        # Lock files and FIFOs are next to the resolved file, not next to a link to it.
        self._beside = None if path == MEMORY else str(Path(path).resolve())
        self._bells = FileNotifier(Path(f"{self._beside}-news")) if self._beside else None

    def close(self) -> None:
        """Close the file. Every later call raises `Unavailable`."""
        self._database.close()

    def listen(self, news: CommitKind) -> Listener | None:
        """Start listening for this kind; None for `:memory:`. Raises `OSError`."""
        return None if self._bells is None else self._bells.listen(news)

    def lock(self, name: str) -> Callable[[], None] | None:
        """Acquire the named lock, and return the function that releases it.

        The lock is also released when this process ends. Returns None if another process has the
        lock. For `:memory:`, the lock is always free. Raises `Unavailable`.
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

        def release() -> None:
            """Release the lock, even if a child process has the file open."""
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

        return release

    def problems(self, *, quickly: bool = False) -> Iterator[str]:
        """Read the whole file and yield a sentence for each problem. Raises `Unavailable`."""
        with self._database as connection:
            found = list(sqlite_schema.find_problems(connection, quickly=quickly))
        yield from found

    def made_at(self) -> str:
        """Return "", because `restore` itself marks the data that it restores."""
        return ""

    def get(self, address: Address) -> Item | None:
        """Return the item, or None if it does not exist. Raises `Unavailable`."""
        return self._read_surely(lambda connection: _read_one(connection, address))

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Item]:
        """Return the existing items. Raises `Unavailable`."""
        wanted = list(dict.fromkeys(addresses))
        found = self._read_surely(lambda connection: _read(connection, wanted))
        return {each: found[each] for each in wanted if each in found}

    def _read_surely(self, read: Callable[[Connection], T]) -> T:
        """Return the result of `read`. After damage is found, read again in a snapshot.

        A key that another connection stores between two statements would otherwise look like
        damage.
        """
        try:
            with self._database as connection:
                return read(connection)
        except DataCorrupt:
            with self._database.snapshot() as connection:
                return read(connection)

    def query(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        where: ItemFilter = EVERYTHING,
    ) -> Iterator[ItemRow]:
        """Yield the rows of the partition in order, read in pages. Raises `Unavailable`."""
        # SQL applies no other filter.
        sql_filter = where if _is_searched(partition, where) else EVERYTHING
        order = "DESC" if newest_first else "ASC"
        statement, values = _select("sk, item, checksum", partition, sql_filter)
        low, high = _span(after, before)
        missing = limit
        while missing is None or missing > 0:
            size = _PAGE if missing is None or where != sql_filter else min(_PAGE, missing)
            # No cursor stays open after a page, because the caller may write between two pages.
            with self._database.snapshot() as connection:
                rows = connection.execute(
                    f"{statement} ORDER BY sk {order} LIMIT ?",
                    (partition.pk, low, high, *values, size),
                ).fetchall()
                if partition.table is not Table.AUDIT:
                    again = _read_names(
                        connection, partition, f"{partition.table}_again", (low, high), order, size
                    )
                    if json.loads(again) != [row[0] for row in rows]:
                        raise DataCorrupt
            entries = (ItemRow(sk, from_row(partition.address(sk), *row)) for sk, *row in rows)
            matching = (row for row in entries if where == sql_filter or where.holds(row.item))
            for row in islice(matching, missing):
                yield row
                missing = None if missing is None else missing - 1
            if len(rows) < size:
                return
            low, high = (low, rows[-1][0]) if newest_first else (rows[-1][0], high)

    def query_many(
        self,
        partitions: Iterable[Partition],
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> dict[Partition, list[ItemRow]]:
        """Return the rows of each partition, read sequentially. Raises `Unavailable`."""
        read = partial(self.query, after=after, before=before, limit=limit)
        return {each: list(read(each)) for each in partitions}

    def count(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        where: ItemFilter = EVERYTHING,
    ) -> int:
        """Return the number of rows that `query` would yield. Raises `Unavailable`."""
        if not _is_searched(partition, where):
            return sum(1 for _ in self.query(partition, after=after, before=before, where=where))
        statement, values = _select("count(*)", partition, where)
        with self._database as connection:
            parameters = (partition.pk, *_span(after, before), *values)
            (found,) = connection.execute(statement, parameters).fetchone()
        return int(found)

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[ColumnPage]:
        """Yield the sort keys after `after` with one attribute. Raises `Unavailable`."""
        low = _LOWEST if after is None else after
        table, primary = partition.table, _primary(partition.table)
        index = primary if table is Table.AUDIT else f"{table}_again"
        between = f"FROM {table} INDEXED BY {primary} WHERE pk = ? AND sk > ? AND sk <= ?"
        # Most items are empty.
        count = f"""SELECT json_group_array(sk), count(*) FILTER (WHERE item IS NOT '{{}}')
            {between}"""
        having = f"SELECT sk, item, checksum {between} AND item IS NOT '{{}}'"
        while True:
            with self._database.snapshot() as connection:
                span = (low, _HIGHEST)
                found = _read_names(connection, partition, index, span, "ASC", _PAGE_OF_NAMES)
                names = json.loads(found)
                last = names[-1] if len(names) == _PAGE_OF_NAMES else _HIGHEST
                values = (partition.pk, low, last)
                kept, number = connection.execute(count, values).fetchone()
                if kept != found:
                    raise DataCorrupt
                rows = connection.execute(having, values).fetchall() if number else []
            items = ((sk, from_row(partition.address(sk), *row)) for sk, *row in rows)
            yield ColumnPage.of(names, items, attribute)
            if len(names) < _PAGE_OF_NAMES:
                return
            low = names[-1]

    def everything(self, table: Table) -> Iterator[tuple[Address, Item]]:
        """Yield all items of a table, in key order. Raises `Unavailable`."""
        after = f"FROM {table} INDEXED BY {{}} WHERE (pk, sk) > (?, ?) ORDER BY pk, sk LIMIT ?"
        statement = f"SELECT pk, sk, item, checksum {after.format(_primary(table))}"
        again = f"SELECT pk, sk {after.format(f'{table}_again')}"
        rows: list[Any] = [("", "")]
        while rows:
            values = (*rows[-1][:2], _PAGE)
            with self._database.snapshot() as connection:
                rows = connection.execute(statement, values).fetchall()
                if table is not Table.AUDIT:
                    keys = connection.execute(again, values).fetchall()
                    if keys != [row[:2] for row in rows]:
                        raise DataCorrupt
            for pk, sk, *row in rows:
                address = Address(table, pk, sk)
                yield address, from_row(address, *row)

    def remove_expired(self, *, before: int, most: int = _PAGE) -> int:
        """Delete expired items of the table `keys`, then expired audit entries.

        `before` is in seconds since the epoch. Items are deleted if they expired before it, and
        audit entries if they expired on an earlier day. Deletes at most `most` items, and returns
        their number; 0 if none is left. Raises `Unavailable`.
        """
        days = before - before % _DAY_SECONDS
        with self._database.transaction() as connection:
            for table, end in ((Table.KEYS, before), (Table.AUDIT, days)):
                # The condition is checked twice, so that a flipped bit in the index deletes no
                # item.
                rows = connection.execute(
                    f"""DELETE FROM {table} WHERE (pk, sk) IN (
                        SELECT pk, sk FROM {table} INDEXED BY {table}_expiring
                        WHERE {IS_REMOVED} AND expires < ? LIMIT ?)
                    AND +expires < ? RETURNING pk, sk, item, checksum""",  # noqa: S608
                    (end, most, end),
                ).fetchall()
                if table is Table.AUDIT:
                    _remove_indexed(connection, rows)
                if rows:
                    return len(rows)
        return 0

    def write(self, *changes: Change) -> None:
        """Apply all writes or none.

        Raises `PreconditionFailed` with the addresses of the failed preconditions, and
        `Unavailable`.
        """
        check_write(changes)
        with self._database.transaction() as connection:
            current = _read(
                connection,
                [
                    each.address
                    for each in changes
                    if each.expect is not Expect.ANYTHING or not isinstance(each, Put | Delete)
                ],
            )
            lost = [
                each.address
                for each in changes
                if not is_met(each.expect, current.get(each.address))
            ]
            if lost:
                raise PreconditionFailed(lost)
            for change in changes:
                address = change.address
                match change:
                    case Delete():
                        statement = f"DELETE FROM {address.table} WHERE pk = ? AND sk = ?"  # noqa: S608
                        connection.execute(statement, address[1:])
                    case Put(item=item):
                        connection.execute(_put(address.table), to_row(address, item))
                    case Increment():
                        item = apply_increment(current.get(address, {}), change)
                        connection.execute(_put(address.table), to_row(address, item))
        if self._bells is not None:
            self._bells.notify(change.address for change in changes)


def _read_one(connection: Connection, address: Address) -> Item | None:
    row = connection.execute(_get(address.table), address[1:]).fetchone()
    if row is None:
        _check_absent(connection, address.table, [address])
        return None
    return from_row(address, *row)


def _read(connection: Connection, addresses: Sequence[Address]) -> dict[Address, Item]:
    """Return the existing items. Raises `DataCorrupt` if one is damaged or lost."""
    found: dict[Address, Item] = {}
    for table in Table:
        of_table = [each for each in addresses if each.table is table]
        for start in range(0, len(of_table), MOST_CHANGES):
            part = of_table[start : start + MOST_CHANGES]
            values = [value for n, each in enumerate(part) for value in (n, each.pk, each.sk)]
            statement = _get_many("item, checksum", table, _primary(table), len(part))
            for n, *row in connection.execute(statement, values):
                found[part[n]] = from_row(part[n], *row)
            _check_absent(connection, table, [each for each in part if each not in found])
    return found


def _primary(table: Table) -> str:
    """Return the name of the primary key. Without it, SQLite may read another index."""
    return f"sqlite_autoindex_{table}_1"


@cache
def _get(table: Table) -> str:
    return f"""SELECT item, checksum FROM {table} INDEXED BY {_primary(table)}
        WHERE pk = ? AND sk = ?"""  # noqa: S608


@cache
def _get_many(columns: str, table: Table, index: str, number: int) -> str:
    return f"""WITH wanted (n, pk, sk) AS (VALUES {", ".join(["(?, ?, ?)"] * number)})
        SELECT n, {columns} FROM wanted CROSS JOIN {table}
        INDEXED BY {index} USING (pk, sk)"""  # noqa: S608


@cache
def _put(table: Table) -> str:
    columns = ["item", "checksum", "expires", *map(column, INDEXED[table])]
    updates = ", ".join(f"{each} = excluded.{each}" for each in columns)
    return f"""INSERT INTO {table} (pk, sk, {", ".join(columns)})
        VALUES (?, ?{", ?" * len(columns)}) ON CONFLICT DO UPDATE SET {updates}"""  # noqa: S608


def _check_absent(connection: Connection, table: Table, missing: Sequence[Address]) -> None:
    """Raise `DataCorrupt` if the second B-tree has the key of a missing item."""
    if not missing or table is Table.AUDIT:
        return
    values = [value for n, each in enumerate(missing) for value in (n, each.pk, each.sk)]
    statement = _get_many("1", table, f"{table}_again", len(missing))
    if connection.execute(statement, values).fetchone():
        raise DataCorrupt


def _remove_indexed(
    connection: Connection, rows: Iterable[tuple[str, str, object, object]]
) -> None:
    """Delete the warrant index entries of deleted audit entries."""
    for pk, sk, *row in rows:
        # If a deleted entry is damaged, its index entries remain.
        with suppress(DataCorrupt):
            item = from_row(Address(Table.AUDIT, pk, sk), *row)
            if named := audit_log.entry_of(pk, sk):
                connection.executemany(
                    "DELETE FROM audit WHERE pk = ? AND sk = ?",
                    [each[1:] for each, _ in audit_log.index_items(named[0], {**item, "id": sk})],
                )


def _read_names(
    connection: Connection, partition: Partition, index: str, span: _Span, order: str, size: int
) -> str:
    """Return the sort keys between the bounds in an index, as a JSON array."""
    statement = _NAMES.format(partition.table, index, order)
    (names,) = connection.execute(statement, (partition.pk, *span, size)).fetchone()
    return str(names)


def _select(columns: str, partition: Partition, where: ItemFilter) -> tuple[str, tuple[Any, ...]]:
    """Return a SELECT for the matching rows of a range, and the values after the range."""
    table = partition.table
    parts, names = ["pk = ?", "sk > ?", "sk < ?"], []
    for path in where.equal:
        if path in INDEXED[table]:
            names.append(column(path))
            parts.append(f"{column(path)} = ?")
        else:
            parts.append(f"json_extract(item, '$.{path}') = ?")
    values: tuple[Any, ...] = tuple(where.equal.values())
    if names:
        index = f"{table}_by_{min(names, key=_BY_RARITY.index)}"
    elif columns == "count(*)" and "#audit-of#" not in partition.pk:
        # This index has all entries, and is smaller than the table.
        index = "audit_by_time"
    else:
        index = _primary(table)
    if index in ("audit_by_action", "audit_by_time"):
        parts.append(sqlite_schema.IS_ENTRY)
    if where.alive_at is not None:
        parts.append("(expires IS NULL OR expires > ?)")
        values += (where.alive_at,)
    condition = " AND ".join(parts)
    return f"SELECT {columns} FROM {table} INDEXED BY {index} WHERE {condition}", values  # noqa: S608


def _is_searched(partition: Partition, where: ItemFilter) -> bool:
    """Return whether SQL filters the rows.

    Filter columns have no checksum, so SQL filters only audit entries, where the transparency log
    reveals a missing entry.
    """
    return partition.table is Table.AUDIT and where.equal.keys() <= set(SEARCHED[Table.AUDIT])


def _span(after: str | None, before: str | None) -> _Span:
    return _LOWEST if after is None else after, _HIGHEST if before is None else before
