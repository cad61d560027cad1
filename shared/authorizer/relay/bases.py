"""The bases that a relay answers with: files in gzip, each with the hash that a head names."""

import asyncio
import gzip
import hashlib
import logging
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

from .. import files
from ..answers import NoAnswer
from ..floor import Floor
from ..follower import BASE_MAX
from ..formats import wire
from ..transport import Transport
from .line import Line

_log: Final = logging.getLogger("rescind_authorizer.relay")

# How many bases are kept: a client may ask for that of a head which was replaced meanwhile.
_KEPT: Final = 3

# As fast as it gets: a large one would take longer to pack than to send.
_GZIP_LEVEL: Final = 1
_BLOCK: Final = 2**20


class Bases:
    """Keeps the bases of the newest heads in a folder. It belongs to one event loop.

    `floor` has the base from which the relay itself began.
    """

    def __init__(self, folder: Path, line: Line, floor: Floor) -> None:
        self._folder = folder
        self._line = line
        self._floor = floor
        self._named: dict[int, wire.Base] = {}
        self._checked: set[bytes] = set()
        self._fetching: dict[int, asyncio.Task[Path]] = {}

    def note(self, base: wire.Base) -> None:
        """Fetch the base of a head that was verified, unless it is here."""
        if self._named.get(base.version) == base:
            return
        self._named[base.version] = base
        while len(self._named) > _KEPT:
            del self._named[next(iter(self._named))]
        self._fetch(base)

    async def file(self, version: int) -> tuple[Path, wire.Base] | None:
        """Return the file in gzip of a base; None if no recent head names this version.

        Raises `NoAnswer` or `OSError` if it is not here and cannot be fetched.
        """
        base = self._named.get(version)
        if base is None:
            return None
        path = self._path(base)
        if base.sha256 not in self._checked or not path.exists():
            path = await asyncio.shield(self._fetch(base))
        return path, base

    def close(self) -> None:
        """Let nobody wait for a base."""
        for task in self._fetching.values():
            task.cancel()

    def _fetch(self, base: wire.Base) -> "asyncio.Task[Path]":
        task = self._fetching.get(base.version)
        if task is None:
            task = asyncio.ensure_future(self._line.run(lambda line: self._made(base, line)))
            self._fetching[base.version] = task
            task.add_done_callback(lambda done: self._done(base, done))
        return task

    def _done(self, base: wire.Base, task: "asyncio.Task[Path]") -> None:
        del self._fetching[base.version]
        if task.cancelled():
            return
        if error := task.exception():
            _log.warning("the base of version %d cannot be fetched: %s", base.version, error)
            return
        self._checked.add(base.sha256)

    def _made(self, base: wire.Base, transport: Transport) -> Path:
        """Return the file of a base, which is fetched unless it is here and whole."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(base)
        if not _has(path, base.sha256):
            data = self._floor.load_base(base.sha256)
            if data is None:
                limit = min(wire.base_size_max(base), BASE_MAX)
                data = transport.get_far(f"/v1/revocations/feed/base/{base.version}", limit=limit)
            if hashlib.sha256(data).digest() != base.sha256:
                raise NoAnswer("it has another hash than the head says")
            files.replace(path, gzip.compress(data, _GZIP_LEVEL, mtime=0))
        self._remove(but={self._path(each) for each in list(self._named.values())} | {path})
        return path

    def _remove(self, *, but: set[Path]) -> None:
        for each in self._folder.iterdir():
            if each not in but:
                with suppress(FileNotFoundError):
                    each.unlink()

    def _path(self, base: wire.Base) -> Path:
        return self._folder / f"base-{base.sha256.hex()}.gz"


def _has(path: Path, sha256: bytes) -> bool:
    """Return whether the file has the base with this hash."""
    digest = hashlib.sha256()
    try:
        with gzip.open(path) as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    # After any fault it is fetched again.
    except (OSError, EOFError, zlib.error):
        return False
    return digest.digest() == sha256
