"""The leader: of all servers on the same data, the one that publishes, seals and sends.

Two may lead for an instant, which does no harm: each write depends on what it was decided from
(docs/adr/11).
"""

import logging
import platform
import secrets
import time
from collections.abc import Callable
from typing import Final, Protocol

from shared.errors import PreconditionFailed, RescindError
from shared.model.deployment import LEADER_ADDRESS, LeaderNote
from shared.ports.one_machine import ProcessLocks
from shared.ports.store import Delete, Expect, Put, Store, VersionIs

# How often the leader renews its lease, and how long the lease lasts after that.
RENEW_SECONDS: Final = 1.0
LAPSE_SECONDS: Final = 3.0

_log = logging.getLogger("rescind")


class LeaderLease(Protocol):
    """One server at a time has it. `seen_at` is when a server was last seen to have it.

    Times are of the monotonic clock.
    """

    seen_at: float

    def take(self, *, wants: bool) -> bool:
        """Take or renew the lease if this server `wants` it. Return whether it has it.

        Raises `RescindError` if that is not known.
        """
        ...

    def end(self) -> None:
        """Let another server have the lease at once."""
        ...


class FileLease:
    """A lease that the kernel ends with the process, for servers on one machine.

    A renewal would write to the disk each second.
    """

    def __init__(self, store: ProcessLocks) -> None:
        self._store = store
        self._unlock: Callable[[], None] | None = None
        self.seen_at = time.monotonic()

    def take(self, *, wants: bool) -> bool:
        """Take the lock."""
        if self._unlock is None:
            self._unlock = self._store.lock("leader")
            if self._unlock is not None and not wants:
                # Nobody leads.
                self.end()
                return False
        self.seen_at = time.monotonic()
        return self._unlock is not None

    def end(self) -> None:
        """Open the lock."""
        if self._unlock is not None:
            self._unlock()
            self._unlock = None


class StoreLease:
    """A lease that is an item of the store: it lapses if its version stays the same for a time.

    Each server measures that by its own clock, so a wrong clock does not matter.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        # The name of the machine is for whoever reads the item.
        self._name = f"{platform.node()}-{secrets.token_hex(8)}"
        self._seen: LeaderNote | None = None
        self.seen_at = clock()

    def take(self, *, wants: bool) -> bool:
        """Take or renew the lease: one read and one write, or the read alone for others."""
        asked_at = self._clock()
        found = LeaderNote.from_optional(self._store.get(LEADER_ADDRESS))
        if found is not None and found.by != self._name:
            if found != self._seen:
                self._seen, self.seen_at = found, self._clock()
            if self._clock() < self.seen_at + LAPSE_SECONDS:
                return False
        return wants and self._write(found, asked_at)

    def _write(self, note: LeaderNote | None, asked_at: float) -> bool:
        new = LeaderNote(self._name, note.version + 1 if note else 1)
        expect = VersionIs(note.version) if note else Expect.ABSENT
        try:
            self._store.write(Put(LEADER_ADDRESS, new.to_item(), expect))
        except PreconditionFailed:
            return False
        # Others count from when they see it, which is later.
        self._seen, self.seen_at = new, asked_at
        return True

    def end(self) -> None:
        """Delete the item, unless another server has taken the lease. A failure is logged."""
        if self._seen is None or self._seen.by != self._name:
            return
        try:
            self._store.write(Delete(LEADER_ADDRESS, VersionIs(self._seen.version)))
        except PreconditionFailed:
            return
        except RescindError:
            _log.warning("the lease of this server is not deleted; it lapses by itself")
        self._seen = None


def lease(store: Store) -> LeaderLease:
    """Return the lease of the servers on a store."""
    return FileLease(store) if isinstance(store, ProcessLocks) else StoreLease(store)


class LeaderElection:
    """Whether this server leads, by its `lease`; `wants` is false for one that must not."""

    def __init__(
        self, lease: LeaderLease, *, wants: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lease, self._wants, self._clock = lease, wants, clock
        self._leads = self._fails = False

    def leads(self) -> bool:
        """Renew the lease or try to take it; return whether this server leads now.

        If the store does not answer, a leader goes on until its lease may have lapsed.
        """
        try:
            self._leads = self._lease.take(wants=self._wants)
        except RescindError:
            if not self._fails:
                _log.exception("it is not known which server leads; it is asked again")
            self._fails = True
            self._leads = self._leads and self._clock() < self._lease.seen_at + LAPSE_SECONDS
        else:
            self._fails = False
        return self._leads

    @property
    def seen_at(self) -> float:
        """When a server was last seen to lead, by the monotonic clock."""
        return self._lease.seen_at

    def end(self) -> None:
        """Let another server lead."""
        self._lease.end()
