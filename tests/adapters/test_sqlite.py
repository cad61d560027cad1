"""The store in SQLite: durability, contention, and what a broken file does."""

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shared.adapters.local import sqlite
from shared.adapters.local.sqlite import SqliteStore
from shared.errors import DataCorrupt, Unavailable
from shared.ports.store import Address, Delete, Expect, Increment, Partition, Put, Table, VersionIs
from tests.kit import sqlite_files
from tests.kit.processes import figures_of

KEY = Address(Table.KEYS, "t1", "settings")
OTHER = Address(Table.REVOCATIONS, "t1#revoked#00", "svc_wrt_1")
PARTITION = Partition(Table.REVOCATIONS, "t1#revoked#00")
ANYTHING, ABSENT, PRESENT = Expect.ANYTHING, Expect.ABSENT, Expect.PRESENT

CALLS: dict[str, Callable[[SqliteStore], object]] = {
    "get": lambda store: store.get(KEY),
    "get_many": lambda store: store.get_many([KEY, OTHER]),
    "query": lambda store: list(store.query(PARTITION)),
    "query_many": lambda store: store.query_many([PARTITION, PARTITION._replace(pk="none")]),
    "count": lambda store: store.count(PARTITION),
    "column": lambda store: list(store.column(PARTITION, "text")),
    "write": lambda store: store.write(Put(KEY, {}, ANYTHING)),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(str(path))) as opened:
        yield opened


def pragma(store: SqliteStore, name: str) -> object:
    return store._database.connection.execute(f"PRAGMA {name}").fetchone()[0]


# --- durability ---


def test_an_acknowledged_write_is_on_the_disk(store: SqliteStore) -> None:
    """The journal and the syncing that make a commit outlive a power cut are in force."""
    assert pragma(store, "journal_mode") == "wal"
    assert pragma(store, "synchronous") == 2


def test_a_write_outlives_the_process(path: Path) -> None:
    """F02: what a killed process was told is stored is there for the next one."""
    killed = f"""
import os
from shared.adapters.local import sqlite
from shared.adapters.local.sqlite import SqliteStore
from shared.ports.store import Expect, Address, Put, Table
address = Address(Table.KEYS, "t1", "settings")
SqliteStore({str(path)!r}).write(Put(address, {{"n": 1}}, Expect.ABSENT))
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", killed], check=True)
    with closing(SqliteStore(str(path))) as store:
        assert store.get(KEY) == {"n": 1}


def test_a_write_cut_off_is_undone(path: Path, store: SqliteStore) -> None:
    """F01: a process killed in the middle of a write leaves nothing of it, and no lock."""
    killed = f"""
import os
from shared.adapters.local import sqlite
from shared.adapters.local.sqlite import SqliteStore
store = SqliteStore({str(path)!r})
store._database.connection.execute("BEGIN IMMEDIATE")
insert = "INSERT INTO keys VALUES ('t1', 'settings', '{{}}', 0, NULL)"
store._database.connection.execute(insert)
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", killed], check=True)
    assert store.get(KEY) is None
    store.write(Put(KEY, {}, ABSENT))


# --- contention ---


@pytest.mark.slow
def test_many_processes_open_one_new_file(path: Path) -> None:
    """F30: processes started at once make one store; each step of a version has one winner."""
    program = f"""
from shared.adapters.local import sqlite
from shared.adapters.local.sqlite import SqliteStore
from shared.errors import PreconditionFailed
from shared.ports.store import Expect, Increment, Address, Put, Table, VersionIs
store = SqliteStore({str(path)!r})
head = Address(Table.REVOCATIONS, "t1#srl", "head")
won = 0
while (version := (store.get(head) or {{"version": 0}})["version"]) < 20:
    expect = VersionIs(version) if version else Expect.ABSENT
    try:
        store.write(Put(head, {{"version": version + 1}}, expect),
                    Put(head._replace(sk=str(version + 1)), {{}}, Expect.ABSENT))
        won += 1
    except PreconditionFailed:
        pass
print(won)
"""
    assert sum(figures_of(program, processes=3)) == 20


def test_a_locked_file_is_unavailable(path: Path) -> None:
    """F22: a write that another process blocks is given up after a while, and has not happened."""
    with (
        closing(SqliteStore(str(path))) as holder,
        closing(SqliteStore(str(path), busy_seconds=0.05)) as store,
    ):
        holder._database.connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unavailable) as caught:
            store.write(Put(KEY, {}, ABSENT))
        assert "lock" not in str(caught.value)
        assert store.get(KEY) is None
        holder._database.connection.execute("ROLLBACK")
        store.write(Put(KEY, {}, ABSENT))


def test_a_walk_holds_no_lock(path: Path, store: SqliteStore) -> None:
    """A walk that is left standing keeps nobody from writing."""
    store.write(*(Put(PARTITION.address(f"{number:03}"), {}, ABSENT) for number in range(100)))
    walk = store.query(PARTITION)
    next(walk)
    with closing(SqliteStore(str(path), busy_seconds=0.05)) as another:
        another.write(Delete(PARTITION.address("050"), PRESENT))
    store.write(Delete(PARTITION.address("051"), PRESENT))
    assert pragma(store, "wal_checkpoint(TRUNCATE)") == 0


