"""What PostgreSQL costs: its adapters beside the least that it can do, and beside SQLite and files.

The server is of this machine, and on its disk, with PostgreSQL's own settings for durability. What
computes is compared by processor time, and what waits by the median of its times.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final

import psycopg

from shared.adapters.local.filesystem import FileBlobs
from shared.adapters.local.sqlite import SqliteStore
from shared.adapters.postgresql.blobs import PostgresqlBlobs
from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.adapters.postgresql.store import PostgresqlStore
from shared.model.items import Partition, Table
from shared.ports.blobs import BlobStore
from shared.ports.store import Expect, Put, Store
from tests.bench import replicas
from tests.bench.measure import Side, alternate, on_one_processor, processor_seconds, timed
from tests.bench.report import Row, compared, progress, took
from tests.bench.scratch import scratch
from tests.kit.postgresql import PostgresqlServer, binaries

_MS: Final = ("ms", 1e3)
_BLOB_BYTES: Final = 8_500_000
_NAMES: Final = 20_000
_PART: Final = Partition(Table.KEYS, "bench")
_SELECT: Final = "SELECT item FROM items WHERE tbl = 0 AND pk = %s AND sk = %s"
# A server of tests has neither.
_DURABLE: Final = ("-c", "fsync=on", "-c", "full_page_writes=on")


def run(*, share: float = 1.0, rounds: int = 15) -> Iterator[Row]:
    """The adapters alone, and then three servers; `share` of the usual number of calls are made."""
    if sys.platform != "linux":
        yield Row.missing("PostgreSQL", "it needs Linux's /proc and clocks")
        return
    with scratch() as folder, _server() as server:
        with server.database("adapters") as url:
            yield from _adapters(url, folder, share, rounds)
        with server.database("replicas") as url:
            yield from replicas.run(server, url, folder, share=share, rounds=rounds)


@contextmanager
def _server() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer(binaries(), *_DURABLE)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def _adapters(url: str, folder: Path, share: float, rounds: int) -> Iterator[Row]:
    with ExitStack() as stack:
        database = stack.enter_context(closing(PostgresqlDatabase(url)))
        bare = stack.enter_context(psycopg.connect(url, autocommit=True, prepare_threshold=0))
        sqlite = stack.enter_context(closing(SqliteStore(str(folder / "store.db"))))
        store = PostgresqlStore(database)
        times = max(1, round(400 * share))
        yield _get(store, bare, times, rounds)
        yield _select(bare, sqlite, times, rounds)
        yield _write(store, bare, times, rounds)
        yield _column(store, sqlite, round(_NAMES * share), rounds)
        yield _blob(PostgresqlBlobs(database), FileBlobs(folder / "blobs"), rounds)


def _get(store: Store, bare: psycopg.Connection[Any], times: int, rounds: int) -> Row:
    progress("get")
    address = _PART.address("one")
    store.write(Put(address, _item(1), Expect.ANYTHING))

    def one() -> None:
        bare.execute("SELECT 1", binary=True).fetchall()

    sides = _p50(lambda: store.get(address), times), _p50(one, times)
    with on_one_processor():
        return _compared("get", "SELECT 1", sides, rounds, goal="≤ 1.6")


def _select(bare: psycopg.Connection[Any], sqlite: Store, times: int, rounds: int) -> Row:
    """The floor of a read, by processor time: the database is a child of this process."""
    progress("bare SELECT")
    address = _PART.address("one")
    sqlite.write(Put(address, _item(1), Expect.ANYTHING))
    key = address.pk.encode(), address.sk.encode()

    def one() -> None:
        bare.execute(_SELECT, key, binary=True).fetchall()

    def side(call: Callable[[], object]) -> Side:
        def seconds() -> float:
            before = processor_seconds(os.getpid())
            for _ in range(times):
                call()
            return (processor_seconds(os.getpid()) - before) / times

        return seconds

    ours, theirs = alternate(side(one), side(lambda: sqlite.get(address)), rounds=rounds)
    return compared("PostgreSQL: bare SELECT", ours, "get on SQLite", theirs, unit=("µs CPU", 1e6))


def _write(store: Store, bare: psycopg.Connection[Any], times: int, rounds: int) -> Row:
    progress("write of 5 items")
    bare.execute("CREATE TABLE bare (n bigint PRIMARY KEY, data bytea NOT NULL)")
    numbers, data = count(), os.urandom(100)

    def five() -> None:
        number = next(numbers)
        names = (f"{number}-{each}" for each in range(5))
        store.write(*(Put(_PART.address(each), _item(number), Expect.ABSENT) for each in names))

    def one() -> None:
        bare.execute("INSERT INTO bare VALUES (%s, %s)", (next(numbers), data), binary=True)

    times = max(1, times // 4)
    sides = _p50(five, times), _p50(one, times)
    return _compared("write of 5 items", "insert of a row", sides, rounds, goal="≤ 7")


def _column(store: Store, other: Store, number: int, rounds: int) -> Row:
    progress("column")
    partition = Partition(Table.REVOCATIONS, "bench")
    for each in (store, other):
        for start in range(0, number, 100):
            numbers = range(start, min(start + 100, number))
            each.write(*(Put(partition.address(f"{n:026}"), {}, Expect.ABSENT) for n in numbers))

    def read(of: Store) -> Callable[[], object]:
        return lambda: list(of.column(partition, "ends_at"))

    ours, theirs = alternate(timed(read(store)), timed(read(other)), rounds=rounds)
    name = f"PostgreSQL: column of {number:,}, client"
    return took(name, ours, unit=_MS, against="SQLite", of=theirs, goal="≤ 1")


def _blob(blobs: BlobStore, files: BlobStore, rounds: int) -> Row:
    progress("blob")
    names, data = count(), os.urandom(_BLOB_BYTES)

    def put(to: BlobStore) -> Side:
        return _p50(lambda: to.put(f"bench/{next(names)}", data), 1)

    sides = put(blobs), put(files)
    return _compared("put of a blob of 8.5 MB", "file", sides, rounds, goal="≤ 6")


def _compared(name: str, against: str, sides: tuple[Side, Side], rounds: int, *, goal: str) -> Row:
    for each in sides:
        each()
    ours, theirs = alternate(*sides, rounds=rounds)
    return compared(f"PostgreSQL: {name}, p50", ours, against, theirs, unit=_MS, goal=goal)


def _p50(call: Callable[[], object], times: int) -> Side:
    """The median of the seconds that a call takes by the clock."""

    def seconds() -> float:
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

    return lambda: median(seconds() for _ in range(times))


def _item(number: int) -> dict[str, Any]:
    return {"version": number, "name": "bench", "state": "active", "note": "0" * 60}
