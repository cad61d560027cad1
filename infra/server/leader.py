"""Leader election: one of the servers on the same data publishes, appends and delivers.

Two servers may lead for a moment. This is safe, because each write checks its preconditions
(docs/adr/11).
"""

import logging
import platform
import secrets
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from shared.errors import PreconditionFailed, RescindError
from shared.model.deployment import LEADER_ADDRESS, LeaderNote
from shared.ports.one_machine import ProcessLocks
from shared.ports.store import Delete, Expect, Put, Store, VersionIs

# The renewal interval of the lease, and its lifetime after a renewal, in seconds.
RENEW_SECONDS: Final = 1.0
LAPSE_SECONDS: Final = 3.0

_log = logging.getLogger("rescind")


class FileLease:
    """A file lock as a lease, for servers on one machine.

    The kernel releases the lock when the process ends, so no disk write per second is needed.
    `seen_at` is the last time a server was seen to have the lock, by the monotonic clock.
    """

    def __init__(self, store: ProcessLocks) -> None:
        self._store = store
        self._unlock: Callable[[], None] | None = None
        self.seen_at = time.monotonic()

    def take(self, *, wants: bool) -> bool:
        """Take the lock if this server `wants` it. Return whether this server has it.

        Raises `RescindError` if the state of the lock is unknown.
        """
        if self._unlock is None:
            self._unlock = self._store.lock("leader")
            if self._unlock is not None and not wants:
                # No server leads.
                self.end()
                return False
        self.seen_at = time.monotonic()
        return self._unlock is not None

    def end(self) -> None:
        """Release the lock, so another server can take it at once."""
        if self._unlock is not None:
            self._unlock()
            self._unlock = None


class StoreLease:
    """A lease stored as an item. It lapses if its version does not change for a time.

    Each server measures that time with its own clock, so clocks need not agree. `seen_at` is the
    last time a server was seen to have the lease.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        # The host name helps a person who reads the item.
        self._name = f"{platform.node()}-{secrets.token_hex(8)}"
        self._seen: LeaderNote | None = None
        self.seen_at = clock()

    def take(self, *, wants: bool) -> bool:
        """Take or renew the lease if this server `wants` it. Return whether this server has it.

        This takes one read and one write. Other servers only read. Raises `RescindError` if the
        state of the lease is unknown.
        """
        started_at = self._clock()
        note = LeaderNote.from_optional(self._store.get(LEADER_ADDRESS))
        if note is not None and note.by != self._name:
            if note != self._seen:
                self._seen, self.seen_at = note, self._clock()
            if self._clock() < self.seen_at + LAPSE_SECONDS:
                return False
        if not wants:
            return False
        renewed = LeaderNote(self._name, note.version + 1 if note else 1)
        expect = VersionIs(note.version) if note else Expect.ABSENT
        try:
            self._store.write(Put(LEADER_ADDRESS, renewed.to_item(), expect))
        except PreconditionFailed:
            return False
        # Other servers count from when they see the item, which is later.
        self._seen, self.seen_at = renewed, started_at
        return True

    def end(self) -> None:
        """Delete the item, unless another server has taken the lease. Failures are logged."""
        if self._seen is None or self._seen.by != self._name:
            return
        try:
            self._store.write(Delete(LEADER_ADDRESS, VersionIs(self._seen.version)))
        except PreconditionFailed:
            return
        except RescindError:
            _log.warning("cannot delete the lease of this server; it lapses within seconds")
        self._seen = None


LeaderLease: TypeAlias = FileLease | StoreLease


def lease(store: Store) -> LeaderLease:
    """Return the lease for the servers on a store."""
    return FileLease(store) if isinstance(store, ProcessLocks) else StoreLease(store)


class LeaderElection:
    """Decides by a `lease` whether this server leads. `wants` is false if it must not lead."""

    def __init__(
        self, lease: LeaderLease, *, wants: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lease, self._wants, self._clock = lease, wants, clock
        self._leads = self._fails = False

    def leads(self) -> bool:
        """Renew or try to take the lease. Return whether this server leads now.

        If the store does not respond, a leader remains leader until its lease may have lapsed.
        """
        try:
            self._leads = self._lease.take(wants=self._wants)
        except RescindError:
            if not self._fails:
                _log.exception("cannot read which server leads; retrying")
            self._fails = True
            self._leads = self._leads and self._clock() < self._lease.seen_at + LAPSE_SECONDS
        else:
            self._fails = False
        return self._leads

    @property
    def seen_at(self) -> float:
        """The last time a server was seen to lead, by the monotonic clock."""
        return self._lease.seen_at

    def end(self) -> None:
        """Release the leadership."""
        self._lease.end()
