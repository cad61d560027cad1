"""Waiting until something is so."""

import time
from collections.abc import Callable


def soon(is_so: Callable[[], object], *, seconds: float = 10) -> None:
    """Wait until it is so. Fails if it is not after so many seconds."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)
