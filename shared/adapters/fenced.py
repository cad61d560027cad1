"""A store that an outdated process can no longer use.

A process checks at its start whether it may use the store. It checks again before a call if the
last check is older than `AGE_SECONDS_MAX`. All threads share the check, so the item is rarely read.

Every call fails in two cases. The data has an unknown schema, which this release might misread. Or
the data was migrated, and changes in another store. Writes alone fail if another AWS region is the
writable one (OPS-12, OPS-13, OPS-24; docs/adr/15).
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

# A release that raises the schema waits longer than this before it stores data that earlier
# releases misread.
AGE_SECONDS_MAX: Final = 5.0


class DeploymentFence:
    """The deployment as this process last read it. An old state is read again.

    `known` was just read from the store. `region` is the region of this process. With `is_standby`,
    it writes only if the store names that region. `schema` is the highest schema that this release
    supports.
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
        """The store, checked before each call.

        Each method raises `StaleProcess` if this process may no longer use the store, and
        `Unavailable` if the check fails.
        """
        return wrap_store(self._store, self.around)

    def is_in_charge(self) -> bool:
        """Return whether this process may write. Raises `StaleProcess`, `Unavailable`."""
        self._check(writes=False)
        return self._known.is_written_in(self._region, is_standby=self._is_standby)

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return `call` with a check before it. `name` is the name of the method."""

        def check_then_call(*args: Any, **kwargs: Any) -> Any:
            self._check(writes=name == "write")
            return call(*args, **kwargs)

        return check_then_call

    def _check(self, *, writes: bool) -> None:
        if _is_old(self._looked_at):
            with self._turn:
                if _is_old(self._looked_at):
                    # Before the read, because the item may change right after it.
                    at = _moment()
                    self._known = Deployment.of(self._store.get(deployment.ADDRESS))
                    self._looked_at = at
        try:
            self._known.check_schema(self._schema)
            self._known.check_in_charge()
        except InvalidSettings as error:
            raise StaleProcess from error
        if writes and not self._known.is_written_in(self._region, is_standby=self._is_standby):
            raise ReadOnly


def _moment() -> tuple[float, float]:
    """Return the time by two clocks: the first stops in a frozen process, the second may jump."""
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
    """Usage counts that are written only while this process may write."""

    def __init__(self, usage: UsageCounts, is_in_charge: Callable[[], bool]) -> None:
        self._usage, self._is_in_charge = usage, is_in_charge

    def add(self, usage: UsageDelta) -> None:
        """Add to the count, if this process may write. Raises `Unavailable`."""
        if self._is_in_charge():
            self._usage.add(usage)


class ReadOnlyUsage:
    """Discards usage counts: requests are served and not counted."""

    def add(self, usage: UsageDelta) -> None:
        """Do nothing."""
