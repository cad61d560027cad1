"""Disks of a size that a test chooses, by what the system says of their space, or by errors."""

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

KIB = 1024
_CUT = 8


@contextmanager
def disk(monkeypatch: pytest.MonkeyPatch, *, free: int, size: int) -> Iterator[None]:
    """Every file system is this large, and has this much free; in bytes."""
    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", lambda _: _answer(free, size))
        yield


def limited(monkeypatch: pytest.MonkeyPatch, folder: Path, *, size: int) -> Callable[[], int]:
    """Let `folder` be alone on a disk of `size` bytes; the function tells what is used of it."""

    def used() -> int:
        return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())

    monkeypatch.setattr(os, "statvfs", lambda _: _answer(size - used(), size))
    return used


@contextmanager
def full_disk() -> Iterator[None]:
    """Of each file that this process writes, the system takes a few bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (_CUT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _answer(free: int, size: int) -> os.statvfs_result:
    # Block size, fragment size, blocks, blocks free, blocks free for users; the rest is not asked.
    return os.statvfs_result((1, 1, size, free, free, 0, 0, 0, 0, 255))
