"""Blobs as files below one folder, for all threads and processes on one machine."""

import errno
import hashlib
import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from shared.adapters.local import files
from shared.adapters.local.links import KEY_BYTES, SignedUrls
from shared.adapters.preconditions import check_blob_name
from shared.errors import BlobExists, DataCorrupt, OutOfSpace, Unavailable

# Blob names have no part that begins with a dot.
_SCRATCH = ".tmp"
_URL_KEY = ".url-key"
# Free space reserved for records on the same disk: an SRL can wait, a revocation cannot.
_SPARED_BYTES = 64 * 1024 * 1024
_SPARED_PART = 8
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class FileBlobs:
    """A `BlobStore` below `root`, which is created if it is missing.

    `clock` returns seconds since the epoch. Raises `Unavailable`.
    """

    def __init__(self, root: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._root, self._scratch = root, root / _SCRATCH
        self._clock = clock
        self._links = SignedUrls(self._url_key, clock)
        # Folders that are durable on disk, including their parents.
        self._durable = set[Path]()
        with _translating_errors():
            self._scratch.mkdir(parents=True, exist_ok=True)

    def put(self, name: str, data: bytes) -> None:
        """Store a new blob durably. Raises `BlobExists`, `OutOfSpace`, `Unavailable`."""
        path = self._path(name)
        with _translating_errors():
            disk = os.statvfs(self._root)
            spared = min(_SPARED_BYTES, disk.f_blocks * disk.f_frsize // _SPARED_PART)
            if disk.f_bavail * disk.f_frsize < len(data) + spared:
                raise OutOfSpace
            if not path.parent.is_dir():
                self._durable.discard(path.parent)
                path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._create(path, data)
            except FileExistsError as error:
                raise BlobExists from error

    def _create(self, path: Path, data: bytes) -> None:
        folder = path.parent
        # Another process may have created the folder without syncing its parents.
        root = folder if folder in self._durable else self._root
        files.create(path, data, root=root, scratch=self._scratch, at=self._clock())
        self._durable.add(folder)

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a blob, or None if it does not exist. Raises `Unavailable`."""
        path = self._path(name)
        with _translating_errors():
            try:
                return path.read_bytes()
            except FileNotFoundError:
                if not self._scratch.is_dir():  # then the blob may exist
                    raise
                return None

    def names(self, folder: str) -> Iterator[str]:
        """Yield the names of the blobs below `folder`, in order. Raises `Unavailable`."""
        path = self._path(folder)
        with _translating_errors():
            if not self._scratch.is_dir():
                raise FileNotFoundError(self._scratch)
            found = [
                Path(parent, name).relative_to(self._root).as_posix()
                for parent, _, names in os.walk(path, onerror=_raise_unless_absent)
                for name in names
            ]
        yield from sorted(found)

    def url(self, name: str, *, ttl_seconds: int) -> str:
        """Return a relative reference that `open_url` accepts until it expires."""
        return self._links.url(name, ttl_seconds=ttl_seconds)

    def get_file(self, name: str, *, sha256: str) -> Path:
        """Return the file of a blob, checked by its hash. Raises `DataCorrupt`, `Unavailable`."""
        path = self._path(name)
        with _translating_errors():
            try:
                found = path.stat()
                digest = _digest(path, found.st_ino, found.st_mtime_ns, found.st_size)
            except FileNotFoundError:
                raise DataCorrupt from None
        if digest != sha256:
            raise DataCorrupt
        return path

    def open_url(self, name: str, *, expires: str, signature: str) -> Path | None:
        """Return the file for the parts of a reference from `url`, as received.

        Returns None if the reference was altered or has expired, or if the blob does not exist.
        Raises `Unavailable`.
        """
        if not self._links.allows(name, expires=expires, signature=signature):
            return None
        path = self._path(name)
        return path if path.is_file() else None

    def discard(
        self,
        folder: str,
        *,
        before: str,
        start: str = "",
        older_than_seconds: float | None = None,
        any_age_before: str = "",
    ) -> None:
        """Delete the blobs in `folder` named from `start` to before `before`.

        With `older_than_seconds`, delete only blobs that are older, or that sort before
        `any_age_before`. Raises `Unavailable`.
        """
        path = self._path(folder)
        age = -math.inf if older_than_seconds is None else older_than_seconds
        oldest = self._clock() - age
        with _translating_errors(), suppress(FileNotFoundError):
            for file in path.iterdir():
                if start <= file.name < before and file.is_file():
                    # Another process may delete the same files.
                    with suppress(FileNotFoundError):
                        if file.name < any_age_before or file.stat().st_mtime < oldest:
                            file.unlink()

    def remove(self, name: str) -> None:
        """Delete a blob, if it exists. Raises `Unavailable`."""
        path = self._path(name)
        with _translating_errors():
            path.unlink(missing_ok=True)

    def remove_leftovers(self, *, older_than_seconds: float) -> int:
        """Delete old files of crashed writers, and return their number. Raises `Unavailable`."""
        oldest = self._clock() - older_than_seconds
        removed = 0
        with _translating_errors():
            for path in self._scratch.iterdir():
                # Another process may delete the same files.
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < oldest:
                        path.unlink()
                        removed += 1
        return removed

    def _path(self, name: str) -> Path:
        check_blob_name(name)
        return self._root / name

    def _url_key(self) -> bytes:
        """Return the key shared by all processes on this folder. The first process creates it."""
        path = self._root / _URL_KEY
        with _translating_errors():
            if not path.exists():
                with suppress(FileExistsError):
                    self._create(path, os.urandom(KEY_BYTES))
            return path.read_bytes()


@lru_cache(maxsize=64)
def _digest(path: Path, _inode: int, _modified_ns: int, _size: int) -> str:
    """Return the SHA-256 of a file in hex, cached while the file is unchanged."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _raise_unless_absent(error: OSError) -> None:
    # By default, `os.walk` skips folders that it cannot read.
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


@contextmanager
def _translating_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = OutOfSpace if error.errno in _FULL else Unavailable
        raise kind from error
