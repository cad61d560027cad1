"""Two ways to do the same, measured side by side.

A figure of one side alone tells of the machine. So the sides take turns within one run, and what is
reported is the ratio of neighbours in time, whatever else the machine did meanwhile.
"""

import gc
import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeVar

from tests.kit.processes import children

T = TypeVar("T")

# Does its work once and says what that took, or achieved.
Side = Callable[[], float]


class Taken(NamedTuple):
    """What a call took, in seconds: by the clock, and of processors.

    The latter is that of all threads of this process, and of the processes that it waited for.
    """

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> "Taken":
        """Return what was taken so far, from any beginning."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = time.process_time() + children.ru_utime + children.ru_stime
        return cls(time.perf_counter(), cpu)

    def since(self, started: "Taken") -> "Taken":
        """Return what was taken since another moment."""
        return Taken(self.wall - started.wall, self.cpu - started.cpu)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The median of one side, and of its ratios to the other; the ratios' lowest and highest."""

    value: float
    ratio: float
    spread: tuple[float, float]


def processor_seconds(process: int) -> float:
    """The processor time of a process and of those that it started, to the nanosecond."""
    # As clock_getcpuclockid(3) makes the clock of another process.
    taken = time.clock_gettime((~process << 3) | 2)
    # Of children that have ended, the system says what their parent waited for.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    ended = sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")
    return taken + ended + sum(processor_seconds(child) for _, child in children(process))


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Keep this process, and those that it started, on one processor.

    Otherwise chance decides whether the other end of a call sits beside it, and the call takes one
    of two times.
    """
    allowed = os.sched_getaffinity(0)
    _keep_on({min(allowed)}, os.getpid())
    try:
        yield
    finally:
        _keep_on(allowed, os.getpid())


def _keep_on(processors: set[int], process: int) -> None:
    with suppress(ProcessLookupError):
        os.sched_setaffinity(process, processors)
    for _, child in children(process):
        _keep_on(processors, child)


def timed(
    call: Callable[[], object], *, now: Callable[[], Taken] = Taken.now
) -> Callable[[], Taken]:
    """A side that says what `call` takes."""

    def side() -> Taken:
        # Neither side is to clear up after the other.
        gc.collect()
        started = now()
        call()
        return now().since(started)

    return side


def alternate(*sides: Callable[[], T], rounds: int) -> list[list[T]]:
    """The figures of each side over so many rounds, in which they take turns to begin."""
    figures: list[list[T]] = [[] for _ in sides]
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
