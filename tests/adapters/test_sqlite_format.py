"""The format of the SQLite file: checks of what it holds, upgrades, and files that are refused."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import cbor2
import pytest

from shared.adapters.sqlite import SqliteStore
from shared.adapters.sqlite_buckets import SqliteBuckets
from shared.adapters.sqlite_format import FORMAT
from shared.errors import Corrupt, ExpectationLost, InvalidSettings, Unavailable
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
    Where,
)
from tests.processes import figures_of

PARTITION = Partition(Table.REVOCATIONS, "t1#revoked#00")
KEY, OTHER = PARTITION.address("svc_wrt_1"), PARTITION.address("svc_wrt_2")

# As the first release made it.
_FIRST_SCHEMA = """
CREATE TABLE items (
    tbl TEXT NOT NULL, pk TEXT NOT NULL, sk TEXT NOT NULL, item BLOB NOT NULL,
    PRIMARY KEY (tbl, pk, sk)
) WITHOUT ROWID;
CREATE TABLE writes (
    token TEXT NOT NULL PRIMARY KEY, digest BLOB NOT NULL, made_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX writes_by_age ON writes (made_at);
CREATE TABLE buckets (name TEXT NOT NULL PRIMARY KEY, full_at INTEGER NOT NULL) WITHOUT ROWID;
"""


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
    "an item is lost": (
        "DELETE FROM items WHERE sk = 'svc_wrt_1'",
        "1 items are missing from the table items",
    ),
    "a place is lost": (
        "DELETE FROM places WHERE sk = 'svc_wrt_1'",
        "1 items are missing from the table places",
    ),
    "an item is altered": (
        "UPDATE items SET item = x'a0' WHERE sk = 'svc_wrt_1'",
        "1 items do not match their checksum",
    ),
    "a key is altered": (
        "UPDATE items SET sk = 'svc_wrt_0' WHERE sk = 'svc_wrt_1'",
        "1 items do not match their checksum",
    ),
    "an item is no longer bytes": (
        "UPDATE items SET item = 'text' WHERE sk = 'svc_wrt_1'",
        "1 items do not match their checksum",
    ),
}
READS: dict[str, Callable[[SqliteStore], object]] = {
    "get": lambda store: store.get(KEY),
    "get_many": lambda store: store.get_many([KEY, OTHER]),
    "query": lambda store: list(store.query(PARTITION)),
    "query backwards": lambda store: list(store.query(PARTITION, newest_first=True, limit=2)),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("damage", ["an item is lost", "an item is altered", "a key is altered"])
def test_what_is_lost_is_not_absent(store: SqliteStore, path: Path, read: str, damage: str) -> None:
    """F54: a read of an item that is in one tree only, or altered, says that it is damaged."""
    change_behind_its_back(path, DAMAGE[damage][0])
    with pytest.raises(Corrupt):
        READS[read](store)
    assert store.get(OTHER) == {"n": 2, "version": 1}


def test_a_column_without_an_item_is_damaged(store: SqliteStore, path: Path) -> None:
    """F54: a walk over one attribute misses no item either."""
    change_behind_its_back(path, DAMAGE["an item is lost"][0])
    with pytest.raises(Corrupt):
        list(store.column(PARTITION, "n"))


CHANGES: dict[str, Change] = {
    "put": Put(KEY, {}, Expect.ABSENT),
    "delete": Delete(KEY, Expect.PRESENT),
    "check": Check(KEY, Expect.ABSENT),
    "increment": Increment(KEY, {"n": 1}, Expect.ANYTHING),
}


@pytest.mark.parametrize("change", CHANGES)
def test_no_expectation_holds_on_what_is_lost(store: SqliteStore, path: Path, change: str) -> None:
    """F54: whether a lost item is there is not known, so nothing is decided on it."""
    change_behind_its_back(path, DAMAGE["an item is lost"][0])
    with pytest.raises(Corrupt):
        store.write(CHANGES[change])


def test_what_is_lost_can_be_replaced_or_removed(store: SqliteStore, path: Path) -> None:
    """A change that expects nothing makes the item whole again, or is rid of it."""
    change_behind_its_back(path, "DELETE FROM items")
    store.write(Put(KEY, {"n": 3}, Expect.ANYTHING), Delete(OTHER, Expect.ANYTHING))
    assert store.get_many([KEY, OTHER]) == {KEY: {"n": 3}}
    assert list(store.problems()) == []


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


# --- other formats ---


def first_format(path: Path, items: dict[Address, Item]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(_FIRST_SCHEMA)
        rows = [(*key, cbor2.dumps(dict(item))) for key, item in items.items()]
        connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?)", rows)
        connection.execute("INSERT INTO writes VALUES ('token', x'00', 1.5)")


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


@pytest.mark.parametrize("number", [0, 1, 2500])
def test_a_file_of_the_first_format_is_upgraded(path: Path, number: int) -> None:
    """OPS-11, F56a: A `svc.db` of the first release is upgraded without loss when it is opened."""
    keys = [PARTITION.address(f"svc_wrt_{each:04}") for each in range(number)]
    items: dict[Address, Item] = {key: {"n": index, "b": b"\0"} for index, key in enumerate(keys)}
    first_format(path, items)
    for _ in range(2):
        with closing(SqliteStore(str(path))) as store, closing(SqliteBuckets(str(path))):
            assert {
                PARTITION.address(each.sk): each.item for each in store.query(PARTITION)
            } == items
            assert store.get_many(keys) == items
            assert list(store.problems()) == []
    assert version(path) == FORMAT
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        assert {name for (name,) in tables} == {
            *("items", "places", "tallies", "unindexed", "expiring", "buckets")
        }


def test_a_file_of_the_second_format_is_upgraded(path: Path) -> None:
    """F56: it lacks only what finds and counts audit entries, which is made of those there are."""
    keys = [Address(Table.AUDIT, "t1#2026-11", f"svc_evt_{number:026}") for number in range(1500)]
    with closing(SqliteStore(str(path))) as store:
        for start in range(0, len(keys), 100):
            several = keys[start : start + 100]
            store.write(*(Put(key, {"actor": key.sk[-1]}, Expect.ABSENT) for key in several))
    drops = [f"DROP TRIGGER audit_{name}" for name in ("inserted", "updated", "deleted")]
    drops += ["DROP TABLE tallies", "DROP TABLE unindexed", "DROP TABLE expiring"]
    drops.append("PRAGMA user_version = 2")
    for statement in drops:
        change_behind_its_back(path, statement)
    for _ in range(2):
        with closing(SqliteStore(str(path))) as store:
            audit = Partition(Table.AUDIT, "t1#2026-11")
            assert store.count(audit) == 1500
            assert store.count(audit, where=Where({"actor": "7"})) == 150
            assert list(store.problems()) == []
    assert version(path) == FORMAT


def test_a_file_of_the_third_format_is_upgraded(path: Path) -> None:
    """F56: it lacks only what finds outcomes of requests, of which it has none."""
    with closing(SqliteStore(str(path))) as store:
        store.write(Put(KEY, {"n": 1}, Expect.ABSENT))
    for statement in ("DROP TABLE expiring", "PRAGMA user_version = 3"):
        change_behind_its_back(path, statement)
    with closing(SqliteStore(str(path))) as store:
        store.write(Put(Address(Table.KEYS, "t1#once#0"), {"expires": 1}, Expect.ABSENT))
        assert (store.get(KEY), store.remove_expired(before=2)) == ({"n": 1}, 1)
    assert version(path) == FORMAT


def test_processes_upgrade_a_file_once(path: Path) -> None:
    """F56: of processes that open an older file at once, one upgrades it and all work on it."""
    first_format(path, {KEY: {"n": 0}})
    program = f"""
from shared.adapters.sqlite import SqliteStore
from shared.ports.store import Expect, Increment, Address, Table
store = SqliteStore({str(path)!r})
key = Address(Table.REVOCATIONS, "t1#revoked#00", "svc_wrt_1")
for _ in range(10):
    store.write(Increment(key, {{"n": 1}}, Expect.PRESENT))
print(10)
"""
    assert sum(figures_of(program, processes=3)) == 30
    with closing(SqliteStore(str(path))) as store:
        assert store.get(KEY) == {"n": 30}


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    """F56: an upgrade is whole or not at all, and the file opens once the cause is gone."""
    first_format(path, {KEY: {"n": 1}})
    change_behind_its_back(path, "CREATE TABLE places (in_the_way)")
    with pytest.raises(Unavailable):
        SqliteStore(str(path))
    assert version(path) == 0
    change_behind_its_back(path, "DROP TABLE places")
    with closing(SqliteStore(str(path))) as store:
        assert store.get(KEY) == {"n": 1}


def test_a_damaged_file_is_not_upgraded(path: Path) -> None:
    """F56: no checksum is made over what is damaged already."""
    first_format(path, {PARTITION.address(f"svc_wrt_{n}"): {"text": "x" * 99} for n in range(99)})
    path.write_bytes(path.read_bytes().replace(b"svc_wrt_50", b"svc_wrt_~0"))
    with pytest.raises(Unavailable) as caught:
        SqliteStore(str(path))
    assert "the file is damaged" in str(caught.value.__cause__)
    assert version(path) == 0


def test_a_file_of_a_newer_format_is_refused(store: SqliteStore, path: Path) -> None:
    """F56: a file of a release to come is left alone, with words that say why."""
    change_behind_its_back(path, f"PRAGMA user_version = {FORMAT + 1}")
    before = path.read_bytes()
    with pytest.raises(
        InvalidSettings, match=f"has format {FORMAT + 1}; this release reads format {FORMAT}"
    ):
        SqliteStore(str(path))
    assert path.read_bytes() == before


def test_the_release_before_cannot_write_to_an_upgraded_file(
    store: SqliteStore, path: Path
) -> None:
    """F56: a process of the first release that still runs is refused, and writes no bare item."""
    statement = "INSERT OR REPLACE INTO items (tbl, pk, sk, item) VALUES ('keys', 'p', 's', x'a0')"
    with pytest.raises(sqlite3.IntegrityError):
        change_behind_its_back(path, statement)


# --- what an operator is told ---


def test_a_full_disk_is_reported(store: SqliteStore) -> None:
    """F57a: If the disk is full, the error says so and stored data can still be read."""
    store._database.connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(Unavailable, match="The disk is full"):
        store.write(
            *(Put(PARTITION.address(str(n)), {"t": "x" * 4000}, Expect.ABSENT) for n in range(9))
        )
    assert store.get(KEY) == {"n": 1, "version": 1}


def test_a_read_only_file_is_reported(store: SqliteStore) -> None:
    """F57: where this user may not write, the error says so."""
    store._database.connection.execute("PRAGMA query_only = 1")
    with pytest.raises(Unavailable, match="read-only"):
        store.write(Put(KEY, {}, Expect.ANYTHING))


def test_a_lost_expectation_is_still_a_conflict(store: SqliteStore) -> None:
    """What is in both trees is present, and what is in neither is absent."""
    for change in (Put(KEY, {}, Expect.ABSENT), Delete(PARTITION.address("none"), Expect.PRESENT)):
        with pytest.raises(ExpectationLost):
            store.write(change)
