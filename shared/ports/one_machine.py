"""What a server on one machine needs of its store and its blobs beyond the ports.

Only adapters that keep their data on this machine's disk have these methods.
"""

from collections.abc import Iterator
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

    def remove_expired(self, *, before: int) -> int:
        """Remove some items of the table `keys` that expired before `before`, or audit entries.

        Audit entries go if they expired on a day before that of `before`, which is in seconds since
        the epoch. Returns how many were removed; 0 means that none is left. Raises `Unavailable`.
        """
        ...


@runtime_checkable
class LocalBlobs(Protocol):
    """Blobs in files on this machine's disk."""

    def open_url(self, name: str, *, expires: str, signature: str) -> Path | None:
        """Return the file for the parts of an address that `BlobStore.url` made, as received.

        Returns None if the address was altered or has expired, or if there is no such blob. Raises
        `Unavailable`.
        """
        ...

    def remove_leftovers(self, *, older_than_seconds: float) -> int:
        """Remove old files of crashed writers, and return their number. Raises `Unavailable`."""
        ...
