"""What a server on one machine asks of its store and its blobs beyond the ports.

Only adapters that keep their data on this machine's disk have these methods.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable


@runtime_checkable
class LocalStore(Protocol):
    """A store on this machine's disk."""

    def problems(self, *, quickly: bool = False) -> Iterator[str]:
        """What is damaged, found by reading everything, as sentences without names of items.

        `quickly` leaves out what takes a look at each item. Raises `Unavailable`.
        """
        ...

    def remove_expired(self, *, before: int) -> int:
        """Remove some audit entries that expired on a day before that of `before`.

        `before` is in seconds since the epoch. Returns how many entries were removed; 0 means that
        none is left. Raises `Unavailable`.
        """
        ...


@runtime_checkable
class LocalBlobs(Protocol):
    """Blobs in files on this machine's disk."""

    def open_url(self, name: str, *, expires: str, signature: str) -> Path | None:
        """The file of a blob that an address of `BlobStore.url` stands for; its parts as received.

        None if the address was altered or has expired, or if the blob is gone. Raises
        `Unavailable`.
        """
        ...

    def remove_leftovers(self, *, older_than_seconds: float) -> int:
        """Remove what crashed writers left behind, if it is older; return how many files.

        Raises `Unavailable`.
        """
        ...
