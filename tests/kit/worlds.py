"""Worlds to test in: a clock that the test owns, and ports on the embedded adapters."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

from shared.adapters.local.file_root import FileRoot
from shared.adapters.local.file_sealer import FileSealer
from shared.adapters.local.filesystem import FileBlobs
from shared.adapters.local.sqlite import SqliteStore
from shared.adapters.local.sqlite_buckets import SqliteBuckets
from shared.adapters.stored_usage import StoreUsageCounts
from shared.ports import Ports
from shared.wiring import identifiers

_Adapter = TypeVar("_Adapter", SqliteStore, SqliteBuckets)


@dataclass
class Clock:
    """A clock that moves only when told to."""

    moment: datetime = field(default=datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC))

    def __call__(self) -> datetime:
        return self.moment

    def advance(self, **by: float) -> None:
        self.moment += timedelta(**by)


def embedded(folder: Path, clock: Callable[[], datetime], *, store: str = ":memory:") -> Ports:
    """Ports on one machine: SQLite, files below `folder`, two key files.

    SQLite is closed when the test drops them, or by `close`.
    """
    key_file, root = folder / "master.key", folder / "root.key"
    opened = _closed_when_dropped(SqliteStore(store))
    return Ports(
        store=opened,
        usage=StoreUsageCounts(opened),
        buckets=_closed_when_dropped(SqliteBuckets(store)),
        blobs=FileBlobs(folder / "blobs", clock=lambda: clock().timestamp()),
        sealer=FileSealer(key_file) if key_file.exists() else FileSealer.create(key_file),
        now=clock,
        new_id=identifiers(clock),
        root=FileRoot(root) if root.exists() else FileRoot.create(root),
    )


def _closed_when_dropped(adapter: _Adapter) -> _Adapter:
    """The adapter; from Python 3.13 on, a connection that nobody closed is a warning."""
    weakref.finalize(adapter, adapter._database.close)
    return adapter


@contextmanager
def in_memory(folder: Path) -> Iterator[None]:
    """Let a folder, which must not exist, be in memory if the machine has a file system there.

    Each blob is synchronized with the disk several times, which takes longer than most tests.
    """
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as kept:
        folder.symlink_to(kept)
        yield


def close(ports: Ports) -> None:
    """Let go of the file that store and buckets on one machine are in."""
    ports.close()
    # Those of `embedded` are closed one by one.
    for adapter in (ports.store, ports.buckets):
        if isinstance(adapter, SqliteStore | SqliteBuckets):
            adapter.close()
