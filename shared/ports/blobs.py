"""Where published lists live: immutable blobs, found by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class BlobStore(Protocol):
    """Blobs that are written once and never change.

    - A reader sees the whole blob or none, from the moment `put` returns.
    - Names are relative paths of lower-case letters, digits, `-`, `_`, `.` and `/`; another name
      raises `ValueError`, since names are made by this service alone.
    - Whatever cannot be answered is `Unavailable`; only a blob that is not there is None.
    - Safe to share between threads.
    """

    def put(self, name: str, data: bytes) -> None:
        """Store a new blob durably.

        Raises `BlobExists`, `Unavailable`, and `OutOfSpace` if a store that can be full is full.
        """
        ...

    def get(self, name: str) -> bytes | None:
        """The blob's bytes, or None where there is none. Raises `Unavailable`."""
        ...

    def file(self, name: str, *, sha256: str) -> Path | None:
        """The file that holds a blob; None if this store keeps no files on this machine.

        The file is checked against `sha256`, in hex, when it is first asked for and whenever it has
        changed. Raises `Corrupt` if it is missing or altered, `Unavailable`.
        """
        ...

    def names(self, folder: str) -> Iterator[str]:
        """The names of the blobs below `folder`, such as `a/b`, in order. Raises `Unavailable`."""
        ...

    def discard(self, folder: str, *, before: str, older_than_seconds: float | None = None) -> None:
        """Let go of the blobs directly in `folder` whose own names sort before `before`.

        With `older_than_seconds`, only of those that were stored longer ago than that. A store that
        removes old blobs by a rule of its own may do nothing. Raises `Unavailable`.
        """
        ...

    def url(self, name: str, *, ttl_seconds: int) -> str:
        """An address that serves the blob without further proof until `ttl_seconds` from now.

        It is served as JSON, and as `Content-Encoding: gzip` if its name ends in `.gz`. Caches may
        keep it for its reader alone, and ask each time whether it is still the one.
        """
        ...
