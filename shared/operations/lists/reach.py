"""Trace the publication of a revocation in the feed and in the SRL."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

from shared.authorizer.formats.wire import FeedEntry
from shared.model import feed as feed_model
from shared.model import times
from shared.model.feed import FeedHead, StoredEntry
from shared.model.fleet.propagation import PublishedEntry
from shared.model.lists.head import SrlHead
from shared.model.lists.schedule import warrant_mark_address
from shared.model.revocations import Revocation
from shared.model.warrants import is_past_retention
from shared.operations.base import tenants
from shared.operations.lists import in_force, marks
from shared.operations.lists.verdicts import read_statuses
from shared.ports import Ports

# How many entries a trace reads, newest first: at first a few, and then the rest.
_FEW: Final = 20
_MOST: Final = 1_000
# The most marks read from each partition. With more, the state of many warrants is unknown.
_MARKS_MAX: Final = 1_000


class PublicationStatus(NamedTuple):
    """The first entry and the first SRL that make clients refuse a warrant.

    A member is None if there is no such entry or SRL yet, or if the warrant is past retention.
    """

    feed_sequence: int | None
    srl_version: int | None


class BatchTrace(NamedTuple):
    """How many of `of` warrants the feed revokes, and the entry that completes them.

    Warrants that were unrevoked or are past retention do not count.
    """

    published: PublishedEntry | None
    told: int
    of: int


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
    for stored in _read_newest_entries(ports, tenant_id, _FEW, _MOST - _FEW):
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


def trace_batch(
    ports: Ports, tenant_id: str, warrant_ids: Collection[str], since: datetime
) -> BatchTrace:
    """Return how far the revocations of these warrants are published; they began at `since`.

    Reads every entry, since several entries may concern the same warrant. Raises `DataCorrupt`,
    `Unavailable`.
    """
    (marked, are_all), found, settings = ports.gather(
        lambda: marks.read_warrant_marks(ports, tenant_id, limit=_MARKS_MAX),
        lambda: read_statuses(ports, tenant_id, warrant_ids),
        lambda: tenants.settings(ports, tenant_id),
    )
    now, ttl = ports.now(), settings.srl_ttl
    wanted = {
        name
        for name, each in found.items()
        if each.revoked and not is_past_retention(each.ends_at, now, ttl=ttl)
    }
    waiting = {address.sk for address in marked} if are_all else wanted
    newest = in_force.read_feed_head(ports, tenant_id)
    if newest is None or not wanted:
        return BatchTrace(None, 0, len(wanted))
    open_, first, moments = wanted - waiting, dict[str, int](), dict[int, datetime]()
    last = latest_entry(newest)
    chains, oldest = dict(last.chains), last.sequence
    moments[last.sequence] = last.issued_at
    for stored in _read_newest_entries(ports, tenant_id, _MOST):
        if stored.issued_at < since - times.CLOCK_TOLERANCE:
            break
        entry, _ = stored.decode()
        oldest = entry.sequence
        moments[oldest], chains[oldest] = stored.issued_at, chains.get(oldest, stored.chain)
        open_.difference_update(entry.removed)
        first.update(dict.fromkeys(open_.intersection(entry.revoked), oldest))
        if entry.is_break:
            first |= dict.fromkeys(open_.difference(first), oldest)
    else:
        first |= dict.fromkeys(open_.difference(first), oldest)
    if len(first) < len(wanted):
        return BatchTrace(None, len(first), len(wanted))
    sequence = max(first.values())
    return BatchTrace(PublishedEntry(sequence, moments[sequence], chains), len(first), len(wanted))


def first_covering_entry(
    ports: Ports,
    tenant_id: str,
    newest: FeedHead | None,
    since: datetime,
    states: Callable[[StoredEntry, FeedEntry], Collection[str]],
) -> PublishedEntry | None:
    """Return the entry since `since` that completes a change in the feed, or None.

    `newest` is the feed head. `states` returns the parts of the change that an entry contains.
    Raises `DataCorrupt`, `Unavailable`.
    """
    if newest is None:
        return None
    chains, moments = dict(latest_entry(newest).chains), dict[int, datetime]()
    first = dict[str, int]()
    for stored in _read_newest_entries(ports, tenant_id, _MOST):
        if stored.issued_at < since - times.CLOCK_TOLERANCE:
            break
        entry, _ = stored.decode()
        chains[entry.sequence] = chains.get(entry.sequence, stored.chain)
        moments[entry.sequence] = stored.issued_at
        first |= dict.fromkeys(states(stored, entry), entry.sequence)
    if not first:
        return None
    sequence = max(first.values())
    return PublishedEntry(sequence, moments[sequence], chains)


def first_covering_srl(ports: Ports, tenant_id: str, sequence: int) -> SrlHead | None:
    """Return the first SRL that covers the sequence, or None.

    Considers only the heads that are kept.
    """
    found = [in_force.read_srl_head(ports, tenant_id), *in_force.read_srl_heads(ports, tenant_id)]
    covers = (each for each in found if each.sequence is not None and each.sequence >= sequence)
    return min(covers, key=lambda each: each.version, default=None)


def _read_newest_entries(ports: Ports, tenant_id: str, *sizes: int) -> Iterator[StoredEntry]:
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


def newest_entry_before(ports: Ports, newest: FeedHead, moment: datetime) -> PublishedEntry | None:
    """Return the newest entry published before `moment`, or None.

    Returns the oldest entry that was read if more entries are newer. Raises `DataCorrupt`,
    `Unavailable`.
    """
    last = latest_entry(newest)
    if last.issued_at < moment:
        return last
    partition, chains = feed_model.feed_partition(newest.signed_head.tenant_id), dict(last.chains)
    rows = ports.store.query(partition, before=feed_model.HEAD, newest_first=True, limit=_MOST)
    for read, row in enumerate(rows, 1):
        stored, sequence = StoredEntry.from_item(row.item), int(row.sk)
        chains[sequence] = chains.get(sequence, stored.chain)
        if stored.issued_at < moment or read == _MOST:
            return PublishedEntry(sequence, stored.issued_at, chains)
    return None
