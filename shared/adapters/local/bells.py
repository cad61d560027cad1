"""Notifies other processes on this machine of commits, with a byte per commit.

Each listener has a FIFO in a folder next to the store. A byte can be lost if the disk is full or
the file system has no FIFOs, so listeners also poll (docs/adr/11).
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
    """The listeners in `folder`. The first listener creates the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def listen(self, news: CommitKind) -> "FileListener":
        """Return a listener. Raises `OSError`."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        name = f"{news}-{os.getpid()}-{secrets.token_hex(4)}"
        # Open the FIFO before it gets its final name, because a FIFO without a reader is deleted.
        made = self._folder / f".{name}"
        os.mkfifo(made, 0o600)
        # Opened for reading and writing, so that it never reports end of file.
        descriptor = os.open(made, os.O_RDWR | os.O_NONBLOCK)
        return FileListener(descriptor, made.rename(self._folder / name))

    def notify(self, addresses: Iterable[Address]) -> None:
        """Notify the listeners of these items.

        Never raises, because the write is already committed.
        """
        told = {news for each in addresses if (news := _news_of(each))}
        if not told:
            return
        with suppress(OSError):
            for name in os.listdir(self._folder):  # noqa: PTH208 (faster, for each write)
                if name.partition("-")[0] in told:
                    _notify(self._folder / name)


class FileListener:
    """A listener for notifications. `fileno` is readable when there are some."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor, self._path = descriptor, path

    def fileno(self) -> int:
        """Return the descriptor that becomes readable."""
        return self._descriptor

    def notify(self) -> None:
        """Simulate a notification."""
        with suppress(BlockingIOError):
            os.write(self._descriptor, b"\0")

    def clear(self) -> None:
        """Discard the notifications so far. A later commit notifies again."""
        with suppress(BlockingIOError):
            os.read(self._descriptor, _BYTES)

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` for notifications, then discard them."""
        if select.select([self._descriptor], [], [], seconds)[0]:
            self.clear()

    def close(self) -> None:
        """Stop listening."""
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
        # A full FIFO already has unread notifications.
        with suppress(OSError):
            os.write(descriptor, b"\0")
    finally:
        os.close(descriptor)
