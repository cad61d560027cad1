"""The token buckets in SQLite: contention, and what a power failure or a broken file does."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from shared.adapters.local.sqlite import SqliteStore
from shared.adapters.local.sqlite_buckets import SqliteBuckets
from shared.errors import DataCorrupt
from tests.kit.processes import figures_of

NOW = 1_795_262_400_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "store.db"


@pytest.fixture
def buckets(path: Path) -> Iterator[SqliteBuckets]:
    with closing(SqliteBuckets(str(path))) as opened:
        yield opened


def test_a_lease_waits_for_no_disk_and_a_write_still_does(
    path: Path, buckets: SqliteBuckets
) -> None:
    """F25: in one file, a power failure may undo leases, and no write of the store."""
    with closing(SqliteStore(str(path))) as store:
        for adapter, synchronous in ((buckets, 1), (store, 2)):
            asked = adapter._database.connection.execute
            assert asked("PRAGMA journal_mode").fetchone() == ("wal",)
            assert asked("PRAGMA synchronous").fetchone() == (synchronous,)


def test_processes_lease_no_more_than_there_is(path: Path) -> None:
    """F32: processes that lease from one bucket at once get all its tokens, and not one more."""
    program = f"""
from shared.adapters.local.sqlite_buckets import SqliteBuckets
buckets = SqliteBuckets({str(path)!r})
leased = 0
while granted := buckets.lease("t1", 7, now={NOW}).granted:
    leased += granted
print(leased)
"""
    assert sum(figures_of(program, processes=3)) == 2000


@pytest.mark.parametrize("full_at", ["text", b"\xff", 1.5], ids=repr)
def test_a_bucket_that_cannot_be_read_is_corrupt(buckets: SqliteBuckets, full_at: object) -> None:
    """F10: a malformed bucket is neither full nor empty, and stays as it is."""
    connection = buckets._database.connection
    connection.execute("INSERT INTO buckets VALUES (?, ?)", ("t1", full_at))
    with pytest.raises(DataCorrupt):
        buckets.lease("t1", 1, now=NOW)
    assert connection.execute("SELECT full_at FROM buckets").fetchall() == [(full_at,)]
