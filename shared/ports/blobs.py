"""The blob store: immutable blobs, such as published lists, found by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class BlobStore(Protocol):
    """Blobs that are written once and never change.

    - A reader sees the whole blob or none. Once `put` has returned, it sees the blob.
    - Names are relative paths of lower-case letters, digits, `-`, `_`, `.` and `/`. Any other name
      raises `ValueError`, because only this service makes names.
    - Every failure raises `Unavailable`. None is returned only if there is no such blob.
    - It is safe to share between threads.
    """

    def put(self, name: str, data: bytes) -> None:
        """Store a new blob durably. Raises `BlobExists`, `Unavailable`, `OutOfSpace`."""
        ...

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a blob, or None if there is none. Raises `Unavailable`."""
        ...

    def get_file(self, name: str, *, sha256: str) -> Path | None:
        """Return the file of a blob, or None if this store keeps no files on this machine.

        The file is checked against `sha256`, in hex, at the first call and after each change of the
        file. Raises `DataCorrupt` if it is missing or altered, and `Unavailable`.
        """
        ...

    def names(self, folder: str) -> Iterator[str]:
        """Yield the names of the blobs below `folder`, in order. Raises `Unavailable`."""
        ...

    def discard(
        self,
        folder: str,
        *,
        before: str,
        start: str = "",
        older_than_seconds: float | None = None,
        any_age_before: str = "",
    ) -> None:
        """Remove the blobs directly in `folder` with own names from `start` to before `before`.

        With `older_than_seconds`, only those that were stored longer ago than that, or whose names
        sort before `any_age_before`. A store that removes old blobs by a rule of its own may do
        nothing. Raises `Unavailable`.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a blob for good, if it exists; only commands of the operator do that.

        A bucket with versions keeps the old version until its lifecycle rule removes it. Raises
        `Unavailable`.
        """
        ...

    def url(self, name: str, *, ttl_seconds: int) -> str:
        """Return an address that serves the blob without authentication for `ttl_seconds`.

        The blob is served as JSON, and with `Content-Encoding: gzip` if its name ends in `.gz`.
        Only private caches may store it, and they must revalidate it each time.
        """
        ...
