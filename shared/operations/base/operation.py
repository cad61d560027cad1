"""Base of all operations: enforce scopes, and run again if a conditional write loses a race.

An operation reads, decides, and writes once. The write expects what was read; if that has
changed, the store applies nothing, and the operation runs again on the new state.
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

# The system's generator: any other would have the same state in all instances that start from one
# snapshot of Lambda.
_RANDOM: Final = SystemRandom()


@dataclass(frozen=True, slots=True)
class Pacing:
    """When an operation is retried; times are in seconds. Tests set `sleep` and `clock`.

    `limit` is the time after which `settle` gives up, less than the time-out of any gateway.
    `pause` is the longest wait between two attempts. After `in_flight`, all items of a write are
    visible.
    """

    limit: float = 10.0
    pause: float = 0.1
    in_flight: float = 0.2
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic


PACING = Pacing()


class Operation(Generic[P, R]):
    """A function `(ports, caller, …)`, and its scopes; a caller needs one of them."""

    def __init__(
        self, run: Callable[Concatenate[Ports, Caller, P], R], scopes: tuple[Scope, ...]
    ) -> None:
        self._run = run
        self.scopes = scopes
        self.__doc__ = run.__doc__
        self.__name__, self.__module__ = run.__name__, run.__module__

    def __reduce__(self) -> str:
        """Return the name by which another process finds the operation in the same module."""
        return self.__name__

    def authorize(self, caller: Caller) -> None:
        """Raise `InsufficientScope` unless the caller has one of the scopes (AUTH-5)."""
        if not set(self.scopes).intersection(caller.scopes):
            raise InsufficientScope(self.scopes)

    def __call__(self, ports: Ports, caller: Caller, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Authorise the caller and run the function, repeatedly if it loses a race.

        Raises what the function raises, except `ExpectationLost`; see `settle`.
        """
        self.authorize(caller)
        return settle(lambda: self._run(ports, caller, *args, **kwargs))


def operation(
    *scopes: Scope,
) -> Callable[[Callable[Concatenate[Ports, Caller, P], R]], Operation[P, R]]:
    """Decorate a function as an `Operation`; a caller needs any one of `scopes`."""
    return lambda run: Operation(run, scopes)


def settle(attempt: Callable[[], R], *, limit: float | None = None) -> R:
    """Return what `attempt` returns; run it again if it raises `ExpectationLost`.

    Raises `Unavailable` if it still does after `limit` seconds, or after the limit of `PACING`.
    """
    deadline = PACING.clock() + (PACING.limit if limit is None else limit)
    while True:
        try:
            return attempt()
        except ExpectationLost as lost:
            if PACING.clock() >= deadline:
                raise Unavailable("the same records changed during every attempt") from lost
            PACING.sleep(_RANDOM.uniform(0, PACING.pause))


def wait_for_writes() -> None:
    """Wait until all items of each write that has begun to show are visible (docs/adr/02)."""
    PACING.sleep(PACING.in_flight)


def reread(read: Callable[[], R]) -> R:
    """Return what `read` returns; run it once more, after a pause, if it raises `Corrupt`.

    Records may contradict each other during a write, because its items become visible one by one
    (shared/ports/store.py). Raises `Corrupt` if the second run does.
    """
    try:
        return read()
    except Corrupt:
        wait_for_writes()
    return read()
