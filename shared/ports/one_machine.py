"""Extras of the store and the blobs that a server on one machine needs.

Only adapters that keep their data on this machine's disk have these methods.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable


@runtime_checkable
class LocalStore(Protocol):
    """A store on this machine's disk."""

    def problems(self, *, quickly: bool = False) -> Iterator[str]:
        """Read everything and yield a sentence for each problem, without names of items.

        `quickly` omits the checks that read each item. Raises `Unavailable`.
        """
        ...


@runtime_checkable
class ExpiringStore(Protocol):
    """A store that removes expired items only when it is told to."""

    def remove_expired(self, *, before: int) -> int:
        """Remove some items of the table `keys` that expired before `before`, or audit entries.

        Audit entries go if they expired on a day before that of `before`, which is in seconds since
        the epoch. Returns how many were removed; 0 means that none is left. Raises `Unavailable`.
        """
        ...


@runtime_checkable
class ProcessLocks(Protocol):
    """A store that only this machine's processes use. The kernel knows which of them live."""

    def lock(self, name: str) -> Callable[[], None] | None:
        """Hold the lock of this name until this process ends, or calls what is returned.

        Returns None if another one has the lock. Raises `Unavailable`.
        """
        ...


class CommitKind(StrEnum):
    """The kinds of commits that other processes may hear of."""

    # A mark on a tenant was set or removed: its feed may have to be published.
    MARKS = "marks"
    # The head of a feed was written.
    FEED = "feed"


class Listener(Protocol):
    """Hears of news. Some may be lost, so whoever listens also looks by itself now and then."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when there are news."""
        ...

    def notify(self) -> None:
        """Pretend that there are news."""
        ...

    def clear(self) -> None:
        """Forget the news so far."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait for news, for so long at most, and forget them."""
        ...

    def close(self) -> None:
        """Hear nothing any more."""
        ...


@runtime_checkable
class NotifyingStore(Protocol):
    """A store whose writes other processes hear of."""

    def listen(self, news: CommitKind) -> Listener | None:
        """Return what hears of such news from now on, or None if looks have to do.

        Raises `OSError` if none can be heard.
        """
        ...


@runtime_checkable
class LinkedBlobs(Protocol):
    """Blobs that this service serves itself, by the addresses that `BlobStore.url` makes."""

    def open_url(self, name: str, *, expires: str, signature: str) -> Path | bytes | None:
        """Return the file or the bytes for the parts of such an address, as received.

        Returns None if the address was altered or has expired, or if there is no such blob. Raises
        `Unavailable`.
        """
        ...


@runtime_checkable
class LocalBlobs(Protocol):
    """Blobs in files on this machine's disk."""

    def remove_leftovers(self, *, older_than_seconds: float) -> int:
        """Remove old files of crashed writers, and return their number. Raises `Unavailable`."""
        ...
