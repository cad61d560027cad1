"""Reads in threads, so that they wait for the network at the same time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

# The number of a tenant's shards; each client has more connections than that.
_MOST_AT_ONCE = 16


class ThreadedGather:
    """`Gather` in threads, which are created when they are first needed."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="read")

    def __call__(self, *reads: Callable[[], Any]) -> Any:
        """Make all reads at the same time, the first in this thread."""
        others = [self._pool.submit(read) for read in reads[1:]]
        try:
            first = [read() for read in reads[:1]]
        finally:
            wait(others)
        return (*first, *(other.result() for other in others))
