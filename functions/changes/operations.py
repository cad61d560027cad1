"""Changes of any kind, and the authorizers that do not enforce them yet (FLEET-30)."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from functions.authorizers import enforcement as model
from functions.authorizers import propagation, unregistered
from functions.authorizers.enforcement import Propagation, PropagationCurve, judge
from functions.changes.records import Actor, ChangeFilters, ChangeKind, RecordedChange
from shared.authorizer.formats.cutoffs import subject_of
from shared.authorizer.formats.wire import FeedEntry
from shared.errors import NotFound
from shared.model import api_keys, times
from shared.model import revocation_batches as batches
from shared.model.api_keys import ApiKey
from shared.model.audit import records as audit_records
from shared.model.audit.audit_log import AuditAction, AuditEntry, EntryFilters
from shared.model.callers import Caller, Scope
from shared.model.feed import FeedHead, PublishedEntry, StoredEntry
from shared.model.identifiers import API_KEY, BATCH, REVOCATION, SIGNING_KEY, is_identifier
from shared.model.lists import schedule
from shared.model.lists.head import SrlHead
from shared.model.lists.schedule import IN_FLIGHT_MAX
from shared.model.revocation_batches import BatchAction, BatchPart
from shared.model.signing_keys import SigningKey, keys
from shared.model.warrants import is_past_retention
from shared.operations.audit import audit_log
from shared.operations.base import counters, tenants
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page
from shared.operations.changes import revocations
from shared.operations.lists import in_force, marks, reach
from shared.operations.lists import signers as srl_signers
from shared.operations.lists.reach import ENTRIES_MAX, latest_entry, read_newest_entries
from shared.operations.lists.verdicts import read_statuses
from shared.ports import Ports

# The most marks on signers that are read. With more, it is unknown which keys wait.
_MARKS_MAX: Final = 1_000
# The audit entry of a change has almost the same time as its record.
_APART: Final = timedelta(seconds=10)
# The most entries that are searched for a deleted revocation.
_MADE_MAX: Final = 1_000
_RESTORED: Final = (AuditAction.REVOCATION_DELETE, AuditAction.REVOCATION_DELETE_BATCH)


class ChangeImpact(NamedTuple):
    """How many keys a change revoked, and how many warrants it revokes."""

    keys: int
    warrants: int


class FeedCoverage(NamedTuple):
    """The published parts of a change, and the entry that completes them."""

    published: int
    total: int
    entry: PublishedEntry | None


class ChangeFacts(NamedTuple):
    """A change, and its publication.

    `feed` is None for an API key, because only the service accepts it. `unrevoked_at` is the time
    when a warrant was unrevoked. `has_cutoff` is true if the change revoked a subject cutoff.
    """

    change: RecordedChange
    reach: ChangeImpact
    feed: FeedCoverage | None
    can_unrevoke: bool = False
    unrevoked_at: datetime | None = None
    has_cutoff: bool = False


@dataclass(frozen=True, slots=True)
class ChangeProgress:
    """A change, and its enforcement by the authorizers.

    `srl_due_at` is the time by which the next SRL is due, if no SRL has the change yet.
    """

    facts: ChangeFacts
    listed: SrlHead | None
    srl_due_at: datetime | None
    propagation: Propagation
    propagation_curve: PropagationCurve

    @property
    def is_complete(self) -> bool:
        """Whether the change is enforced everywhere (see `Propagation`).

        The revocation of an API key is complete when the key has no registered authorizers.
        """
        if self.facts.feed is None:
            return self.propagation.total == 0
        return self.propagation.is_complete

    @property
    def completed_at(self) -> datetime | None:
        """When the last authorizer was known to enforce the change, or None if not complete."""
        return self.propagation_curve.last if self.is_complete else None


_Find: TypeAlias = Callable[[Ports, Caller, str], ChangeFacts]


@operation(Scope.ADMIN, Scope.REVOKER, Scope.AUDITOR)
def of_change(ports: Ports, caller: Caller, *, change_id: str) -> ChangeProgress:
    """Return the progress of a change among the authorizers (FLEET-30).

    Raises `NotFound`; `DataCorrupt`, `Unavailable`: a fault is never reported as complete.
    """
    now, tenant_id = ports.now(), caller.tenant_id
    # Read the authorizers first. Their reports then precede this read of the feed.
    registered = list(propagation.registrations(ports, tenant_id))
    clients = unregistered.read(ports, tenant_id, registered)
    finds = (each for kind, each in _FINDS.items() if is_identifier(change_id, kind=kind))
    find = next(finds, None)
    if find is None:
        raise NotFound
    facts = find(ports, caller, change_id)
    entry = facts.feed and facts.feed.entry
    if facts.feed is None:
        registered, clients = [each for each in registered if each.key_id == change_id], ()
    judged = [judge(each, entry, now, has_cutoff=facts.has_cutoff) for each in registered]
    listed = reach.first_covering_srl(ports, tenant_id, entry.sequence) if entry else None
    due_at = None
    if facts.feed is not None and listed is None and facts.unrevoked_at is None:
        head = in_force.read_srl_head(ports, tenant_id)
        due_at = schedule.due_by(head, facts.change.recorded_at, now)
    return ChangeProgress(
        facts,
        listed,
        due_at,
        replace(model.count_statuses(judged), unregistered=clients),
        model.curve(judged, entry, facts.change.recorded_at),
    )


@operation(Scope.ADMIN, Scope.REVOKER, Scope.AUDITOR)
def page(
    ports: Ports,
    caller: Caller,
    *,
    filters: ChangeFilters,
    before: str | None,
    limit: int,
) -> Page[RecordedChange]:
    """Return a page of the changes in a window from the audit log, newest first.

    `before` is the last entry of the previous page. Raises `DataCorrupt`, `Unavailable`.
    """
    kinds = list(ChangeKind) if filters.kind is None else [filters.kind]

    def read(of: ChangeKind) -> list[AuditEntry]:
        of_kind = EntryFilters(filters.start, filters.end, of.action)
        return audit_log.newest(ports, caller, of_kind, before=before, limit=limit + 1)

    runs = ports.gather(*(partial(read, each) for each in kinds))
    entries = sorted(chain.from_iterable(runs), key=lambda each: each.id, reverse=True)
    shown = entries[:limit]
    # A batch may also unrevoke warrants.
    changes = [
        RecordedChange.of_entry(each)
        for each in shown
        if each.details.get("action", BatchAction.REVOKE) == BatchAction.REVOKE
    ]
    # Audit entries lack the names of signing keys.
    addresses = {
        each.id: keys(caller.tenant_id).address(each.id)
        for each in changes
        if each.kind is ChangeKind.SIGNING_KEY
    }
    items = ports.store.get_many(dict.fromkeys(addresses.values())) if addresses else {}
    names = {
        own: SigningKey.from_item(items[at]).name for own, at in addresses.items() if at in items
    }
    changes = [replace(each, name=names.get(each.id, each.name)) for each in changes]
    return Page(changes, None, shown[-1].id if len(entries) > limit else None)


def _warrant(ports: Ports, caller: Caller, change_id: str) -> ChangeFacts:
    try:
        record = revocations.record(ports, caller, revocation_id=change_id)
    except NotFound:
        return _find_restored(ports, caller, change_id)
    traced = reach.trace_revocation(ports, caller.tenant_id, record)
    actor = Actor(record.created_by, record.actor_key_id, record.created_by_name)
    change = RecordedChange(
        record.id, ChangeKind.WARRANT, record.warrant_id, record.created_at, record.reason, actor
    )
    entry = traced.published
    feed = FeedCoverage(int(entry is not None), 0 if traced.ended_at else 1, entry)
    has_cutoff = subject_of(record.warrant_id) is not None
    return ChangeFacts(change, ChangeImpact(0, 1), feed, can_unrevoke=True, has_cutoff=has_cutoff)


def _find_restored(ports: Ports, caller: Caller, change_id: str) -> ChangeFacts:
    """Return a deleted revocation from the audit log. Raises `NotFound`."""
    # Its identifier contains the time of its entry.
    at = audit_records.moment(change_id)
    start = times.truncate_to_second(at - _APART)
    for action in (ChangeKind.WARRANT.action, AuditAction.REVOCATION_CREATE_BATCH):
        filters = EntryFilters(start, at + _APART, action)
        entries = audit_log.newest(ports, caller, filters, before=None, limit=_MADE_MAX)
        created = next((each for each in entries if change_id in _named_revocations(each)), None)
        if created is not None:
            break
    else:
        raise NotFound
    warrant_id = _named_revocations(created)[change_id]
    start, end = times.truncate_to_second(at), ports.now() + _APART
    filters = audit_log.reachable(ports, EntryFilters(start, end, warrant_id=warrant_id))
    for item in audit_log.of_warrant(ports, caller, filters):
        entry = AuditEntry.from_item(item)
        if entry.action in _RESTORED and change_id in _named_revocations(entry):
            change = RecordedChange.of_entry(created, ChangeKind.WARRANT)
            change, feed = replace(change, id=change_id, name=warrant_id), FeedCoverage(0, 0, None)
            return ChangeFacts(change, ChangeImpact(0, 1), feed, unrevoked_at=entry.timestamp)
    raise NotFound


def _named_revocations(entry: AuditEntry) -> dict[str, str]:
    """Return the revocations that an entry names, each with its warrant."""
    revoked = entry.details.get("revocations")
    if not isinstance(revoked, list):
        return {entry.resource_id: str(entry.details.get("warrant_id"))}
    return {str(each["id"]): str(each["warrant_id"]) for each in revoked if isinstance(each, dict)}


def _batch(ports: Ports, caller: Caller, change_id: str) -> ChangeFacts:
    tenant_id = caller.tenant_id
    rows = ports.store.query(batches.parts(tenant_id, change_id))
    parts = [(row.sk.rpartition("#")[2], BatchPart.from_item(row.item)) for row in rows]
    revoked = [each for each in parts if each[1].action is BatchAction.REVOKE]
    if not revoked:
        raise NotFound
    entry_id, _ = min(revoked)
    recorded_at = audit_records.moment(entry_id)
    ids = {each for _, part in revoked for each in part.warrant_ids}
    feed = _trace_batch(ports, tenant_id, ids, recorded_at)
    item = audit_log.read_entries(ports, tenant_id, [entry_id]).get(entry_id)
    change = RecordedChange(change_id, ChangeKind.BATCH, None, recorded_at, None, None)
    if item is not None:
        entry = AuditEntry.from_item(item)
        reason = str(entry.details.get("reason", ""))
        change = replace(change, reason=reason, actor=Actor.of(entry))
    has_cutoff = any(map(subject_of, ids))
    reached = ChangeImpact(0, len(ids))
    return ChangeFacts(change, reached, feed, can_unrevoke=feed.total > 0, has_cutoff=has_cutoff)


def _key(ports: Ports, caller: Caller, change_id: str) -> ChangeFacts:
    """Return the revocation of a signing key or of an SRL signer."""
    tenant_id = caller.tenant_id
    item = ports.store.get(keys(tenant_id).address(change_id))
    if item is None:
        return _srl_signer(ports, caller, change_id)
    key = SigningKey.from_item(item)
    if key.revoked_at is None:
        raise NotFound
    revoked_at, revoked = key.revoked_at, [key]
    change, entry = _find_change(
        ports, caller, ChangeKind.SIGNING_KEY, change_id, revoked_at, name=key.name
    )
    if entry and entry.details.get("cascade"):
        # No new key can follow below a revoked one.
        revoked += [
            each
            for each in SigningKey.from_rows(ports.store.query(keys(tenant_id)))
            if key.id in each.ancestors and each.revoked_at and each.revoked_at >= revoked_at
        ]
    ids = {each.id for each in revoked}
    # A superseded version counts as part of its key.
    signers = [each.signer for each in revoked if each.current_id not in ids]
    signed = sum(counters.of_signers(ports, tenant_id, signers))
    published = _of_keys(ports, tenant_id, revoked, revoked_at)
    feed = FeedCoverage(int(published is not None), 1, published)
    return ChangeFacts(change, ChangeImpact(len(revoked), signed), feed)


def _of_keys(
    ports: Ports, tenant_id: str, going: Sequence[SigningKey], at: datetime
) -> PublishedEntry | None:
    """Return the entry that completes the warrants of these revoked keys in the feed."""
    # Read before the feed, because a mark is removed only after the entry is written.
    waiting = marks.read_signer_marks(ports, tenant_id, limit=_MARKS_MAX)
    signers = {str(each.signer) for each in going}
    if len(waiting) == _MARKS_MAX or any(not signers.isdisjoint(each.signers) for each in waiting):
        return None
    newest, ids = in_force.read_feed_head(ports, tenant_id), {each.id for each in going}

    def states(stored_entry: StoredEntry, entry: FeedEntry) -> Collection[str]:
        if entry.is_break and stored_entry.issued_at > at:
            return ids
        return ids.intersection(stored_entry.changes)

    first = _first_covering_entry(ports, tenant_id, newest, at, states)
    # The keys signed no warrants, or their mark is not visible yet.
    if first is None and newest is not None and ports.now() >= at + IN_FLIGHT_MAX:
        return latest_entry(newest)
    return first


def _srl_signer(ports: Ports, caller: Caller, change_id: str) -> ChangeFacts:
    """Return the revocation of an SRL signer.

    The feed has a discontinuity if the signer signed the current SRL.
    """
    signer = srl_signers.read_by_ids(ports, caller.tenant_id, [change_id]).get(change_id)
    if signer is None or signer.revoked_at is None:
        raise NotFound
    at = signer.revoked_at

    def states(stored_entry: StoredEntry, entry: FeedEntry) -> Collection[str]:
        return (change_id,) if stored_entry.issued_at >= at and entry.is_break else ()

    newest = in_force.read_feed_head(ports, caller.tenant_id)
    entry = _first_covering_entry(ports, caller.tenant_id, newest, at, states)
    change, _ = _find_change(ports, caller, ChangeKind.SRL_SIGNER, change_id, at, name=None)
    return ChangeFacts(change, ChangeImpact(1, 0), FeedCoverage(int(entry is not None), 1, entry))


def _api_key(ports: Ports, caller: Caller, change_id: str) -> ChangeFacts:
    place = api_keys.records(caller.tenant_id).address(change_id)
    key = ApiKey.from_optional(ports.store.get(place))
    if key is None or key.revoked_at is None:
        raise NotFound
    change, _ = _find_change(
        ports, caller, ChangeKind.API_KEY, key.id, key.revoked_at, name=key.name
    )
    return ChangeFacts(change, ChangeImpact(1, 0), None)


def _trace_batch(
    ports: Ports, tenant_id: str, warrant_ids: Collection[str], since: datetime
) -> FeedCoverage:
    """Return how far the revocations of these warrants are published; they began at `since`.

    Warrants that were unrevoked or are past retention do not count. Reads every entry, since
    several entries may concern the same warrant. Raises `DataCorrupt`, `Unavailable`.
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
        return FeedCoverage(0, len(wanted), None)
    open_, first, moments = wanted - waiting, dict[str, int](), dict[int, datetime]()
    last = latest_entry(newest)
    chains, oldest = dict(last.chains), last.sequence
    moments[last.sequence] = last.issued_at
    for stored in read_newest_entries(ports, tenant_id, ENTRIES_MAX):
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
        return FeedCoverage(len(first), len(wanted), None)
    sequence = max(first.values())
    published = PublishedEntry(sequence, moments[sequence], chains)
    return FeedCoverage(len(first), len(wanted), published)


def _first_covering_entry(
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
    for stored in read_newest_entries(ports, tenant_id, ENTRIES_MAX):
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


def _find_change(
    ports: Ports,
    caller: Caller,
    kind: ChangeKind,
    change_id: str,
    at: datetime,
    *,
    name: str | None,
) -> tuple[RecordedChange, AuditEntry | None]:
    """Return a change with the data of its audit entry, and that entry if it is kept."""
    start = times.truncate_to_second(at - _APART)
    filters = EntryFilters(start, at + _APART, kind.action, resource_id=change_id)
    entry = next(iter(audit_log.newest(ports, caller, filters, before=None, limit=1)), None)
    if entry is None:
        return RecordedChange(change_id, kind, name, at, None, None), None
    return replace(RecordedChange.of_entry(entry), name=name, recorded_at=at), entry


_FINDS: Final[dict[str, _Find]] = {
    REVOCATION: _warrant,
    BATCH: _batch,
    SIGNING_KEY: _key,
    API_KEY: _api_key,
}
