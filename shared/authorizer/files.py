"""Folders that one process at a time changes, and files that are replaced in one step."""

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
# Matches files that an interrupted `replace` leaves.
TEMPORARY: Final = f"{_PREFIX}*"


class _Locking:
    """One thread at a time locks a folder.

    No process is forked meanwhile: the child would keep the lock. A fork in C may leave the lock of
    a thread that the child does not have, so the child renews it.
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
    """Keep out other processes that lock the folder, until the block ends. Raises `OSError`.

    The folder is made if it is missing.
    The names of files that the block replaced are on the disk then.
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

    The close alone would not suffice: gevent delays it, and a child may have the file open.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def claim(folder: Path) -> tuple[int, int]:
    """Return the lowest number from 1 that nobody has claimed in the folder. Raises `OSError`.

    The second value is the descriptor that holds it, until `release_lock` or the end of the
    process.
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
    """Replace a file in one step by one that only this user can read. Raises `OSError`.

    The content is on the disk before the file has its name.
    """
    # `mkstemp` creates it for its owner only.
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
