"""Bells: a byte that tells other processes of this machine that something was committed.

Each listener has a FIFO in a folder beside the store. A byte may be lost, if the disk is full or
a file system has no FIFOs, so listeners also look by themselves now and then (docs/adr/11).
"""

import errno
import os
import secrets
import select
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from shared.model import feed
from shared.model.items import Address
from shared.model.lists import schedule
from shared.ports.one_machine import CommitKind

_BYTES: Final = 64 * 1024


class FileNotifier:
    """Those that listen in `folder`, which is created by the first of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def listen(self, news: CommitKind) -> "FileListener":
        """Return a listener. Raises `OSError`."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        name = f"{news}-{os.getpid()}-{secrets.token_hex(4)}"
        # It is open before it has the name by which it is rung: what nobody has open is removed.
        made = self._folder / f".{name}"
        os.mkfifo(made, 0o600)
        # Open for both, so that it never ends while nobody rings.
        descriptor = os.open(made, os.O_RDWR | os.O_NONBLOCK)
        return FileListener(descriptor, made.rename(self._folder / name))

    def notify(self, addresses: Iterable[Address]) -> None:
        """Ring for what was written. It never raises: the write is committed."""
        told = {news for each in addresses if (news := _news_of(each))}
        if not told:
            return
        with suppress(OSError):
            for name in os.listdir(self._folder):  # noqa: PTH208 (faster, for each write)
                if name.partition("-")[0] in told:
                    _notify(self._folder / name)


class FileListener:
    """A listener for news; `fileno` is readable when there are some."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor, self._path = descriptor, path

    def fileno(self) -> int:
        """Return the descriptor that becomes readable."""
        return self._descriptor

    def notify(self) -> None:
        """Ring it."""
        with suppress(BlockingIOError):
            os.write(self._descriptor, b"\0")

    def clear(self) -> None:
        """Forget the news so far. A commit after that rings again."""
        with suppress(BlockingIOError):
            os.read(self._descriptor, _BYTES)

    def wait(self, seconds: float) -> None:
        """Wait for news, for so long at most, and forget them."""
        if select.select([self._descriptor], [], [], seconds)[0]:
            self.clear()

    def close(self) -> None:
        """Hear nothing any more."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def _news_of(address: Address) -> CommitKind | None:
    if schedule.is_mark(address):
        return CommitKind.MARKS
    return CommitKind.FEED if feed.is_head(address) else None


def _notify(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            # Its listener was killed.
            path.unlink(missing_ok=True)
        return
    try:
        # One that is full will be looked at anyway.
        with suppress(OSError):
            os.write(descriptor, b"\0")
    finally:
        os.close(descriptor)
