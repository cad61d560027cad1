"""Publish the feed when an outbox mark is set, within the tenant's window (docs/adr/11).

The first change is published at once. The next entry waits until the tenant's `feed_window_ms` has
passed since the last entry. The scheduler publishes the rest.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from shared.model.feed import SOON_SECONDS, FeedHead
from shared.model.items import Address
from shared.model.tenants import SrlPublicationPolicy, TenantSettings
from shared.operations.base import counters, operation, tenants
from shared.operations.lists import in_force, publication
from shared.operations.lists.in_force import ReadBatch
from shared.operations.lists.journal import FeedRun
from shared.ports import Ports

# Building an SRL after each entry takes at most one twentieth of the time. The duration of a
# publication is estimated: a fixed part for each SRL, and a part for each of its warrants.
_SHARE: Final = 20
_SECONDS_A_LIST: Final = 0.1
_SECONDS_A_WARRANT: Final = 2.5e-6


@dataclass(frozen=True, slots=True)
class WakeResult:
    """The outcome of a wake-up.

    `entries` is the number of entries written. If `wait_seconds` is not 0, the publication window
    is still open and the marks were not read. `list_due` requests an SRL at once, which publishes
    the waiting changes. `done` is for the journal, and `unnamed` for `publication.name_keys`.
    """

    entries: int = 0
    wait_seconds: float = 0.0
    list_due: bool = False
    done: FeedRun | None = field(default=None, compare=False, repr=False)
    unnamed: frozenset[Address] = frozenset()


def publish_within_window(ports: Ports, tenant_id: str) -> WakeResult:
    """Publish as `publish_feed` does, after the rest of the window if it is short.

    Reads once more if no mark is found, because a mark on the tenant may be visible before the
    other items of its write. Raises `DataCorrupt`, `Unavailable`.
    """
    waited, looks = 0.0, 0
    while True:
        woken = publish_feed(ports, tenant_id)
        looks += not woken.wait_seconds
        pause = woken.wait_seconds or operation.PACING.in_flight
        waited += pause
        if woken.entries or woken.unnamed or woken.list_due or looks > 1 or waited > SOON_SECONDS:
            return woken
        operation.PACING.sleep(pause)


def publish_feed(
    ports: Ports, tenant_id: str, unnamed_marks: Collection[Address] = ()
) -> WakeResult:
    """Publish the feed of a tenant, unless its publication window is still open.

    The feed already covers the marks on signers in `unnamed_marks`. Raises `DataCorrupt`,
    `Unavailable`.
    """
    began, reads = ports.now(), ReadBatch()
    of_tenant = reads.add(lambda: tenants.settings(ports, tenant_id))
    of_feed = reads.add(lambda: in_force.read_feed_head(ports, tenant_id))
    # Damage in the counter must not stop the feed.
    ended = reads.add(lambda: counters.of_tombstones(ports, tenant_id))
    reads.run(ports)
    settings, head = of_tenant(), of_feed()
    if head is None:
        return WakeResult()
    if wait_seconds := _seconds_left_in_window(head, settings, began):
        waits = FeedRun(head, ended)
        return WakeResult(wait_seconds=wait_seconds, list_due=head.needs_list, done=waits)
    published = publication.publish_feed(ports, tenant_id, unnamed_marks)
    if published is None:
        return WakeResult()
    known_until = began if published.is_whole else None
    follows = published.entries > 0 and settings.srl_publication is SrlPublicationPolicy.IMMEDIATE
    return WakeResult(
        published.entries,
        list_due=published.head.needs_list or (follows and _is_srl_replaceable(ports, tenant_id)),
        done=FeedRun(published.head, ended, known_until, published.facts, published.seeds),
        unnamed=published.unnamed,
    )


def _seconds_left_in_window(head: FeedHead, settings: TenantSettings, now: datetime) -> float:
    """Return the seconds until the next entry is allowed, at most the length of the window."""
    window = settings.feed_window.total_seconds()
    passed = now.timestamp() - head.published_ms / 1000
    # An entry in the future comes from a wrong clock. The feed must not wait until then.
    return 0.0 if passed < -window else min(max(window - passed, 0.0), window)


def _is_srl_replaceable(ports: Ports, tenant_id: str) -> bool:
    """Return whether the current SRL is old enough to be replaced without being due."""
    head = in_force.read_srl_head(ports, tenant_id)
    seconds = _SECONDS_A_LIST + head.count * _SECONDS_A_WARRANT
    replaceable_at = head.issued_at + timedelta(seconds=_SHARE * seconds)
    return head.is_ahead(ports.now()) or ports.now() >= replaceable_at
