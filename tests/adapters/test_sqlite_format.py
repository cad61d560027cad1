"""The format of the SQLite file: checks of its contents, and files that are refused."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from shared.adapters.local.sqlite import SqliteStore
from shared.adapters.local.sqlite_schema import FORMAT
from shared.errors import DataCorrupt, InvalidSettings, PreconditionFailed, Unavailable
from shared.ports.store import (
    Address,
    Change,
    Check,
    Delete,
    Expect,
    Increment,
    Item,
    Partition,
    Put,
    Table,
)

PARTITION = Partition(Table.REVOCATIONS, "t1#revoked#00")
KEY, OTHER = PARTITION.address("svc_wrt_1"), PARTITION.address("svc_wrt_2")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(str(path))) as opened:
        opened.write(Put(KEY, {"n": 1, "version": 1}, Expect.ABSENT))
        opened.write(Put(OTHER, {"n": 2, "version": 1}, Expect.ABSENT))
        yield opened


def change_behind_its_back(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


# --- what is damaged is found ---

DAMAGE: dict[str, tuple[str, str]] = {
    "an item is altered": (
        "UPDATE revocations SET item = '{}' WHERE sk = 'svc_wrt_1'",
        "1 items do not match their checksum",
    ),
    "a key is altered": (
        "UPDATE revocations SET sk = 'svc_wrt_0' WHERE sk = 'svc_wrt_1'",
        "1 items do not match their checksum",
    ),
    "an item is no longer text": (
        "UPDATE revocations SET item = x'00' WHERE sk = 'svc_wrt_1'",
        "1 items do not match their checksum",
    ),
}


def flip_key(path: Path, place: int) -> None:
    """Flip a bit of one of the two stored copies of `KEY`."""
    content = bytearray(path.read_bytes())
    places = [found.start() for found in re.finditer(rb"svc_wrt_1", content)]
    assert len(places) == 2
    content[places[place] + 8] ^= 4
    path.write_bytes(content)


READS: dict[str, Callable[[SqliteStore], object]] = {
    "get": lambda store: store.get(KEY),
    "get_many": lambda store: store.get_many([KEY, OTHER]),
    "query": lambda store: list(store.query(PARTITION)),
    "query backwards": lambda store: list(store.query(PARTITION, newest_first=True, limit=2)),
    "column": lambda store: list(store.column(PARTITION, "n")),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("damage", DAMAGE)
def test_an_altered_item_is_corrupt(store: SqliteStore, path: Path, read: str, damage: str) -> None:
    """F54: A read of an item that was altered says that it is damaged."""
    change_behind_its_back(path, DAMAGE[damage][0])
    # SQLite changes both trees, so the old key is absent. A column reads no empty item.
    if read != "column" and (damage != "a key is altered" or read not in ("get", "get_many")):
        with pytest.raises(DataCorrupt):
            READS[read](store)
    assert store.get(OTHER) == {"n": 2, "version": 1}


CHANGES: dict[str, Change] = {
    "put": Put(KEY, {}, Expect.ABSENT),
    "delete": Delete(KEY, Expect.PRESENT),
    "check": Check(KEY, Expect.ABSENT),
    "increment": Increment(KEY, {"n": 1}, Expect.ANYTHING),
}


@pytest.mark.parametrize("place", [0, 1])
def test_a_flipped_bit_of_a_key_never_reads_as_absent(
    store: SqliteStore, path: Path, place: int
) -> None:
    """F54: Whichever copy of a key has a flipped bit, no read and no write takes it for absent."""
    store.close()
    flip_key(path, place)
    with closing(SqliteStore(str(path))) as damaged:
        for read in READS.values():
            with suppress(DataCorrupt):
                assert read(damaged)
        for change in CHANGES.values():
            with suppress(PreconditionFailed, DataCorrupt):
                damaged.write(change)
        for name in ("query", "query backwards", "column"):
            with pytest.raises(DataCorrupt):
                READS[name](damaged)
        assert list(damaged.problems())


@pytest.mark.parametrize("damage", DAMAGE)
def test_each_damage_is_a_problem(store: SqliteStore, path: Path, damage: str) -> None:
    """Reading the whole file finds what a single read would find, and says of how many items."""
    assert list(store.problems()) == []
    statement, problem = DAMAGE[damage]
    change_behind_its_back(path, statement)
    assert problem in list(store.problems())


@pytest.mark.parametrize("quickly", [True, False])
def test_a_broken_tree_is_a_problem(path: Path, quickly: bool) -> None:
    """F55: what SQLite itself finds is told, quickly or not."""
    with closing(SqliteStore(str(path))) as store:
        keys = [PARTITION.address(f"svc_wrt_{number}") for number in range(100)]
        store.write(*(Put(key, {"text": "x" * 100}, Expect.ABSENT) for key in keys))
    content = bytearray(path.read_bytes())
    # The first byte of a page says of what kind it is.
    content[content.index(b"svc_wrt_50") // 4096 * 4096] = 0
    path.write_bytes(content)
    with closing(SqliteStore(str(path))) as store:
        found = list(store.problems(quickly=quickly))
    assert found
    assert found[0].startswith("SQLite reports: ")


# --- what the shell shows ---


def test_items_are_json(path: Path) -> None:
    """OPS-11: An item is JSON in the table of its name; bytes and any keys are read as stored."""
    item: Item = {"b": b"\0\xff", "m": {"$bytes": "AA=="}, "l": [{"$map": []}, 2**63]}
    with closing(SqliteStore(str(path))) as store:
        store.write(Put(KEY, item, Expect.ABSENT))
        assert store.get(KEY) == item
    with closing(sqlite3.connect(path)) as connection:
        (found,) = connection.execute("SELECT item ->> '$.b.$bytes' FROM revocations").fetchone()
    assert found == "AP8="


# --- other formats ---


@pytest.mark.parametrize("format_", [FORMAT - 1, FORMAT + 1])
def test_a_file_of_another_format_is_refused(store: SqliteStore, path: Path, format_: int) -> None:
    """OPS-11, F56a: A file of an older or newer format is refused unchanged, with both formats."""
    change_behind_its_back(path, f"PRAGMA user_version = {format_}")
    before = path.read_bytes()
    with pytest.raises(
        InvalidSettings, match=f"has format {format_}; this release reads format {FORMAT}"
    ):
        SqliteStore(str(path))
    assert path.read_bytes() == before


# --- what an operator is told ---


def test_a_full_disk_is_reported(store: SqliteStore) -> None:
    """F57a: If the disk is full, the error says so and stored data can still be read."""
    store._database.connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(Unavailable, match="The disk is full"):
        store.write(
            *(Put(PARTITION.address(str(n)), {"t": "x" * 4000}, Expect.ABSENT) for n in range(9))
        )
    assert store.get(KEY) == {"n": 1, "version": 1}


@pytest.mark.parametrize(
    "read", [lambda store, key: store.get(key), lambda store, key: store.get_many([key])]
)
def test_a_write_between_two_reads_is_no_damage(
    store: SqliteStore, path: Path, read: Callable[[SqliteStore, Address], object]
) -> None:
    """S6, F590d: A key that another process stores between two statements is not damaged."""
    key = PARTITION.address("svc_wrt_new")
    with closing(SqliteStore(str(path))) as other:

        def write(statement: str) -> None:
            if "_again" in statement and other.get(key) is None:
                other.write(Put(key, {"n": 3, "version": 1}, Expect.ABSENT))

        store._database.connection.set_trace_callback(write)
        assert read(store, key)
