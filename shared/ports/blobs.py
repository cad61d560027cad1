"""The blob store: immutable blobs, for example published SRLs, found by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class BlobStore(Protocol):
    """Blobs that are written once and never change.

    - A reader sees the whole blob or no blob. After `put` has returned, every reader sees it.
    - Names are relative paths of lower-case letters, digits, `-`, `_`, `.` and `/`. Any other name
      raises `ValueError`, because only this service creates names.
    - Every failure raises `Unavailable`. None is returned only if the blob does not exist.
    - The store can be shared between threads.
    """

    def put(self, name: str, data: bytes) -> None:
        """Store a new blob durably. Raises `BlobExists`, `Unavailable`, `OutOfSpace`."""
        ...

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a blob, or None if it does not exist. Raises `Unavailable`."""
        ...

    def get_file(self, name: str, *, sha256: str) -> Path | None:
        """Return the file of a blob, or None if this store has no local files.

        The file is checked against `sha256` (hex) at the first call and after each change of the
        file. Raises `DataCorrupt` if the file is missing or altered, and `Unavailable`.
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
        """Delete the blobs directly in `folder` named from `start` to before `before`.

        With `older_than_seconds`, delete only blobs that are older, or that sort before
        `any_age_before`. A store with its own lifecycle rule for old blobs may ignore the call.
        Raises `Unavailable`.
        """
        ...

    def remove(self, name: str) -> None:
        """Delete a blob permanently, if it exists. Only operator commands use this.

        A versioned bucket keeps the old version until its lifecycle rule deletes it. Raises
        `Unavailable`.
        """
        ...

    def url(self, name: str, *, ttl_seconds: int) -> str:
        """Return a URL that serves the blob without authentication for `ttl_seconds`.

        The blob is served as JSON, and with `Content-Encoding: gzip` if its name ends in `.gz`.
        Only private caches may store it, and they must revalidate it each time.
        """
        ...
