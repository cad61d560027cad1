"""Extra methods of stores and blob stores for a server on one machine.

Only adapters that store data on the local disk have these methods.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable


@runtime_checkable
class LocalStore(Protocol):
    """A store on the local disk."""

    def problems(self, *, quickly: bool = False) -> Iterator[str]:
        """Read all data and yield a sentence for each problem, without item names.

        `quickly` skips the checks that read each item. Raises `Unavailable`.
        """
        ...


@runtime_checkable
class ExpiringStore(Protocol):
    """A store that deletes expired items only when this method is called."""

    def remove_expired(self, *, before: int) -> int:
        """Delete a batch of expired items of the table `keys`, or expired audit entries.

        `before` is in seconds since the epoch. Items are deleted if they expired before it, and
        audit entries if they expired on an earlier day. Returns the number of deleted items; 0 if
        none is left. Raises `Unavailable`.
        """
        ...


@runtime_checkable
class ProcessLocks(Protocol):
    """A store of one machine. The kernel releases the locks of dead processes."""

    def lock(self, name: str) -> Callable[[], None] | None:
        """Acquire the named lock, and return the function that releases it.

        The lock is also released when this process ends. Returns None if another process has the
        lock. Raises `Unavailable`.
        """
        ...


class CommitKind(StrEnum):
    """The kinds of commits that other processes are notified of."""

    # An outbox mark of a tenant was set or removed: its feed may have to be published.
    MARKS = "marks"
    # A feed head was written.
    FEED = "feed"


class Listener(Protocol):
    """Receives notifications. Some can be lost, so a listener must also poll the store."""

    def fileno(self) -> int:
        """Return a descriptor that is readable if there are notifications."""
        ...

    def notify(self) -> None:
        """Simulate a notification."""
        ...

    def clear(self) -> None:
        """Discard the notifications received so far."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` for notifications, then discard them."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...


@runtime_checkable
class NotifyingStore(Protocol):
    """A store that notifies other processes of its writes."""

    def listen(self, news: CommitKind) -> Listener | None:
        """Start listening for this kind, or return None if polling is enough.

        Raises `OSError` if notifications cannot be received.
        """
        ...


@runtime_checkable
class LinkedBlobs(Protocol):
    """Blobs that this service itself serves, at the URLs from `BlobStore.url`."""

    def open_url(self, name: str, *, expires: str, signature: str) -> Path | bytes | None:
        """Return the file or the bytes for the parts of such a URL, as received.

        Returns None if the URL was altered or has expired, or if the blob does not exist. Raises
        `Unavailable`.
        """
        ...


@runtime_checkable
class LocalBlobs(Protocol):
    """Blobs in files on the local disk."""

    def remove_leftovers(self, *, older_than_seconds: float) -> int:
        """Delete old files of crashed writers, and return their number. Raises `Unavailable`."""
        ...
