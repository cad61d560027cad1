"""Reads in threads, which wait for the network concurrently."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

# The number of a tenant's shards. Each client has more connections than this.
_MOST_AT_ONCE = 16


class ThreadedGather:
    """`Gather` in threads, which are created when they are first needed."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="read")

    def __call__(self, *reads: Callable[[], Any]) -> Any:
        """Run all reads concurrently, the first in this thread."""
        others = [self._pool.submit(read) for read in reads[1:]]
        try:
            first = [read() for read in reads[:1]]
        finally:
            wait(others)
        return (*first, *(other.result() for other in others))
