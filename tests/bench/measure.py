"""Two ways to do the same, measured side by side.

A figure of one side alone tells of the machine. So the sides take turns within one run, and what is
reported is the ratio of neighbours in time, whatever else the machine did meanwhile.
"""

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

# Does its work once and says what that took, or achieved.
Side = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The median of one side, and of its ratios to the other; the ratios' lowest and highest."""

    value: float
    ratio: float
    spread: tuple[float, float]


def timed(call: Callable[[], object], *, clock: Callable[[], float] = time.perf_counter) -> Side:
    """A side that takes the seconds which `call` takes."""

    def side() -> float:
        # Neither side is to clear up after the other.
        gc.collect()
        started = clock()
        call()
        return clock() - started

    return side


def alternate(*sides: Side, rounds: int) -> list[list[float]]:
    """The figures of each side over so many rounds, in which they take turns to begin."""
    figures: list[list[float]] = [[] for _ in sides]
    order = list(range(len(sides)))
    for _ in range(rounds):
        for number in order:
            figures[number].append(sides[number]())
        order.reverse()
    return figures


def compare(ours: Sequence[float], theirs: Sequence[float]) -> Comparison:
    """Our side against the other, round by round."""
    ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
    return Comparison(median(ours), median(ratios), (min(ratios), max(ratios)))
