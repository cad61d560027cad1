"""Where the synchronous work of a request is done: in place, or in threads.

Operations and ports are synchronous. Lambda gives an instance one request at a time, so there they
run in place. A server that answers many callers at once runs them in threads, so that one which
takes long holds up no other (docs/adr/0034).
"""

from collections.abc import Callable, Coroutine
from enum import Enum, auto
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Kind(Enum):
    """What a piece of work is like."""

    # Reads a few items by their keys: done sooner than a thread could take it over.
    QUICK = auto()
    # Anything else that an endpoint does.
    USUAL = auto()
    # Makes a list. Two at once for one tenant would only compete for the same head.
    PUBLICATION = auto()
    # What the gate writes before a request is let in.
    ADMISSION = auto()


class Work(Protocol):
    """Does a piece of work on behalf of a tenant."""

    async def __call__(self, call: Callable[[], T], kind: Kind, *, tenant_id: str) -> T:
        """What `call` returns. Raises what it raises."""
        ...

    def stop(self) -> None:
        """Wait for what is under way, and take on nothing more."""
        ...


class InPlace:
    """`Work` that is done at once, while everything else waits."""

    async def __call__(
        self,
        call: Callable[[], T],
        kind: Kind,  # noqa: ARG002 (all kinds are alike here)
        *,
        tenant_id: str,  # noqa: ARG002
    ) -> T:
        """What `call` returns. Raises what it raises."""
        return call()

    def stop(self) -> None:
        """Nothing is ever under way."""


IN_PLACE = InPlace()


def result_of(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that waits for nothing, so that any thread can run it."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        value: T = finished.value
        return value
    coroutine.close()
    raise RuntimeError("an endpoint waited, which only an event loop can")
