"""Trace the publication of a revocation in the feed and in the SRL."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from shared.model import feed as feed_model
from shared.model import times
from shared.model.feed import FeedHead, PublishedEntry, StoredEntry
from shared.model.lists.head import SrlHead
from shared.model.lists.schedule import warrant_mark_address
from shared.model.revocations import Revocation
from shared.model.warrants import is_past_retention
from shared.operations.base import tenants
from shared.operations.lists import in_force
from shared.operations.lists.verdicts import read_statuses
from shared.ports import Ports

# How many entries a trace reads, newest first: at first a few, and then the rest.
_FEW: Final = 20
ENTRIES_MAX: Final = 1_000


class PublicationStatus(NamedTuple):
    """The first entry and the first SRL that make clients refuse a warrant.

    A member is None if there is no such entry or SRL yet, or if the warrant is past retention.
    """

    feed_sequence: int | None
    srl_version: int | None


class RevocationTrace(NamedTuple):
    """The first entry and the first SRL that make clients refuse a warrant.

    Both are None in the same cases as in `PublicationStatus`. `ended_at` is the expiry of a warrant
    that is past retention.
    """

    published: PublishedEntry | None = None
    srl_version: int | None = None
    ended_at: datetime | None = None


def publication_status(ports: Ports, tenant_id: str, record: Revocation) -> PublicationStatus:
    """Return the publication status of a revocation (REVOKE-8).

    Raises `DataCorrupt`, `Unavailable`.
    """
    published, version, _ = trace_revocation(ports, tenant_id, record)
    return PublicationStatus(None if published is None else published.sequence, version)


def trace_revocation(ports: Ports, tenant_id: str, record: Revocation) -> RevocationTrace:
    """Return the publication trace of a revocation. Raises `DataCorrupt`, `Unavailable`."""
    mark = warrant_mark_address(tenant_id, record.warrant_id)
    # Read before the feed, because a mark is removed only after its entry is written.
    marked, found, settings = ports.gather(
        lambda: ports.store.get(mark) is not None,
        lambda: read_statuses(ports, tenant_id, [record.warrant_id]),
        lambda: tenants.settings(ports, tenant_id),
    )
    end = found[record.warrant_id].ends_at
    if is_past_retention(end, ports.now(), ttl=settings.srl_ttl):
        return RevocationTrace(ended_at=end)
    newest = in_force.read_feed_head(ports, tenant_id)
    # With a mark, the feed does not contain the change yet. An entry in flight may still unrevoke
    # the warrant, because it was unrevoked and then revoked again.
    if newest is None or marked:
        return RevocationTrace()
    published = _first_covering(ports, tenant_id, record, newest)
    listed = None if published is None else first_covering_srl(ports, tenant_id, published.sequence)
    return RevocationTrace(published, None if listed is None else listed.version)


def _first_covering(
    ports: Ports, tenant_id: str, record: Revocation, newest: FeedHead
) -> PublishedEntry | None:
    """Return the first entry since which the feed revokes the warrant without a gap.

    If the revocation is older than the entries that were read, this is the oldest of them.
    """
    since = record.created_at - times.CLOCK_TOLERANCE
    found, oldest, chains = None, None, dict[int, bytes]()
    for stored in read_newest_entries(ports, tenant_id, _FEW, ENTRIES_MAX - _FEW):
        entry, _ = stored.decode()
        # No older entry concerns the revocation.
        if stored.issued_at < since or record.warrant_id in entry.removed:
            break
        chains[entry.sequence] = stored.chain
        oldest = PublishedEntry(entry.sequence, stored.issued_at, {})
        # After a discontinuity, clients load an SRL from a full rebuild.
        if record.warrant_id in entry.revoked or (entry.is_break and found is None):
            found = oldest
    else:
        found = found or oldest
        if found is None:
            return latest_entry(newest)
    return found and replace(found, chains={**chains, **latest_entry(newest).chains})


def first_covering_srl(ports: Ports, tenant_id: str, sequence: int) -> SrlHead | None:
    """Return the first SRL that covers the sequence, or None.

    Considers only the heads that are kept.
    """
    found = [in_force.read_srl_head(ports, tenant_id), *in_force.read_srl_heads(ports, tenant_id)]
    covers = (each for each in found if each.sequence is not None and each.sequence >= sequence)
    return min(covers, key=lambda each: each.version, default=None)


def read_newest_entries(ports: Ports, tenant_id: str, *sizes: int) -> Iterator[StoredEntry]:
    """Read the newest entries of the feed, newest first, with a query for each of the sizes."""
    partition, before = feed_model.feed_partition(tenant_id), feed_model.HEAD
    for size in sizes:
        for row in ports.store.query(partition, before=before, newest_first=True, limit=size):
            before = row.sk
            yield StoredEntry.from_item(row.item)


def latest_entry(newest: FeedHead) -> PublishedEntry:
    """Return the last entry of a feed.

    If all entries were removed, use the time of the feed head.
    """
    head = newest.signed_head
    at = newest.published_ms / 1000
    issued_at = datetime.fromtimestamp(at, UTC) if at else head.issued_at
    chains = {head.base.sequence: head.base.chain, head.sequence: head.chain}
    return PublishedEntry(head.sequence, issued_at, chains)