# --- faults ---


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_store_is_unavailable(path: Path, call: str) -> None:
    """F22: after close nothing is answered, and closing twice is no fault."""
    store = SqliteStore(str(path))
    store.close()
    store.close()
    with pytest.raises(Unavailable):
        CALLS[call](store)


@pytest.mark.parametrize("call", CALLS)
def test_a_broken_file_is_unavailable(path: Path, store: SqliteStore, call: str) -> None:
    """F22: a table that cannot be read is an outage, never an absent item."""
    with closing(sqlite3.connect(path, isolation_level=None)) as vandal:
        for table in Table:
            vandal.execute(f"DROP TABLE {table}")
    with pytest.raises(Unavailable):
        CALLS[call](store)


def test_a_failed_write_leaves_no_transaction(path: Path, store: SqliteStore) -> None:
    """F25: a write that fails half way is undone, and the store goes on."""
    store._database.connection.execute(
        "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    )
    with pytest.raises(Unavailable):
        store.write(Put(KEY, {}, ANYTHING), Put(Address(Table.AUDIT, "t1"), {}, ANYTHING))
    assert store.get(KEY) is None
    store.write(Put(KEY, {}, ABSENT))


@pytest.mark.parametrize("parent", ["a file", "a folder"])
def test_a_file_that_cannot_be_opened_is_unavailable(tmp_path: Path, parent: str) -> None:
    """F22: no place to keep data in is an outage at the start."""
    (tmp_path / "a file").write_bytes(b"no database, and long enough to be taken for one" * 10)
    (tmp_path / "a folder").mkdir()
    for place in (tmp_path / parent, tmp_path / "a file" / "store.db"):
        with pytest.raises(Unavailable):
            SqliteStore(str(place))


@pytest.mark.parametrize("item", ["", "{", "text", "[1]", "null"], ids=repr)
def test_an_item_that_cannot_be_decoded_is_corrupt(store: SqliteStore, item: str) -> None:
    """F10: a malformed item is neither skipped nor absent, in any read or expectation."""
    sqlite_files.insert(store._database.connection, [(OTHER, item)])
    for call in ("get_many", "query", "column"):
        with pytest.raises(DataCorrupt):
            CALLS[call](store)
    for expect in (ABSENT, PRESENT, VersionIs(1)):
        with pytest.raises(DataCorrupt):
            store.write(Put(OTHER, {}, expect))
    store.write(Delete(OTHER, ANYTHING))


def test_sort_keys_with_line_feeds_are_told_apart(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F589c: A walk and a column keep sort keys with line feeds, and any number of them."""
    keys = sorted(["a", "a\nb", "b", "\n", *(f"c{number:04}" for number in range(2_500))])
    monkeypatch.setattr(sqlite, "_PAGE_OF_NAMES", 1_000)
    for sk in keys:
        store.write(Put(PARTITION.address(sk), {"n": sk} if "\n" in sk else {}, ABSENT))
    seen = [(sk, page.values.get(sk)) for page in store.column(PARTITION, "n") for sk in page.names]
    assert seen == [(sk, sk if "\n" in sk else None) for sk in keys]
    assert [row.sk for row in store.query(PARTITION)] == keys


def test_an_increment_of_a_text_changes_nothing(store: SqliteStore) -> None:
    """A fault in the code is no outage, and its write is undone as a whole."""
    store.write(Put(OTHER, {"n": "text"}, ABSENT))
    with pytest.raises(TypeError):
        store.write(Put(KEY, {}, ABSENT), Increment(OTHER, {"n": 1}, PRESENT))
    assert store.get_many([KEY, OTHER]) == {OTHER: {"n": "text"}}


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("bounds", [{}, {"after": "5", "before": "7"}, {"before": "7"}], ids=str)
def test_a_walk_is_one_range_of_the_index(
    store: SqliteStore, bounds: dict[str, str], newest_first: bool
) -> None:
    """F27b: The SQLite adapter reads a page by a search in its index, without sorting."""
    asked: list[str] = []
    store._database.connection.set_trace_callback(asked.append)
    list(store.query(PARTITION, newest_first=newest_first, **bounds))  # type: ignore[arg-type]
    plans = [
        store._database.connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        for statement in asked
        if statement.startswith("SELECT")
    ]
    steps = [[step[3] for step in plan] for plan in plans]
    assert steps[0] == ["SEARCH revocations USING PRIMARY KEY (pk=? AND sk>? AND sk<?)"]
    # The page of the names is one step, and joining them is the other.
    again = "SEARCH revocations USING COVERING INDEX revocations_again (pk=? AND sk>? AND sk<?)"
    assert again in steps[1]
    assert not [each for each in steps[1] if "B-TREE" in each]
    assert len(steps) == 2
