"""The store in SQLite, used by several threads at once."""

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from shared.adapters.local.sqlite import SqliteStore
from shared.errors import Unavailable
from shared.model.items import Address, Table
from shared.ports.store import Expect, Put

KEY = Address(Table.KEYS, "t1", "settings")
PUT = Put(KEY, {"name": "new"}, Expect.ANYTHING)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(str(path), busy_seconds=0.2)) as store:
        store.write(Put(KEY, {"name": "old"}, Expect.ABSENT))
        yield store


@pytest.fixture
def another() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_a_read_does_not_wait_for_a_write(store: SqliteStore, another: ThreadPoolExecutor) -> None:
    """F114c: With SQLite a read does not wait for a write of another thread."""
    with store._database.transaction():
        assert another.submit(store.get, KEY).result(timeout=60) == {"name": "old"}


def test_a_write_waits_for_a_short_one(store: SqliteStore, another: ThreadPoolExecutor) -> None:
    """F24: threads that write take turns, also those of another store on the same file."""
    with closing(SqliteStore(store._database._path, busy_seconds=0)) as impatient:
        with store._database.transaction():
            with pytest.raises(Unavailable):
                another.submit(impatient.write, PUT).result(timeout=60)
            writing = another.submit(store.write, PUT)
        writing.result(timeout=60)
    assert store.get(KEY) == {"name": "new"}


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_no_thread_opens_another_file(
    path: Path, store: SqliteStore, another: ThreadPoolExecutor, how: str
) -> None:
    """F117a: If the database file is exchanged, no thread opens the new one beside the old one."""
    shutil.copy(path, path.with_name("backup"))
    with store._database:
        path.rename(path.with_name("aside"))
        if how == "replaced":
            path.with_name("backup").rename(path)
        with pytest.raises(Unavailable):
            another.submit(store.get, KEY).result(timeout=60)
    assert path.exists() == (how == "replaced")
    assert store.get(KEY) == {"name": "old"}
