"""Waiting until something is so."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def soon(is_so: Callable[[], T | None], *, seconds: float = 120) -> T:
    """Wait until it is so, and return what was found. Fails if it is not after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (found := is_so()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found
