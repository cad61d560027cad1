"""What SQLite removes of the table `keys` once it has expired."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shared.adapters.local.sqlite import SqliteStore
from shared.ports.store import Address, Delete, Expect, Put, Table, VersionIs

ONCE = [Address(Table.KEYS, f"t1#once#{number}") for number in range(10)]
OTHERS = [Address(Table.KEYS, "t1"), Address(Table.REVOCATIONS, "t1#once#0")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "svc.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """Items that expire in turn, one that does not, and one of another table."""
    with closing(SqliteStore(str(path))) as store:
        expiring = (
            Put(each, {"expires": number, "version": 1}, Expect.ABSENT)
            for number, each in enumerate(ONCE)
        )
        store.write(*expiring, *(Put(each, {"expires": "never"}, Expect.ABSENT) for each in OTHERS))
        yield store


def left(store: SqliteStore) -> list[Address]:
    return [each for each in (*ONCE, *OTHERS) if store.get(each) is not None]


def test_items_are_removed_once_they_have_expired(store: SqliteStore) -> None:
    """F371b: SQLite removes outcomes of requests after they expired, a part at each call."""
    assert [store.remove_expired(before=5, most=3) for _ in range(3)] == [3, 2, 0]
    assert left(store) == [*ONCE[5:], *OTHERS]
    assert list(store.problems()) == []


def test_what_was_replaced_stays(store: SqliteStore) -> None:
    """F371: what expires later now is not removed, and what is gone already does no harm."""
    later = Put(ONCE[0], {"expires": 7, "version": 2}, VersionIs(1))
    store.write(later, Put(ONCE[1], {"version": 2}, VersionIs(1)), Delete(ONCE[2], VersionIs(1)))
    while store.remove_expired(before=5):
        pass
    assert left(store) == [ONCE[0], ONCE[1], *ONCE[5:], *OTHERS]
    while store.remove_expired(before=8):
        pass
    assert left(store) == [ONCE[1], *ONCE[8:], *OTHERS]


@pytest.mark.parametrize("copy", [rb"t1#once#a-\{[^}]*\}.{4,6}", rb""], ids=["row", "index"])
def test_a_flipped_bit_of_an_expiry_removes_nothing(path: Path, copy: bytes) -> None:
    """F371c: An item is removed only if its row and the index both say that it has expired."""
    item = Address(Table.KEYS, "t1#once#a")
    with closing(SqliteStore(str(path))) as store:
        store.write(Put(item, {"expires": 0x5234}, Expect.ABSENT))
    content = bytearray(path.read_bytes())
    after = b"" if copy else b"t1#once#a"
    found = re.search(copy + b"\x52\x34" + after, content, re.DOTALL)
    assert found is not None
    content[found.end() - len(after) - 2] ^= 0x40
    path.write_bytes(content)
    with closing(SqliteStore(str(path))) as damaged:
        assert damaged.remove_expired(before=0x4000) == 0
        assert damaged.get(item) is not None
