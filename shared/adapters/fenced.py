"""A store that this process stops using soon after a newer release has taken its data over.

A process asks the store at its start whether it may use it, and then again before a call if its
last answer is older than `AGE_SECONDS_MAX`: once for all threads, so that the item is read rarely.
It refuses every call on data of a schema that it does not know, since it might misread it, and each
write to a store that is no more in charge (OPS-12, OPS-13; docs/adr/0077).
"""

import time
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any, Final, cast

from shared.errors import InvalidSettings, Outdated
from shared.model import deployment
from shared.model.deployment import Deployment
from shared.ports.store import Store

# A release that raises the schema waits for longer before it stores what earlier ones misread.
AGE_SECONDS_MAX: Final = 5.0


def fenced(store: Store, known: Deployment) -> Store:
    """Return the store, to be used as long as this process may; `known` was read from it just now.

    Each method raises `Outdated` once it may not, and `Unavailable` if the store does not say so.
    """
    return cast("Store", _Fenced(store, known))


class _Fenced:
    """Has the methods of a store, whatever they are."""

    def __init__(self, store: Store, known: Deployment) -> None:
        self._store, self._known = store, known
        self._looked_at, self._turn = _moment(), Lock()
        # Now: from Python 3.12 on, `isinstance` with a protocol does not ask `__getattr__`.
        for name in dir(store):
            if not name.startswith("_") and callable(found := getattr(store, name)):
                setattr(self, name, self._checked(found, writes=name == "write"))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        is_call = callable(found) and not name.startswith("_")
        return self._checked(found, writes=name == "write") if is_call else found

    def _checked(self, call: Callable[..., Any], *, writes: bool) -> Callable[..., Any]:
        @wraps(call)
        def checked(*args: Any, **kwargs: Any) -> Any:
            self._check(writes=writes)
            return call(*args, **kwargs)

        return checked

    def _check(self, *, writes: bool) -> None:
        if _is_old(self._looked_at):
            with self._turn:
                if _is_old(self._looked_at):
                    self._look()
        try:
            self._known.check_schema()
            if writes:
                self._known.check_in_charge()
        except InvalidSettings as error:
            raise Outdated from error

    def _look(self) -> None:
        # Before the read, since what is read may change at once.
        at = _moment()
        self._known = Deployment.of(self._store.get(deployment.ADDRESS))
        self._looked_at = at


def _moment() -> tuple[float, float]:
    """Return the time by two clocks: one stands still in a frozen process, the other may jump."""
    return time.monotonic(), time.time()


def _is_old(since: tuple[float, float]) -> bool:
    return any(
        not 0 <= now - then <= AGE_SECONDS_MAX for then, now in zip(since, _moment(), strict=True)
    )
