"""Blobs that feed heads name by hash, cached in files: bases and signing keys."""

import asyncio
import gzip
import hashlib
import logging
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from .. import files
from ..answers import NoResponse
from ..follower import BASE_MAX
from ..formats import wire
from ..saved_state import StateStore
from ..transport import Transport
from ..trust import KEYS_BYTES_MAX, KEYS_PATH
from .upstream import UpstreamConnection

_log: Final = logging.getLogger("rescind_authorizer.relay")

# Number of blobs to keep. A client may request a blob of a feed head that was just replaced.
_KEPT: Final = 3

# The fastest level, because compressing a large blob better would take longer than sending it.
_GZIP_LEVEL: Final = 1
_BLOCK: Final = 2**20


@dataclass(frozen=True, slots=True)
class BlobRequest:
    """A blob that a feed head names by its hash. `key` identifies it in requests of clients."""

    key: str
    sha256: bytes
    path: str
    limit: int

    @classmethod
    def base(cls, base: wire.Base) -> Self:
        """Return the request for the base of a feed head."""
        path = f"/v1/revocations/feed/base/{base.version}"
        limit = min(wire.base_size_max(base), BASE_MAX)
        return cls(str(base.version), base.sha256, path, limit)

    @classmethod
    def keys(cls, reference: wire.HashReference) -> Self:
        """Return the request for the signing keys of a feed head."""
        key = reference.sha256.hex()
        limit = min(reference.number, KEYS_BYTES_MAX)
        return cls(key, reference.sha256, f"{KEYS_PATH}/{key}", limit)


class BlobCache:
    """Caches the blobs of the newest feed heads in a folder. It belongs to one event loop.

    `store` has the base that the relay itself loaded first.
    """

    def __init__(self, folder: Path, line: UpstreamConnection, store: StateStore) -> None:
        self._folder = folder
        self._connection = line
        self._store = store
        self._requests: dict[str, BlobRequest] = {}
        self._verified_hashes: set[bytes] = set()
        self._tasks: dict[str, asyncio.Task[Path]] = {}

    def note(self, request: BlobRequest) -> None:
        """Fetch a blob of a verified feed head, unless it is cached."""
        if self._requests.get(request.key) == request:
            return
        self._requests[request.key] = request
        while len(self._requests) > _KEPT:
            del self._requests[next(iter(self._requests))]
        self._fetch(request)

    async def file(self, key: str) -> tuple[Path, BlobRequest] | None:
        """Return the gzip file with this key, or None if no recent feed head names it.

        Raises `NoResponse` or `OSError` if it is neither cached nor available.
        """
        request = self._requests.get(key)
        if request is None:
            return None
        path = self._path(request)
        if request.sha256 not in self._verified_hashes or not path.exists():
            path = await asyncio.shield(self._fetch(request))
        return path, request

    def close(self) -> None:
        """Cancel all waits."""
        for task in self._tasks.values():
            task.cancel()

    def _fetch(self, request: BlobRequest) -> "asyncio.Task[Path]":
        task = self._tasks.get(request.key)
        if task is None:
            task = asyncio.ensure_future(
                self._connection.run(lambda transport: self._ensure_file(request, transport))
            )
            self._tasks[request.key] = task

            def finish(task: "asyncio.Task[Path]") -> None:
                del self._tasks[request.key]
                if task.cancelled():
                    return
                if error := task.exception():
                    _log.warning("cannot fetch %s: %s", request.path, error)
                    return
                self._verified_hashes.add(request.sha256)

            task.add_done_callback(finish)
        return task

    def _ensure_file(self, request: BlobRequest, transport: Transport) -> Path:
        """Return the file. Fetch it unless it is cached and intact."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(request)
        if not _has(path, request.sha256):
            data = self._store.load_base(request.sha256)
            if data is None:
                data = transport.get_far(request.path, limit=request.limit)
            if hashlib.sha256(data).digest() != request.sha256:
                raise NoResponse("the blob does not have the hash in the feed head")
            files.replace(path, gzip.compress(data, _GZIP_LEVEL, mtime=0))
        kept_paths = {self._path(each) for each in list(self._requests.values())} | {path}
        for each in self._folder.iterdir():
            if each not in kept_paths:
                with suppress(FileNotFoundError):
                    each.unlink()
        return path

    def _path(self, request: BlobRequest) -> Path:
        return self._folder / f"{request.sha256.hex()}.gz"


def _has(path: Path, sha256: bytes) -> bool:
    """Return whether the content of the file has this hash."""
    digest = hashlib.sha256()
    try:
        with gzip.open(path) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    # A damaged file is fetched again.
    except (OSError, EOFError, zlib.error):
        return False
    return digest.digest() == sha256
