"""Bells: how a commit of one process reaches those that wait in others (docs/adr/11)."""

import os
import select
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shared.adapters.local.sqlite import SqliteStore
from shared.model import feed
from shared.model.items import Address, Table
from shared.model.lists import schedule
from shared.ports.one_machine import CommitKind, Listener
from shared.ports.store import Expect, Put

_MARK = schedule.mark_address("tenant", "svc_wrt_a")
_HEAD = feed.head_address("tenant")
_OTHER = Address(Table.KEYS, "tenant", "key")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store so deep that the path of a socket could not name it."""
    return tmp_path / ("deep" * 30) / "svc.db"


@pytest.fixture
def store(file: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(str(file))) as opened:
        yield opened


def _listening(store: SqliteStore, news: CommitKind) -> Listener:
    listener = store.listen(news)
    assert listener is not None
    return listener


def _hears(listener: Listener) -> bool:
    heard = bool(select.select([listener.fileno()], [], [], 0)[0])
    listener.clear()
    return heard


def test_a_commit_rings_for_what_it_wrote(store: SqliteStore, file: Path) -> None:
    """F557a: A commit by any process rings for those that wait for it, and for no other."""
    with (
        closing(SqliteStore(str(file))) as other,
        closing(_listening(other, CommitKind.MARKS)) as marks,
        closing(_listening(other, CommitKind.FEED)) as heads,
    ):
        for address, heard in (
            (_MARK, (True, False)),
            (_HEAD, (False, True)),
            (_OTHER, (False,) * 2),
        ):
            store.write(Put(address, {"n": 1}, Expect.ANYTHING))
            assert (_hears(marks), _hears(heads)) == heard
    assert list(Path(f"{file}-news").iterdir()) == []


def test_a_burst_is_one_piece_of_news(store: SqliteStore) -> None:
    """F557b: After many rings, no write waits for a listener, and one look is enough."""
    with closing(_listening(store, CommitKind.MARKS)) as listener:
        for _ in range(100_000):
            listener.notify()
        store.write(Put(_MARK, {"n": 1}, Expect.ANYTHING))
        listener.wait(0)
        assert not _hears(listener)


def test_whoever_was_killed_is_forgotten(store: SqliteStore, file: Path) -> None:
    """F557c: Remains of a killed process are removed, and harm no write."""
    listener = _listening(store, CommitKind.MARKS)
    os.close(listener.fileno())
    folder = Path(f"{file}-news")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (folder / "marks-not-a-fifo").mkdir()
    store.write(Put(_MARK, {"n": 1}, Expect.ANYTHING))
    assert [each.name for each in folder.iterdir()] == ["marks-not-a-fifo"]
    assert store.get(_MARK) == {"n": 1}
