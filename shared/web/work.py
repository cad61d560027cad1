"""How the synchronous work of a request is run: directly, or in threads.

Operations and ports are synchronous. Lambda gives an instance one request at a time, so there the
work runs directly. A server that handles many requests at the same time runs them in threads, so
that a slow one does not delay the others (docs/adr/0034).
"""

from collections.abc import Callable, Coroutine
from enum import Enum, auto
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Kind(Enum):
    """A kind of work."""

    # Reads a few items by address, which takes less time than to start it in a thread.
    QUICK = auto()
    # Any other work of an endpoint.
    USUAL = auto()
    # Makes a list. Two publications of one tenant would compete for the same head.
    PUBLICATION = auto()
    # What the gate does before it admits a request.
    ADMISSION = auto()


class Work(Protocol):
    """Runs a piece of work on behalf of a tenant."""

    async def __call__(self, call: Callable[[], T], kind: Kind, *, tenant_id: str) -> T:
        """Return what `call` returns. Raises what it raises."""
        ...

    def stop(self) -> None:
        """Wait for the work in progress, and accept no more."""
        ...


class InPlace:
    """`Work` that runs directly, while the event loop waits."""

    async def __call__(
        self,
        call: Callable[[], T],
        kind: Kind,  # noqa: ARG002 (all kinds are alike here)
        *,
        tenant_id: str,  # noqa: ARG002
    ) -> T:
        """Return what `call` returns. Raises what it raises."""
        return call()

    def stop(self) -> None:
        """Do nothing: no work is ever in progress."""


IN_PLACE = InPlace()


def result_of(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits, so that any thread can run it."""
    try:
        coroutine.send(None)
    except StopIteration as finished:
        value: T = finished.value
        return value
    coroutine.close()
    raise RuntimeError("an endpoint waited, which only an event loop can")
