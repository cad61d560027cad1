"""Reads that wait for the network at the same time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

# As many as a tenant's shards; the clients keep more connections than that.
_MOST_AT_ONCE = 16


class Threaded:
    """`Gather` in threads. They are made when first needed, and wait when there is nothing."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="read")

    def __call__(self, *reads: Callable[[], Any]) -> Any:
        """Make all reads at once, the first in this thread."""
        others = [self._pool.submit(read) for read in reads[1:]]
        try:
            first = [read() for read in reads[:1]]
        finally:
            wait(others)
        return (*first, *(other.result() for other in others))
