"""How long the processor works on a call."""

from collections.abc import Callable
from time import process_time


def seconds(call: Callable[[], object], *, tries: int, calls: int = 1) -> float:
    """The time of a call on the processor: the least of several tries of so many calls."""
    taken = []
    for _ in range(tries):
        start = process_time()
        for _ in range(calls):
            call()
        taken.append((process_time() - start) / calls)
    return min(taken)
