"""What every operation has: scopes that it enforces itself, and a write that races are settled by.

An operation reads, decides, and writes once, with its facts as expectations. Where a fact has
changed by then, the write is refused whole and the operation decides again on what is true now.
"""

import random
import time
from collections.abc import Callable
from typing import Concatenate, Final, Generic, ParamSpec, TypeVar

from shared.errors import Conflict, InsufficientScope, Unavailable
from shared.model.callers import Caller, Scope
from shared.ports import Ports

P = ParamSpec("P")
R = TypeVar("R")

# How long an operation goes on losing to others before it says so; below any gateway's patience.
CONTENTION_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.1


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
        """Raise `InsufficientScope` unless the caller has one of the scopes (decisions 2)."""
        if not set(self.scopes).intersection(caller.scopes):
            raise InsufficientScope(self.scopes)

    def __call__(self, ports: Ports, caller: Caller, *args: P.args, **kwargs: P.kwargs) -> R:
        """Authorise, then run. Raises what the function raises, but never `Conflict`."""
        self.authorize(caller)
        return settle(lambda: self._run(ports, caller, *args, **kwargs))


def operation(
    *scopes: Scope,
) -> Callable[[Callable[Concatenate[Ports, Caller, P], R]], Operation[P, R]]:
    """Make an operation of a function; any one of `scopes` opens it."""
    return lambda run: Operation(run, scopes)


def settle(attempt: Callable[[], R]) -> R:
    """What `attempt` gives, run again while its write loses to another's.

    Raises `Unavailable` when it has lost for `CONTENTION_SECONDS`.
    """
    deadline = time.monotonic() + CONTENTION_SECONDS
    while True:
        try:
            return attempt()
        except Conflict as lost:
            if time.monotonic() >= deadline:
                raise Unavailable("lost every race for the same records") from lost
            time.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311 (no secret)
