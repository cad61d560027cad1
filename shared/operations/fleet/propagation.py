"""How far the feed has got among the authorizers of a tenant (FLEET-10, docs/adr/17)."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from shared.errors import Corrupt, Unavailable
from shared.model.fleet import authorizers, propagation
from shared.model.fleet.authorizers import Authorizer
from shared.model.fleet.propagation import Propagation, Published
from shared.model.revocations import Revocation
from shared.model.tenants import CountedReports
from shared.operations.base import tenants
from shared.operations.lists import in_force, reach
from shared.operations.lists.reach import Traced
from shared.ports import Ports

# How long authorizers have to apply an entry and to report it, before they are stragglers.
SETTLED_AFTER: Final = timedelta(minutes=5)


# The minutes between two counts of the authorizers of all tenants.
_COUNTED_EVERY: Final = 5

_log = logging.getLogger(__name__)


class Settled(NamedTuple):
    """How far an entry has got that each authorizer should have by now."""

    published: Published
    propagation: Propagation


@dataclass(frozen=True, slots=True)
class Survey:
    """How many authorizers are unknown by `of_feed`, and what it found, by tenant.

    A tenant whose items cannot be read counts as one unknown authorizer, and nothing was found.
    """

    unknown: int
    settled: dict[str, Settled]

    @property
    def holding(self) -> int:
        """How many authorizers are holding."""
        return sum(each.propagation.holding for each in self.settled.values())

    @property
    def closed(self) -> int:
        """How many authorizers are closed."""
        return sum(each.propagation.closed for each in self.settled.values())


def of_revocation(ports: Ports, tenant_id: str, record: Revocation) -> tuple[Traced, Propagation]:
    """Return how far a revocation has got. Raises `Corrupt`, `Unavailable`."""
    now = ports.now()
    # The authorizers first: what they report was published before the feed is read.
    registered = list(registrations(ports, tenant_id))
    traced = reach.traced(ports, tenant_id, record)
    only_signed = _only_signed(ports, tenant_id)
    found = propagation.propagation(registered, traced.published, now, only_signed=only_signed)
    return traced, found


def of_feed(ports: Ports, tenant_id: str) -> Settled | None:
    """Return how far the newest entry has got that is older than `SETTLED_AFTER`.

    Authorizers that registered later do not count. Returns None if there is no such authorizer, or
    no such entry. Raises `Corrupt`, `Unavailable`.
    """
    now = ports.now()
    registered = [
        each
        for each in registrations(ports, tenant_id)
        if each.registered_at <= now - SETTLED_AFTER
    ]
    newest = in_force.feed_head(ports, tenant_id) if registered else None
    if newest is None:
        return None
    published = reach.published_before(ports, newest, now - SETTLED_AFTER)
    if published is None:
        return None
    only_signed = _only_signed(ports, tenant_id)
    found = propagation.propagation(registered, published, now, only_signed=only_signed)
    return Settled(published, found)


def is_due(now: datetime) -> bool:
    """Return whether a run of the schedule in this minute counts the unknown authorizers."""
    return now.minute % _COUNTED_EVERY == 0


def survey(ports: Ports) -> Survey | None:
    """Look at the authorizers of all tenants.

    Returns None if no tenant ever had an authorizer. Raises `Unavailable` if the tenants cannot be
    read.
    """
    counters = {authorizers.registered_address(each): each for each in tenants.identifiers(ports)}
    found = ports.store.get_many(counters)
    if not found:
        return None
    unknown, settled = 0, dict[str, Settled]()
    for tenant_id in (counters[each] for each in found):
        try:
            of_tenant = of_feed(ports, tenant_id)
        except (Corrupt, Unavailable):
            # It must neither hide nor be hidden by those of other tenants.
            _log.exception("the authorizers of %s cannot be counted", tenant_id)
            unknown += 1
            continue
        if of_tenant is not None:
            unknown += of_tenant.propagation.unknown
            settled[tenant_id] = of_tenant
    return Survey(unknown, settled)


def registrations(ports: Ports, tenant_id: str) -> Iterator[Authorizer]:
    """Read the authorizers that are registered. Raises `Corrupt`, `Unavailable`."""
    now = ports.now()
    rows = ports.store.query(authorizers.authorizers(tenant_id))
    found = (Authorizer.from_item(row.item) for row in rows)
    return (each for each in found if not each.is_expired(now))


def _only_signed(ports: Ports, tenant_id: str) -> bool:
    return tenants.settings(ports, tenant_id).reports is CountedReports.SIGNED
