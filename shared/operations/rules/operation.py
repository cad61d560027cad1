"""What every operation has: scopes that it enforces itself, and a write that races are settled by.

An operation reads, decides, and writes once, with its facts as expectations. Where a fact has
changed by then, the write is refused whole and the operation decides again on what is true now.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import SystemRandom
from typing import Concatenate, Final, Generic, ParamSpec, TypeVar

from shared.errors import Corrupt, ExpectationLost, InsufficientScope, Unavailable
from shared.model.callers import Caller, Scope
from shared.ports import Ports

P = ParamSpec("P")
R = TypeVar("R")

# Drawn from the system: the state of any other generator would be the same in every instance that
# starts from one snapshot.
_RANDOM: Final = SystemRandom()


@dataclass(frozen=True, slots=True)
class Pacing:
    """When an operation tries again; all times are in seconds, `sleep` and `clock` a test's to set.

    `limit` is how long it goes on losing to others before it says so, below any gateway's patience;
    `pause` is the longest wait between two attempts. In `in_flight`, a write becomes visible whole.
    """

    limit: float = 10.0
    pause: float = 0.1
    in_flight: float = 0.2
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic


PACING = Pacing()


class Operation(Generic[P, R]):
    """A function `(ports, caller, …)` together with the scopes that may call it."""

    def __init__(
        self, run: Callable[Concatenate[Ports, Caller, P], R], scopes: tuple[Scope, ...]
    ) -> None:
        self._run = run
        self.scopes = scopes
        self.__doc__ = run.__doc__
        self.__name__ = run.__name__

    def authorize(self, caller: Caller) -> None:
        """Raise `InsufficientScope` unless the caller has one of the scopes (AUTH-5)."""
        if not set(self.scopes).intersection(caller.scopes):
            raise InsufficientScope(self.scopes)

    def __call__(self, ports: Ports, caller: Caller, *args: P.args, **kwargs: P.kwargs) -> R:
        """Authorise, then run. Raises what the function raises, but never `ExpectationLost`."""
        self.authorize(caller)
        return settle(lambda: self._run(ports, caller, *args, **kwargs))


def operation(
    *scopes: Scope,
) -> Callable[[Callable[Concatenate[Ports, Caller, P], R]], Operation[P, R]]:
    """Make an operation of a function; any one of `scopes` opens it."""
    return lambda run: Operation(run, scopes)


def settle(attempt: Callable[[], R]) -> R:
    """What `attempt` gives, run again while its write loses to another's.

    Raises `Unavailable` when it has lost for as long as `PACING` allows.
    """
    deadline = PACING.clock() + PACING.limit
    while True:
        try:
            return attempt()
        except ExpectationLost as lost:
            if PACING.clock() >= deadline:
                raise Unavailable("lost every race for the same records") from lost
            PACING.sleep(_RANDOM.uniform(0, PACING.pause))


def reread(read: Callable[[], R]) -> R:
    """What `read` gives; it runs once more, after a pause, if what it found contradicts itself.

    Records may disagree while a write to them is in flight, because its items become visible one by
    one (shared/ports/store.py). Raises `Corrupt` if they still disagree then.
    """
    try:
        return read()
    except Corrupt:
        PACING.sleep(PACING.in_flight)
    return read()
