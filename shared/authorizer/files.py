"""Folders locked by one process at a time, and atomic replacement of files."""

import fcntl
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

_PREFIX: Final = ".new-"
# Matches files left by an interrupted `replace`.
TEMPORARY: Final = f"{_PREFIX}*"


class _Locking:
    """Allows one thread at a time to lock a folder.

    No process can fork during the lock, because the child would inherit it. A fork in C code may
    copy a lock held by a thread that does not exist in the child. The child therefore renews the
    lock.
    """

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.lock = threading.Lock()

    def acquire(self) -> None:
        self.lock.acquire()

    def release(self) -> None:
        self.lock.release()


_locking: Final = _Locking()
renew_lock: Final = _locking.renew
os.register_at_fork(
    before=_locking.acquire, after_in_parent=_locking.release, after_in_child=_locking.release
)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock the folder against other processes until the block ends. Raises `OSError`.

    The folder is created if it is missing. The new names of replaced files are on disk when the
    block ends.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locking.lock:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
            os.fsync(descriptor)
        finally:
            release_lock(descriptor)


def release_lock(descriptor: int) -> None:
    """Release the lock of a file, and close it.

    Closing alone is not sufficient: gevent delays it, and a child may have the file open.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def claim(folder: Path) -> tuple[int, int]:
    """Return the lowest unclaimed number of the folder, from 1. Raises `OSError`.

    The second value is the descriptor of the claim. The claim lasts until `release_lock` or the end
    of the process.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in count(1):
        descriptor = os.open(folder / f"process-{number}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        else:
            return number, descriptor
    raise AssertionError


def replace(path: Path, data: bytes) -> None:
    """Replace a file atomically by a file that only this user can read. Raises `OSError`.

    The content is on disk before the file is renamed.
    """
    # `mkstemp` restricts the file to its owner.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=_PREFIX)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
