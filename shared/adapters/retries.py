"""Retries with full jitter between the attempts, until a deadline."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import SystemRandom
from typing import Final

_FIRST_PAUSE_SECONDS = 0.025
_LONGEST_PAUSE_SECONDS = 1.0
_MOST_DOUBLINGS = 10

# From the operating system, because any other generator has the same state in all instances of a
# snapshot. Their attempts would continue to collide.
_RANDOM: Final = SystemRandom()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long an adapter retries. Tests replace `sleep` and `clock` (both in seconds)."""

    deadline_seconds: float = 4.0
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def attempts(self) -> Iterator[int]:
        """Yield attempt numbers from 0, with pauses, until the deadline would pass."""
        end = self.clock() + self.deadline_seconds
        attempt = 0
        while True:
            yield attempt
            ceiling = _FIRST_PAUSE_SECONDS * 2 ** min(attempt, _MOST_DOUBLINGS)
            pause = _RANDOM.uniform(0, min(ceiling, _LONGEST_PAUSE_SECONDS))
            if self.clock() + pause >= end:
                return
            self.sleep(pause)
            attempt += 1


PATIENCE = RetryPolicy()
