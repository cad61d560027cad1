"""How SQLite finds and counts audit entries, also when somebody else changed them."""

import itertools
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import cbor2
import pytest

from shared.adapters.sqlite import SqliteStore
from shared.ports.store import Address, Expect, Partition, Put, Table, Where
from tests.kit.sqlite_files import insert

PARTITION = Partition(Table.AUDIT, "t1#2026-11")
ALICE = Where({"actor": "alice"})
DAY = 86_400


def address(number: int) -> Address:
    """Keys that are in one block of time in their tens."""
    return PARTITION.address(f"svc_evt_{number // 10:06}{number:020}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture(params=[0, 15, 50], ids="{} indexed".format)
def store(path: Path, request: pytest.FixtureRequest) -> Iterator[SqliteStore]:
    """A store with fifty entries, of which alice made every second. So many are indexed."""
    with closing(SqliteStore(str(path))) as made:
        for number in range(50):
            item = {"actor": "alice" if number % 2 else "bob", "expires": number * DAY}
            made.write(Put(address(number), item, Expect.ABSENT))
        assert not request.param or made.index_audit_entries(most=request.param) == request.param
        yield made


def behind_its_back(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement, values)


def counts(store: SqliteStore) -> tuple[int, int, int]:
    """All entries, alice's, and those of hers that a walk finds."""
    found = [entry.item for entry in store.query(PARTITION, where=ALICE)]
    assert all(item["actor"] == "alice" for item in found)
    return store.count(PARTITION), store.count(PARTITION, where=ALICE), len(found)


def test_a_search_is_right_whatever_is_indexed(store: SqliteStore) -> None:
    """F590a: A search and a count find entries that are not indexed, within any bounds."""
    values: tuple[dict[str, str], ...]
    values = ({"actor": "alice"}, {"actor": "bob"}, {"actor": "bob", "action": "a"}, {})
    alive = (None, 0, 17 * DAY, 41 * DAY)
    bounds = (None, address(3).sk, address(10).sk, address(28).sk, address(44).sk)
    every = list(store.query(PARTITION))
    for equal, at, after, before in itertools.product(values, alive, bounds, bounds):
        where = Where(equal, alive_at=at)
        expected = [
            row
            for row in every
            if where.holds(row.item)
            and (after is None or row.sk > after)
            and (before is None or row.sk < before)
        ]
        found = store.query(PARTITION, where=where, after=after, before=before)
        assert list(found) == expected
        assert store.count(PARTITION, where=where, after=after, before=before) == len(expected)


def test_neither_a_write_nor_a_reader_indexes(store: SqliteStore, path: Path) -> None:
    """F590b: Entries are indexed only on request, also if another program changed them."""
    behind_its_back(path, "UPDATE items_5 SET checksum = checksum WHERE sk = ?", address(1).sk)
    connection = store._database.connection
    before = connection.total_changes
    assert counts(store) == (50, 25, 25)
    assert connection.total_changes == before
    store.write(Put(address(60), {"actor": "alice"}, Expect.ABSENT))
    (noted,) = connection.execute("SELECT sk FROM unindexed WHERE sk = ?", address(60)[2:])
    assert noted == address(60)[2:]
    while store.index_audit_entries(most=20):
        pass
    assert connection.execute("SELECT count(*) FROM unindexed").fetchone() == (0,)
    assert counts(store) == (51, 26, 26)


def test_entries_that_another_program_changed_are_found(store: SqliteStore, path: Path) -> None:
    """F70e: The SQLite adapter notices audit entries that another program changed."""
    behind_its_back(path, "DELETE FROM items_5 WHERE sk = ?", address(1).sk)
    behind_its_back(path, "DELETE FROM places WHERE sk = ?", address(1).sk)
    assert counts(store) == (49, 24, 24)
    store.write(Put(address(60), {"actor": "alice"}, Expect.ABSENT))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("DELETE FROM items_5 WHERE sk = ?", (address(3).sk,))
        connection.execute("DELETE FROM places WHERE sk = ?", (address(3).sk,))
        insert(connection, [(address(3), cbor2.dumps({"actor": "bob"}))])
        connection.execute("COMMIT")
    store.write(Put(address(61), {"actor": "alice"}, Expect.ABSENT))
    assert counts(store) == (51, 25, 25)


def test_what_expired_on_earlier_days_is_removed(store: SqliteStore) -> None:
    """F71: day by day, never before its day is over, and each time it is counted right."""
    assert store.remove_expired(before=10 * DAY) > 0
    while store.remove_expired(before=10 * DAY):
        pass
    assert counts(store) == (40, 20, 20)
    assert [entry.sk for entry in store.query(PARTITION, limit=1)] == [address(10).sk]
    assert store.remove_expired(before=11 * DAY - 1) == 0
    assert store.remove_expired(before=11 * DAY) == 1
    assert list(store.problems()) == []


def test_what_has_expired_and_is_there_is_not_counted(store: SqliteStore) -> None:
    """F71: an entry ends at its second, whenever it is removed."""
    alive = Where({"actor": "alice"}, alive_at=21 * DAY)
    assert store.count(PARTITION, where=alive) == 14
    assert len(list(store.query(PARTITION, where=alive))) == 14
    assert store.count(PARTITION, where=Where(alive_at=21 * DAY - 1)) == 29


def test_an_expired_entry_that_cannot_be_read_stays(store: SqliteStore, path: Path) -> None:
    """F71: it is not removed, and those after it are."""
    behind_its_back(path, "UPDATE items_5 SET item = x'ff' WHERE sk = ?", address(3).sk)
    while store.remove_expired(before=20 * DAY):
        pass
    assert store.count(PARTITION) == 31
