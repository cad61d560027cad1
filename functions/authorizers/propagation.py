"""The propagation of the feed among the authorizers of a tenant (FLEET-10, docs/adr/17).

It shows which authorizers enforce the revocation of a warrant or of a canary.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from functions.authorizers import enforcement, unregistered
from functions.authorizers import records as authorizers
from functions.authorizers.enforcement import Propagation
from functions.authorizers.records import Authorizer
from shared.authorizer.formats.cutoffs import subject_of
from shared.errors import DataCorrupt, Unavailable
from shared.model import feed, times
from shared.model.callers import Caller, Scope
from shared.model.feed import FeedHead, PublishedEntry, StoredEntry
from shared.model.identifiers import WARRANT
from shared.model.revocations import Revocation
from shared.operations.base import tenants
from shared.operations.base.operation import operation
from shared.operations.changes import revocations
from shared.operations.lists import in_force, reach
from shared.operations.lists.reach import ENTRIES_MAX, RevocationTrace, latest_entry
from shared.ports import Ports

# How long authorizers have to apply and report an entry before they count as lagging.
SETTLED_AFTER: Final = timedelta(minutes=5)

_log = logging.getLogger(__name__)


class SettledEntry(NamedTuple):
    """The propagation of an entry that every authorizer should have by now."""

    published: PublishedEntry
    propagation: Propagation


@dataclass(frozen=True, slots=True)
class FleetSurvey:
    """How many authorizers are unknown by `of_feed`, and its results by tenant.

    A tenant with unreadable items counts as one unknown authorizer, without a result.
    """

    unknown: int
    settled: dict[str, SettledEntry]

    @property
    def enforced(self) -> int:
        """How many authorizers enforce the settled entries."""
        return sum(each.propagation.enforced for each in self.settled.values())

    @property
    def fail_closed_count(self) -> int:
        """How many authorizers fail closed."""
        return sum(each.propagation.fail_closed for each in self.settled.values())


def of_feed(ports: Ports, tenant_id: str) -> SettledEntry | None:
    """Return the propagation of the newest entry that is older than `SETTLED_AFTER`.

    Authorizers that registered later do not count. Returns None if there is no such authorizer, or
    no such entry. Raises `DataCorrupt`, `Unavailable`.
    """
    now = ports.now()
    settled_at = now - SETTLED_AFTER
    registered = [
        each for each in registrations(ports, tenant_id) if each.registered_at <= settled_at
    ]
    newest = in_force.read_feed_head(ports, tenant_id) if registered else None
    if newest is None:
        return None
    published = _newest_entry_before(ports, newest, settled_at)
    if published is None:
        return None
    return SettledEntry(published, enforcement.propagation(registered, published, now))


def _newest_entry_before(ports: Ports, newest: FeedHead, moment: datetime) -> PublishedEntry | None:
    """Return the newest entry published before `moment`, or None.

    Returns the oldest entry that was read if more entries are newer. Raises `DataCorrupt`,
    `Unavailable`.
    """
    last = latest_entry(newest)
    if last.issued_at < moment:
        return last
    partition, chains = feed.feed_partition(newest.signed_head.tenant_id), dict(last.chains)
    rows = ports.store.query(partition, before=feed.HEAD, newest_first=True, limit=ENTRIES_MAX)
    for read, row in enumerate(rows, 1):
        stored, sequence = StoredEntry.from_item(row.item), int(row.sk)
        chains[sequence] = chains.get(sequence, stored.chain)
        if stored.issued_at < moment or read == ENTRIES_MAX:
            return PublishedEntry(sequence, stored.issued_at, chains)
    return None


def survey(ports: Ports) -> FleetSurvey | None:
    """Survey the authorizers of all tenants.

    Returns None if no tenant ever had an authorizer. Raises `Unavailable` if the tenants cannot be
    read.
    """
    counters = {authorizers.registered_address(each): each for each in tenants.identifiers(ports)}
    registered = ports.store.get_many(counters)
    if not registered:
        return None
    unknown, settled = 0, dict[str, SettledEntry]()
    for tenant_id in (counters[each] for each in registered):
        try:
            of_tenant = of_feed(ports, tenant_id)
        except (DataCorrupt, Unavailable):
            # A failure must neither hide other tenants nor be hidden by them.
            _log.exception("cannot count the authorizers of tenant %s", tenant_id)
            unknown += 1
            continue
        if of_tenant is not None:
            unknown += of_tenant.propagation.unknown
            settled[tenant_id] = of_tenant
    return FleetSurvey(unknown, settled)


def registrations(ports: Ports, tenant_id: str) -> Iterator[Authorizer]:
    """Read the unexpired registrations. Raises `DataCorrupt`, `Unavailable`."""
    now = ports.now()
    every = Authorizer.from_rows(ports.store.query(authorizers.authorizers(tenant_id)))
    return (each for each in every if not each.is_expired(now))


# A canary that is never unrevoked leaves the SRL one SRL lifetime after this.
_CANARY_ENDS_AFTER: Final = timedelta(hours=1)
_REASON: Final = "A canary: this warrant was never signed."
# Seconds between two reads: at least `_PAUSE`, and `_SHARE` times the duration of the last read.
_PAUSE: Final = 0.5
_SHARE: Final = 4

_sleep = time.sleep


class PropagationProgress(NamedTuple):
    """A revocation, its publication trace, and the authorizers that enforce it."""

    revocation: Revocation
    traced: RevocationTrace
    propagation: Propagation


@operation(Scope.ADMIN, Scope.REVOKER, Scope.AUDITOR)
def progress_of(ports: Ports, caller: Caller, *, revocation_id: str) -> PropagationProgress:
    """Return the propagation of a revocation among the authorizers (FLEET-10).

    Raises `NotFound`; `DataCorrupt`, `Unavailable`: a fault is never reported as complete.
    """
    record = revocations.record(ports, caller, revocation_id=revocation_id)
    now, tenant_id = ports.now(), caller.tenant_id
    # Read the authorizers first. Their reports then precede this read of the feed.
    registered = list(registrations(ports, tenant_id))
    traced = reach.trace_revocation(ports, tenant_id, record)
    among = enforcement.propagation(
        registered,
        traced.published,
        now,
        has_cutoff=subject_of(record.warrant_id) is not None,
    )
    clients = unregistered.read(ports, tenant_id, registered)
    return PropagationProgress(record, traced, replace(among, unregistered=clients))


@contextmanager
def canary(ports: Ports, caller: Caller) -> Iterator[Revocation]:
    """Revoke a warrant that was never issued. Unrevoke it when the block ends in any way."""
    warrant_id = f"svc_{WARRANT}_canary_{ports.new_id(WARRANT).rpartition('_')[2]}"
    ends_at = times.truncate_to_second(ports.now() + _CANARY_ENDS_AFTER)

    def revoke_canary() -> Revocation:
        return revocations.create(
            ports, caller, warrant_id=warrant_id, reason=_REASON, warrant_expires_at=ends_at
        )[0]

    try:
        yield revoke_canary()
    finally:
        # Repeated because an interrupt may have come before the record was known. It is the same
        # record.
        revocations.delete(ports, caller, revocation_id=revoke_canary().id)


def watch(
    ports: Ports, caller: Caller, revocation_id: str, *, seconds: float
) -> Iterator[tuple[float, PropagationProgress]]:
    """Yield the propagation of a revocation, with the seconds since the first read.

    Ends when the propagation is complete, or after `seconds`. Raises `NotFound`,
    `DataCorrupt`, `Unavailable`.
    """
    begin = time.monotonic()
    while True:
        looked = time.monotonic()
        progress = progress_of(ports, caller, revocation_id=revocation_id)
        passed = time.monotonic() - begin
        yield passed, progress
        if progress.propagation.is_complete or passed >= seconds:
            return
        pause = max(_PAUSE, _SHARE * (time.monotonic() - looked))
        _sleep(min(pause, max(0.0, seconds - passed)))
