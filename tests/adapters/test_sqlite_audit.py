"""How SQLite finds, counts and removes audit entries."""

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shared.adapters.local.sqlite import SqliteStore
from shared.ports.store import Address, Expect, ItemFilter, Partition, Put, Table

PARTITION = Partition(Table.AUDIT, "t1#2026-11")
ALICE = ItemFilter({"actor": "alice"})
DAY = 86_400


def address(number: int) -> Address:
    """Keys that are in one block of time in their tens."""
    return PARTITION.address(f"svc_evt_{number // 10:06}{number:020}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """A store with fifty entries, of which alice made every second."""
    with closing(SqliteStore(str(path))) as made:
        for number in range(50):
            item = {"actor": "alice" if number % 2 else "bob", "expires": number * DAY}
            made.write(Put(address(number), item, Expect.ABSENT))
        yield made


def counts(store: SqliteStore) -> tuple[int, int, int]:
    """All entries, alice's, and those of hers that a walk finds."""
    found = [entry.item for entry in store.query(PARTITION, where=ALICE)]
    assert all(item["actor"] == "alice" for item in found)
    return store.count(PARTITION), store.count(PARTITION, where=ALICE), len(found)


def test_a_search_is_right(store: SqliteStore) -> None:
    """F590a: A search and a count find the entries within any bounds, by any values."""
    values: tuple[dict[str, str], ...]
    values = ({"actor": "alice"}, {"actor": "bob"}, {"actor": "bob", "action": "a"}, {})
    alive = (None, 0, 17 * DAY, 41 * DAY)
    bounds = (None, address(3).sk, address(10).sk, address(28).sk, address(44).sk)
    every = list(store.query(PARTITION))
    for equal, at, after, before in itertools.product(values, alive, bounds, bounds):
        where = ItemFilter(equal, alive_at=at)
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
    alive = ItemFilter({"actor": "alice"}, alive_at=21 * DAY)
    assert store.count(PARTITION, where=alive) == 14
    assert len(list(store.query(PARTITION, where=alive))) == 14
    assert store.count(PARTITION, where=ItemFilter(alive_at=21 * DAY - 1)) == 29
