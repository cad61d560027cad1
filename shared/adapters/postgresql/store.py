"""The store in PostgreSQL, for any number of servers.

Each write is one transaction in two round trips. The first locks and reads its items in the order
of their keys. The second changes them and commits. The transaction stores a token: if the outcome
of an attempt is unknown, the next attempt waits for it and finds the token (docs/adr/02).
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, islice
from typing import Final

import cbor2

from shared.adapters.postgresql import flaws
from shared.adapters.postgresql.database import (
    BEGUN,
    NOTIFY,
    Parameters,
    PooledConnection,
    PostgresqlDatabase,
    PostgresqlListener,
    execute_pipelined,
)
from shared.adapters.preconditions import apply_increment, check_write, is_met
from shared.errors import DataCorrupt, PreconditionFailed
from shared.model.lists import schedule
from shared.ports.one_machine import CommitKind, Listener
from shared.ports.store import (
    EVERYTHING,
    SEARCHED,
    Address,
    Change,
    Check,
    ColumnPage,
    ConfigurationProblem,
    Delete,
    Expect,
    Increment,
    Item,
    ItemFilter,
    ItemRow,
    Partition,
    Put,
    Table,
    Value,
    at_path,
)

_TABLES: Final = {Table.KEYS: 0, Table.REVOCATIONS: 1, Table.AUDIT: 2}
_PAGE: Final = 1000
_PAGE_OF_NAMES: Final = 10_000
# The maximum keys per statement, and the maximum keys per round trip.
_KEYS_MAX: Final = 32
_AT_ONCE: Final = 512
_DAY_SECONDS: Final = 24 * 3600
_INT8_MAX: Final = 2**63 - 1
# No text in UTF-8 has this byte, so it sorts after every sort key.
_HIGHEST: Final = b"\xff"

_KEY: Final = "tbl = %s AND pk = %s AND sk = %s"
_GET: Final = f"SELECT item FROM items WHERE {_KEY}"  # noqa: S608
_LOCK: Final = f"{_GET} FOR UPDATE"
# Several writes may depend on an item at the same time, and no write may change it until they end.
_SHARE: Final = f"{_GET} FOR SHARE"
_MADE: Final = """SELECT oid::bigint, 'items'::regclass::oid::bigint,
        to_regprocedure('aurora_version()') IS NULL AND NOT pg_is_in_recovery()
        AND has_function_privilege('pg_control_system()', 'EXECUTE')
    FROM pg_database WHERE datname = current_database()"""
_CLUSTER: Final = """SELECT system_identifier, left(pg_walfile_name(pg_current_wal_lsn()), 8)
    FROM pg_control_system()"""
_INSERT: Final = """INSERT INTO items (tbl, pk, sk, item, expires, terms)
    VALUES (%s, %s, %s, %s, %s, %s)"""
_UPDATE: Final = f"UPDATE items SET item = %s, expires = %s, terms = %s WHERE {_KEY}"  # noqa: S608
_DELETE: Final = f"DELETE FROM items WHERE {_KEY}"  # noqa: S608
# A separate join per partition always reads by the primary key, even without planner statistics.
_MANY: Final = """SELECT n, sk, item
    FROM unnest(%s::smallint[], %s::bytea[]) WITH ORDINALITY AS asked (tbl, pk, n)
    CROSS JOIN LATERAL (
        SELECT sk, item FROM items
        WHERE items.tbl = asked.tbl AND items.pk = asked.pk AND sk > %s AND sk < %s
        ORDER BY sk LIMIT %s) AS found
    ORDER BY n, sk"""
_ALL: Final = """SELECT pk, sk, item FROM items
    WHERE tbl = %s AND (pk, sk) > (%s, %s) ORDER BY pk, sk LIMIT %s"""
# The item is NULL if it cannot have the attribute.
_COLUMN: Final = """SELECT sk, CASE WHEN position(%s IN item) > 0 THEN item END FROM items
    WHERE tbl = %s AND pk = %s AND sk > %s ORDER BY sk LIMIT %s"""
_REMOVE_EXPIRED: Final = """DELETE FROM items WHERE (tbl, pk, sk) IN (
    SELECT tbl, pk, sk FROM items
    WHERE tbl <> 1 AND expires < %s AND (tbl = 0 OR expires < %s)
    LIMIT 1000 FOR UPDATE SKIP LOCKED) RETURNING 1"""
# Longer than any retry lasts. Selected by `ctid`, because a join would scan the whole index of
# tokens.
_REMOVE_TOKENS: Final = """DELETE FROM writes WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM writes WHERE at < now() - interval '1 day'
    LIMIT 10000 FOR UPDATE SKIP LOCKED)) RETURNING 1"""


class PostgresqlStore:
    """A `Store` in a database with tables from `rescind setup`."""

    def __init__(self, database: PostgresqlDatabase) -> None:
        self.database = database

    def close(self) -> None:
        """Close all connections. Every later call raises `Unavailable`."""
        self.database.close()

    def listen(self, news: CommitKind) -> Listener | None:
        """Start listening for outbox marks; None for other kinds."""
        return PostgresqlListener(self.database) if news is CommitKind.MARKS else None

    def made_at(self) -> str:
        """Return a fingerprint that changes when the database is restored.

        Recreated tables have other numbers, for example after `pg_restore`. Another cluster has
        another identifier. A point-in-time recovery or a promoted standby has another timeline. A
        copy of the disks has the same fingerprint. Raises `Unavailable`.
        """
        database, table, has_timeline = self.database.rows(_MADE)[0]
        cluster = self.database.rows(_CLUSTER)[0] if has_timeline else ()
        return ".".join(map(str, (database, table, *cluster)))

    def flaws(self) -> Iterator[ConfigurationProblem]:
        """Yield the problems of the database configuration. Raises `Unavailable`."""
        return flaws.flaws(self.database)

    def get(self, address: Address) -> Item | None:
        """Return the item, or None if it does not exist. Raises `Unavailable`."""
        rows = self.database.rows(_GET, _key(address))
        return _decode_row(rows[0][0]) if rows else None

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Item]:
        """Return the existing items. Raises `Unavailable`."""
        wanted = list(dict.fromkeys(addresses))
        found: dict[Address, Item] = {}
        for start in range(0, len(wanted), _AT_ONCE):
            ends = range(start, min(start + _AT_ONCE, len(wanted)), _KEYS_MAX)
            parts = [wanted[each : each + _KEYS_MAX] for each in ends]
            read = partial(execute_pipelined, statements=list(map(_get_all, parts)))
            for part, rows in zip(parts, self.database.run(read), strict=True):
                # The statement repeats the last key to fill its parts.
                found |= {part[min(n, len(part) - 1)]: _decode_row(item) for n, item in rows}
        return found

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
        is_exact = _is_searched(partition, where)
        order = "DESC" if newest_first else "ASC"
        missing = limit
        while missing is None or missing > 0:
            size = _PAGE if missing is None or not is_exact else min(_PAGE, missing)
            condition, values = _condition(partition, after, before, where)
            statement = f"SELECT sk, item FROM items WHERE {condition} ORDER BY sk {order} LIMIT %s"  # noqa: S608
            rows = self.database.rows(statement, (*values, size))
            entries = (ItemRow(sk.decode(), _decode_row(item)) for sk, item in rows)
            matching = (row for row in entries if is_exact or where.holds(row.item))
            for row in islice(matching, missing):
                yield row
                missing = None if missing is None else missing - 1
            if len(rows) < size:
                return
            last = rows[-1][0].decode()
            after, before = (after, last) if newest_first else (last, before)

    def query_many(
        self,
        partitions: Iterable[Partition],
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> dict[Partition, list[ItemRow]]:
        """Return the rows of each partition, in one statement if they are few.

        Raises `Unavailable`.
        """
        results: dict[Partition, list[ItemRow]] = {each: [] for each in partitions}
        wanted, size = list(results), _PAGE if limit is None else min(limit, _PAGE)
        # Text arrays, because psycopg encodes binary arrays slowly.
        tables = ",".join(str(_TABLES[each.table]) for each in wanted)
        keys = ",".join(f'"\\\\x{each.pk.encode().hex()}"' for each in wanted)
        bounds = ((after or "").encode(), _HIGHEST if before is None else before.encode())
        values = (f"{{{tables}}}", f"{{{keys}}}", *bounds, size)
        for n, sk, item in self.database.rows(_MANY, values):
            results[wanted[n - 1]].append(ItemRow(sk.decode(), _decode_row(item)))
        for each, rows in results.items():
            if size and len(rows) == size != limit:
                missing = None if limit is None else limit - size
                rows.extend(self.query(each, after=rows[-1].sk, before=before, limit=missing))
        return results

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
        condition, values = _condition(partition, after, before, where)
        rows = self.database.rows(f"SELECT count(*) FROM items WHERE {condition}", values)  # noqa: S608
        return int(rows[0][0])

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[ColumnPage]:
        """Yield the sort keys after `after` with one attribute. Raises `Unavailable`."""
        low = (after or "").encode()
        while True:
            values = (attribute.encode(), *_partition(partition), low, _PAGE_OF_NAMES)
            rows = self.database.rows(_COLUMN, values)
            names = [sk.decode() for sk, _ in rows]
            having = (
                (sk, row[1]) for sk, row in zip(names, rows, strict=True) if row[1] is not None
            )
            yield ColumnPage.of(names, ((sk, _decode_row(item)) for sk, item in having), attribute)
            if len(rows) < _PAGE_OF_NAMES:
                return
            low = rows[-1][0]

    def everything(self, table: Table) -> Iterator[tuple[Address, Item]]:
        """Yield all items of a table, in key order. Raises `Unavailable`."""
        rows: list[Parameters] = [(b"", b"")]
        while rows:
            rows = self.database.rows(_ALL, (_TABLES[table], *rows[-1][:2], _PAGE))
            for pk, sk, item in rows:
                yield Address(table, pk.decode(), sk.decode()), _decode_row(item)

    def remove_expired(self, *, before: int) -> int:
        """Delete a batch of expired items of the table `keys`, or expired audit entries.

        `before` is in seconds since the epoch. Items are deleted if they expired before it, and
        audit entries if they expired on an earlier day. Returns the number of deleted items; 0 if
        none is left. Raises `Unavailable`.
        """
        day = before - before % _DAY_SECONDS
        self.database.rows(_REMOVE_TOKENS)
        return len(self.database.rows(_REMOVE_EXPIRED, (before, day)))

    def write(self, *changes: Change) -> None:
        """Apply all writes or none.

        Raises `PreconditionFailed` with the addresses of the failed preconditions, and
        `Unavailable`.
        """
        check_write(changes)
        in_order = sorted(changes, key=lambda each: _key(each.address))
        token = uuid.uuid4()
        has_news = any(schedule.is_mark(each.address) for each in changes)
        # In the same transaction, notifications would make all commits wait for each other.
        next_statement = NOTIFY if has_news else None

        def attempt(connection: PooledConnection) -> None:
            """Apply the changes in one transaction, unless an earlier attempt has."""
            begin = [("BEGIN", ()), (BEGUN, (token,))]
            locks = [
                (_SHARE if isinstance(each, Check) else _LOCK, _key(each.address))
                for each in in_order
            ]
            _, is_first, *items = execute_pipelined(connection, [*begin, *locks])
            if is_first != [(True,)]:
                connection.commit_with([], next_statement=next_statement)
                return
            current = [_decode_row(rows[0][0]) if rows else None for rows in items]
            pairs = list(zip(in_order, current, strict=True))
            lost = [each.address for each, item in pairs if not is_met(each.expect, item)]
            if lost:
                raise PreconditionFailed(lost)
            statements = chain.from_iterable(_statements(each, item) for each, item in pairs)
            connection.commit_with(statements, next_statement=next_statement)

        self.database.run(attempt)


def _get_all(addresses: Sequence[Address]) -> tuple[str, Parameters]:
    """Return a statement that reads up to `_KEYS_MAX` items as pairs of number and item.

    It has a part for each key that reads by the whole primary key. The number of parts is a power
    of two, which limits the number of different statements. Surplus parts repeat the last address.
    """
    size = 1 << (len(addresses) - 1).bit_length()
    keys = list(map(_key, addresses))
    keys += keys[-1:] * (size - len(keys))
    return _union(size), tuple(chain.from_iterable(keys))


@cache
def _union(size: int) -> str:
    each = (f"SELECT {n}, item FROM items WHERE {_KEY}" for n in range(size))  # noqa: S608
    return " UNION ALL ".join(each)


def _statements(change: Change, item: Item | None) -> Iterator[tuple[str, Parameters]]:
    """Yield the statements of a write to a locked or absent item."""
    key, is_new = _key(change.address), item is None
    match change:
        case Put(item=new):
            yield _row_parameters(change.address, new, is_new=is_new)
        case Increment():
            new = apply_increment(item or {}, change)
            yield _row_parameters(change.address, new, is_new=is_new)
        case Delete() | Check() if change.expect is Expect.ABSENT:
            # A concurrent transaction that creates the item waits.
            yield _row_parameters(change.address, {}, is_new=True)
            yield _DELETE, key
        case Delete():
            # Even if the item was absent, because another write may have created it since.
            yield _DELETE, key


def _row_parameters(address: Address, item: Item, *, is_new: bool) -> tuple[str, Parameters]:
    expires, searched = item.get("expires"), SEARCHED[address.table]
    texts = {path: at_path(item, path) for path in searched}
    terms = [_term(path, value) for path, value in texts.items() if isinstance(value, str)]
    values = (
        cbor2.dumps(dict(item)),
        max(-_INT8_MAX, min(expires, _INT8_MAX)) if type(expires) is int else None,
        terms if searched else None,
    )
    return (_INSERT, (*_key(address), *values)) if is_new else (_UPDATE, (*values, *_key(address)))


def _term(path: str, value: str) -> str:
    # PostgreSQL's texts have no NUL.
    escaped = value.replace("\\", "\\\\").replace("\0", "\\0")
    return f"{path}={escaped}"


def _condition(
    partition: Partition, after: str | None, before: str | None, where: ItemFilter
) -> tuple[str, Parameters]:
    """Return the SQL condition for the rows, and its values.

    It contains only searchable paths of `where`.
    """
    terms = [
        _term(path, value)
        for path, value in where.equal.items()
        if path in SEARCHED[partition.table]
    ]
    parts: Mapping[str, Parameters] = {
        "tbl = %s AND pk = %s": _partition(partition),
        "sk > %s": ((after or "").encode(),),
        "sk < %s": () if before is None else (before.encode(),),
        "terms @> %s": (terms,) if terms else (),
        "(expires IS NULL OR expires > %s)": () if where.alive_at is None else (where.alive_at,),
    }
    used = {condition: values for condition, values in parts.items() if values}
    return " AND ".join(used), tuple(value for values in used.values() for value in values)


def _is_searched(partition: Partition, where: ItemFilter) -> bool:
    return where.equal.keys() <= set(SEARCHED[partition.table])


def _partition(partition: Partition) -> tuple[int, bytes]:
    return _TABLES[partition.table], partition.pk.encode()


def _key(address: Address) -> tuple[int, bytes, bytes]:
    return _TABLES[address.table], address.pk.encode(), address.sk.encode()


def _decode_row(data: bytes) -> dict[str, Value]:
    try:
        item = cbor2.loads(data)
    except cbor2.CBORDecodeError as error:
        raise DataCorrupt from error
    if not isinstance(item, dict):
        raise DataCorrupt
    return item
