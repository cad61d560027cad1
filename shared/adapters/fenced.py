"""A store that this process stops using soon after a newer release has taken its data over.

A process asks the store at its start whether it may use it, and then again before a call if its
last answer is older than `AGE_SECONDS_MAX`: once for all threads, so that the item is read rarely.
It refuses every call on data of a schema that it does not know, since it might misread it, and on a
store that is no longer in charge, since others change that data elsewhere. It refuses each write to
a store whose copy in another region is written instead (OPS-12, OPS-13, OPS-24; docs/adr/15).
"""

import time
from collections.abc import Callable
from threading import Lock
from typing import Any, Final, NoReturn

from shared.errors import InvalidSettings, ReadOnly, StaleProcess
from shared.model import deployment
from shared.model.deployment import SCHEMA, Deployment
from shared.ports.store import Change, Store, wrap_store
from shared.ports.token_buckets import UsageCounts, UsageDelta

# A release that raises the schema waits for longer before it stores what earlier ones misread.
AGE_SECONDS_MAX: Final = 5.0


class DeploymentFence:
    """The deployment as this process knows it; it is read again once it is old.

    `known` was read from the store just now. `region` is where this process runs, and `is_standby`
    says that it writes only if the store names that region. `schema` is the highest that its
    release knows.
    """

    def __init__(
        self,
        store: Store,
        known: Deployment,
        *,
        region: str = "",
        is_standby: bool = False,
        schema: int = SCHEMA,
    ) -> None:
        self._store, self._known, self._schema = store, known, schema
        self._region, self._is_standby = region, is_standby
        self._looked_at, self._turn = _moment(), Lock()

    @property
    def store(self) -> Store:
        """The store, to be used as long as this process may.

        Each method raises `StaleProcess` once it may not, and `Unavailable` if the store does not
        say so.
        """
        return wrap_store(self._store, self.around)

    def is_in_charge(self) -> bool:
        """Return whether this process may write. Raises `StaleProcess`, `Unavailable`."""
        self._check(writes=False)
        return self._known.is_written_in(self._region, is_standby=self._is_standby)

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the call, made only after a check; `name` is that of the method."""

        def check_then_call(*args: Any, **kwargs: Any) -> Any:
            self._check(writes=name == "write")
            return call(*args, **kwargs)

        return check_then_call

    def _check(self, *, writes: bool) -> None:
        if _is_old(self._looked_at):
            with self._turn:
                if _is_old(self._looked_at):
                    self._look()
        try:
            self._known.check_schema(self._schema)
            self._known.check_in_charge()
        except InvalidSettings as error:
            raise StaleProcess from error
        if writes and not self._known.is_written_in(self._region, is_standby=self._is_standby):
            raise ReadOnly

    def _look(self) -> None:
        # Before the read, since what is read may change at once.
        at = _moment()
        self._known = Deployment.of(self._store.get(deployment.ADDRESS))
        self._looked_at = at


def _moment() -> tuple[float, float]:
    """Return the time by two clocks: one stands still in a frozen process, the other may jump."""
    return time.monotonic(), time.time()


def _is_old(start: tuple[float, float]) -> bool:
    return any(
        not 0 <= now - then <= AGE_SECONDS_MAX for then, now in zip(start, _moment(), strict=True)
    )


class ReadOnlyStore:
    """The reads of another store. All writes raise `ReadOnly`."""

    def __init__(self, store: Store) -> None:
        self.made_at, self.everything, self.column = store.made_at, store.everything, store.column
        self.get, self.get_many, self.count = store.get, store.get_many, store.count
        self.query, self.query_many = store.query, store.query_many

    def write(self, *_changes: Change) -> NoReturn:
        """Raise `ReadOnly`."""
        raise ReadOnly


class FencedUsage:
    """Usage counts that are kept while this process is in charge."""

    def __init__(self, usage: UsageCounts, is_in_charge: Callable[[], bool]) -> None:
        self._usage, self._is_in_charge = usage, is_in_charge

    def add(self, usage: UsageDelta) -> None:
        """Count, if this process is in charge. Raises `Unavailable`."""
        if self._is_in_charge():
            self._usage.add(usage)


class ReadOnlyUsage:
    """Usage counts that are not kept: requests are served, and uncounted."""

    def add(self, usage: UsageDelta) -> None:
        """Do nothing."""
