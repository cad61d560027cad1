"""Publishing the feed and the list, in an order that loses no revocation (docs/adr/09).

1. read the facts (`in_force`)
2. state in the feed what has a mark, in one write with its head; remove the marks
3. decide whether a list is due (`decisions`)
4. read the list in force and its state; remove old blobs
5. make the next list, sign and check it; store its state, then the list
6. move the heads of list and feed, in one write that expects what was read
7. remove old entries of the feed; note which marks on the tenant were seen

A fault in the list must not delay the feed, so each has a write of its own. If it stops at any
point, the old list stays in force; an entry may be stated twice, and an unused blob may be left.
"""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, TypeVar

from shared import logs
from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import FeedEntry
from shared.errors import DataCorrupt, PreconditionFailed, Unavailable
from shared.model import feed, revocations, times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller
from shared.model.feed import FeedHead
from shared.model.items import Address
from shared.model.lists import schedule as schedule_model
from shared.model.lists.content import (
    Payload,
    RevokedSet,
    SrlState,
    SrlVersionRecord,
    version_address,
)
from shared.model.lists.head import SrlHead, head_address
from shared.model.lists.schedule import PublicationDeadline
from shared.model.lists.signers import SrlSigner
from shared.model.revocations import RevokedWarrant
from shared.model.tenants import TenantSettings
from shared.operations.base import audit, operation
from shared.operations.base.operation import reread, settle
from shared.operations.base.seals import SeedUnavailable
from shared.operations.lists import (
    decisions,
    in_force,
    marks,
    published_keys,
    records,
    schedule,
    storage,
    verdicts,
)
from shared.operations.lists.decisions import (
    PendingEntry,
    PreviousSrl,
    PublicationFacts,
    SrlIssue,
    SrlPlan,
)
from shared.operations.lists.storage import Coverage, SeedCache
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Expect, Put, VersionIs

T = TypeVar("T")

_log = logging.getLogger(__name__)

# How often the head of the feed is read again because an entry was published meanwhile.
_TRIES: Final = 20

_WAITED: Final = "ChangePublishedSeconds"

# How often marks are read again that could not be removed, because a write is in flight.
_LOOKS: Final = 3


class RestoredPosition(NamedTuple):
    """The highest version of a list, and of the feed the highest sequence, that were published."""

    version: int
    sequence: int


class PublishedFeed(NamedTuple):
    """The head after a publication of the feed, and how many entries were written.

    `facts` are those of the entries, None if no change had a mark, and `seeds` has their seed open.
    `unnamed` are the marks on signers that `name_keys` has yet to remove.
    """

    head: FeedHead
    entries: int = 0
    facts: PublicationFacts | None = None
    seeds: SeedCache | None = None
    unnamed: frozenset[Address] = frozenset()

    @property
    def is_whole(self) -> bool:
        """Whether the feed has each change that was acknowledged before its publication."""
        return self.facts is None or self.facts.pending.is_complete


@dataclass(frozen=True, slots=True)
class PublicationRun:
    """The result of one run: identifiers of published tenants, and errors by tenant identifier."""

    published: list[str] = field(default_factory=list)
    failed: dict[str, Exception] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _SrlDraft:
    """The facts for the next list. `signer` signs it, and `list_signers` go into its state."""

    facts: PublicationFacts
    issue: SrlIssue
    signer: SrlSigner
    list_signers: tuple[SrlSigner, ...]
    previous: PreviousSrl
    restored_sequence: int | None
    jump: bool


class _StoredSrl(NamedTuple):
    """A list that is stored and not in force yet: what it was made from, and its head."""

    draft: _SrlDraft
    plan: SrlPlan
    head: SrlHead


# --- the feed ---


def publish_feed(
    ports: Ports, tenant_id: str, unnamed_marks: Collection[Address] = ()
) -> PublishedFeed | None:
    """Publish entries for all warrants with a mark (FEED-4). No blob is read or written.

    The feed already covers the marks on signers in `unnamed_marks`. Call `name_keys` with them and
    with the new ones, which are in the result.

    Returns None if the tenant has no feed yet: its next list begins it. Raises `DataCorrupt`,
    `Unavailable`; a change that was not published keeps its mark.
    """
    marked, newest = in_force.read_marks(ports, tenant_id)
    if newest is None:
        return None
    marked = marked.without(unnamed_marks)
    if not (marked.warrants or marked.signers):
        return PublishedFeed(newest)
    facts = in_force.read_feed_facts(ports, tenant_id, marked, newest)
    facts, new = _append_marked(ports, pen := SeedCache(ports), facts, unnamed_marks)
    return PublishedFeed(facts.feed_head or newest, len(facts.written), facts, pen, new)


def name_keys(ports: Ports, tenant_id: str, unnamed_marks: Collection[Address]) -> None:
    """Name the signing keys in the feed, and remove marks on signers that it covers.

    Raises `DataCorrupt`, `Unavailable`.
    """
    published_keys.publish_key_reference(ports, SeedCache(ports), tenant_id)
    marks.remove_signer_marks(ports, unnamed_marks)


def publish_pending(ports: Ports, pen: SeedCache, facts: PublicationFacts) -> PublicationFacts:
    """Publish entries for all marks, and remove the marks. Return the facts after that.

    Marks on signers stay if the feed cannot name the keys. Clients then learn how old their keys
    are. Raises `DataCorrupt`, `Unavailable`.
    """
    facts, signers = _append_marked(ports, pen, facts)
    if not signers:
        return facts
    try:
        is_new = published_keys.publish_key_reference(ports, pen, facts.tenant_id)
    except DataCorrupt:
        _log.exception("the signing keys of tenant %s cannot be published", facts.tenant_id)
        return facts
    marks.remove_signer_marks(ports, signers)
    return in_force.refresh_heads(ports, facts) if is_new else facts


def _append_marked(
    ports: Ports, pen: SeedCache, facts: PublicationFacts, unnamed_marks: Collection[Address] = ()
) -> tuple[PublicationFacts, frozenset[Address]]:
    """Publish entries for all marks but `unnamed_marks`, and remove the marks on warrants.

    Return also the marks on signers. A mark stays that is set again, or whose change is visible
    only in part. Then all marks are read again.
    """
    looks, signers = 0, frozenset[Address]()
    while facts.feed_head is not None:
        facts, revoked = _publish_marks(ports, pen, facts)
        left = marks.remove_published(ports, facts.tenant_id, facts.pending.warrants, ids=revoked)
        _report_waits(ports, facts)
        signers |= facts.pending.signers.keys()
        looks += left > 0
        if looks == _LOOKS or (facts.pending.is_complete and not left):
            break
        if left:
            operation.wait_for_writes()
        facts = in_force.refresh_marks(ports, facts)
        facts = replace(facts, pending=facts.pending.without({*unnamed_marks, *signers}))
    return facts, signers


def _report_waits(ports: Ports, facts: PublicationFacts) -> None:
    """Log how long each change that an entry states has waited, if that is known."""
    now, marked = ports.now(), facts.pending
    moments = [each.set_at for each in marked.warrants.values()]
    moments += [each.set_at for each in marked.signers.values()]
    waits = [max((now - each).total_seconds(), 0.0) for each in moments if each is not None]
    if waits:
        metrics, gathered = {_WAITED: max(waits)}, {_WAITED: waits}
        extra = logs.fields(tenant_id=facts.tenant_id, metrics=metrics, samples=gathered)
        _log.info("changes", extra=extra)


def publish_discontinuity(
    ports: Ports,
    pen: SeedCache,
    facts: PublicationFacts,
    *,
    restored_sequence: int | None = None,
    coverage: Coverage | None = None,
) -> PublicationFacts:
    """Publish a break: clients continue with the next list, which is made from all records.

    `restored_sequence` is given after a restore: the highest sequence that is known to be
    published. The new one then exceeds it by far. `coverage` is what the break stands for. Raises
    `DataCorrupt` if the tenant has no feed; `SeedUnavailable`, `Unavailable`.
    """

    def write(facts: PublicationFacts) -> PublicationFacts:
        told = PendingEntry(FeedEntry(decisions.next_sequence(facts, restored_sequence)), [])
        return storage.append_entry(ports, pen, facts, told, coverage)

    return _retry_on_conflict(ports, facts, write)


def _publish_marks(
    ports: Ports, pen: SeedCache, facts: PublicationFacts
) -> tuple[PublicationFacts, set[str]]:
    """Write entries for what is marked; return also which warrants are revoked by themselves."""
    marked = facts.pending
    moments = [each.set_at or marked.read_at for each in marked.warrants.values()]
    moments += [each.set_at or marked.read_at for each in marked.signers.values()]
    since = min([marked.read_at, *moments])
    extra = _ids_of_revoked_signers(ports, facts)
    keys = tuple(each for mark in marked.signers.values() for each in mark.changes)
    if len(extra) > decisions.INLINE_MAX:
        covered = Coverage(since, changes=keys)
        facts, extra = publish_discontinuity(ports, pen, facts, coverage=covered), []
    ids = [address.sk for address in marked.warrants] + extra
    covered = Coverage(since, marked.read_at if marked.is_complete else None, keys)
    return _publish_statuses(ports, pen, facts, ids, covered)


def _ids_of_revoked_signers(ports: Ports, facts: PublicationFacts) -> list[str]:
    """Return what newly revoked signers signed; more than `INLINE_MAX` if that is too much."""
    revoked = [signer for mark in facts.pending.signers.values() for signer in mark.signers]
    if not revoked:
        return []
    since = ports.now() - facts.settings.srl_ttl
    found = records.read_signed_by(ports, facts.tenant_id, revoked, since=since)
    return [warrant_id for warrant_id, _ in islice(found, decisions.INLINE_MAX + 1)]


def _publish_statuses(
    ports: Ports, pen: SeedCache, facts: PublicationFacts, ids: Iterable[str], coverage: Coverage
) -> tuple[PublicationFacts, set[str]]:
    """Write entries that say of each warrant whether it is revoked.

    Returns also which are revoked by themselves. `coverage` is what the last of the entries covers
    with those before it.
    """
    own, rest = set[str](), list(dict.fromkeys(ids))
    while rest:
        part, rest = rest[: feed.ENTRY_MAX], rest[feed.ENTRY_MAX :]
        so_far = Coverage(coverage.since) if rest else coverage
        facts, found = _retry_on_conflict(
            ports, facts, partial(_append_statuses, ports, pen, part, so_far)
        )
        own |= found
    return facts, own


def _append_statuses(
    ports: Ports, pen: SeedCache, ids: Collection[str], coverage: Coverage, facts: PublicationFacts
) -> tuple[PublicationFacts, set[str]]:
    """Write the entry that says of each of these warrants whether it is revoked, or a break."""
    # The facts have the head of the feed: if the records change after they are read here, another
    # entry may follow this one, but none may come before it.
    ends, own = _read_revoked_ends(ports, facts.tenant_id, ids)
    told = decisions.next_entry(facts, ids, ends, ports.now())
    return storage.append_entry(ports, pen, facts, told, coverage), own


def _read_revoked_ends(
    ports: Ports, tenant_id: str, ids: Collection[str]
) -> tuple[dict[str, datetime | None], set[str]]:
    """Return the ends of those that are revoked, and which of these are not only by their key."""
    found = verdicts.read_statuses(ports, tenant_id, ids)
    ends = {each: verdict.ends_at for each, verdict in found.items() if verdict.revoked}
    # A warrant that its shard has is revoked, even if its own record is damaged or not yet visible.
    shards = {
        revocations.shard_of(tenant_id, each).address(each): each
        for each in ids
        if each not in ends
    }
    for address, item in ports.store.get_many(shards).items() if shards else ():
        ends[shards[address]] = RevokedWarrant.from_item(item).ends_at
    return ends, {each for each in ends if not found[each].by_key}


def _retry_on_conflict(
    ports: Ports, facts: PublicationFacts, write: Callable[[PublicationFacts], T]
) -> T:
    """Return what `write` returns; if its write loses, read the heads and call it again."""
    known = [facts]
    return settle(lambda: write(known.pop() if known else in_force.refresh_heads(ports, facts)))


# --- the list ---


def create_first(ports: Ports, settings: TenantSettings, list_signer: SrlSigner) -> list[Change]:
    """Store version 1, an empty list, and return the changes that publish it (SRL-6)."""
    now, pen = times.truncate_to_second(ports.now()), SeedCache(ports)
    tenant_id, list_signers = settings.tenant_id, (replace(list_signer, sealed_seed=None),)
    payload = Payload(1, now, now + settings.srl_ttl, [])
    state = SrlState(tenant_id, 1, now, list_signers=list_signers)
    signed = storage.sign_srl(pen, list_signer, payload, state)
    head = storage.store_srl(ports, signed, changes=0, sequence=0)
    base = decisions.feed_base(head, 0, wire.first_chain(tenant_id))
    begins = storage.base_change(pen, None, base, settings, list_signer)
    row = SrlVersionRecord.of(head, base, RevokedSet(), [])
    return [*_head_writes(tenant_id, head, row, Expect.ABSENT), begins]


def publish_due(ports: Ports, *, is_over: Callable[[], bool] = lambda: False) -> PublicationRun:
    """Publish for every tenant that is due, in this process; a failure does not stop the others.

    Stops before the next tenant if `is_over` returns true. Raises `Unavailable` if the due tenants
    cannot be read.
    """
    tick = PublicationRun()
    for tenant_id in schedule.read_due_tenants(ports).tenant_ids:
        if is_over():
            break
        try:
            if publish_if_due(ports, tenant_id):
                tick.published.append(tenant_id)
        except Exception as error:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            tick.failed[tenant_id] = error
    return tick


def publish_if_due(ports: Ports, tenant_id: str) -> bool:
    """Publish a tenant's feed, and its list if it is due; return whether a list was published.

    Repeated and concurrent calls are harmless. Raises `DataCorrupt`, `Unavailable` if it fails.
    """
    facts, is_published = settle(partial(_publish_if_due, ports, tenant_id))
    marks.acknowledge(ports, facts.tenant_marks())
    return is_published


def publish(
    ports: Ports,
    caller: Caller,
    *,
    restored_position: RestoredPosition | None = None,
    compare_all: bool = False,
    tidies: bool = False,
    extra_changes: Callable[[SrlHead], Iterable[Change]] = lambda _: (),
) -> SrlHead:
    """Publish the next version, whether or not anything changed (SRL-6); return its head.

    `restored_position` is given after a restore. If it is given, the list is made from all records;
    if `compare_all` is true, it is compared with them. If `tidies` is true, old entries of the feed
    are removed afterwards, and warrants that ended long ago are moved. `extra_changes` returns
    further changes for the write that replaces the head.

    Raises `PreconditionFailed` if another publication or a rotation of the list signer came first
    (see `settle`), `Unavailable` if a port does not answer, `DataCorrupt` if the list would be
    wrong. In each case the old list stays in force.
    """
    pen, read = SeedCache(ports), in_force.read_facts(ports, caller.tenant_id)
    facts = read
    if restored_position is not None and facts.feed_head is not None:
        facts = publish_discontinuity(
            ports, pen, facts, restored_sequence=restored_position.sequence
        )
    making = _draft(
        ports, read, publish_pending(ports, pen, facts), restored_position=restored_position
    )
    made = _publish_draft(
        ports, pen, caller, making, compare_all=compare_all, extra_changes=extra_changes
    )
    if tidies:
        _prune(ports, made)
    return made.head


def publish_with_new_signer(
    ports: Ports,
    caller: Caller,
    head: SrlHead,
    list_signer: SrlSigner,
    changes: Iterable[Change],
    *,
    leaps: bool = False,
) -> None:
    """Publish the next version, signed by `list_signer`, and apply `changes` in the same write.

    `head` is the head that the caller read; the write expects it. If `leaps` is true, the signer
    before was stolen: the feed breaks in the same write, far above its entries (FEED-7). Raises
    what `publish` raises.
    """
    changes, pen = list(changes), SeedCache(ports)
    read = in_force.read_facts(ports, caller.tenant_id)
    if read.srl_head.version != head.version:
        raise PreconditionFailed([head_address(caller.tenant_id)])
    try:
        facts = publish_pending(ports, pen, read)
    except SeedUnavailable as error:
        facts = read
        _warn_unsigned(error)
    making = _draft(ports, read, facts, leaps=leaps)
    stored = in_force.strip_seeds(caller.tenant_id, facts.stored_signers(), changes)
    making = replace(making, signer=list_signer, list_signers=stored)
    _move_heads(ports, pen, _store_next(ports, pen, making), changes)


def _publish_if_due(ports: Ports, tenant_id: str) -> tuple[PublicationFacts, bool]:
    """Publish what is due, and return the facts and whether a list was published."""
    pen, read = SeedCache(ports), in_force.read_facts(ports, tenant_id, sees_tenant=True)
    facts = publish_pending(ports, pen, read)
    if facts.written:
        figures = {"FeedSchedulerPublications": len(facts.written)}
        _log.info("feed", extra=logs.fields(tenant_id=tenant_id, metrics=figures))
    now = ports.now()
    anew = decisions.needs_full_comparison(facts, now)
    if not (anew or decisions.is_srl_due(facts, now)):
        return facts, False
    caller = Caller.inside(tenant_id, name="schedule", handle=facts.settings.handle)
    made = _publish_draft(ports, pen, caller, _draft(ports, read, facts), compare_all=anew)
    _prune(ports, made)
    return facts, True


def _draft(
    ports: Ports,
    read: PublicationFacts,
    facts: PublicationFacts,
    *,
    restored_position: RestoredPosition | None = None,
    leaps: bool = False,
) -> _SrlDraft:
    """Return what the next list is made from. `read` are the facts before the feed was caught up.

    Raises `PreconditionFailed` if they have changed since, apart from the feed.
    """
    _require_same_head(read, facts)
    issue = decisions.next_issue(
        facts, ports.now(), lower_bound=restored_position.version if restored_position else 0
    )
    # Old lists must not use the space of the next one, whether or not it is published.
    beside = storage.cleanup_tasks(ports, facts.tenant_id, facts.srl_head)
    return _SrlDraft(
        facts,
        issue,
        facts.signer,
        in_force.strip_seeds(facts.tenant_id, facts.stored_signers()),
        in_force.read_previous(ports, facts, beside),
        restored_position.sequence if restored_position else None,
        leaps,
    )


def _require_same_head(old: PublicationFacts, new: PublicationFacts) -> None:
    """Raise `PreconditionFailed` if a list or another signer came between."""
    if (old.srl_head.version, old.signer.id, old.signer.version) != (
        new.srl_head.version,
        new.signer.id,
        new.signer.version,
    ):
        raise PreconditionFailed([head_address(old.tenant_id)])


def _publish_draft(
    ports: Ports,
    pen: SeedCache,
    caller: Caller,
    making: _SrlDraft,
    *,
    compare_all: bool = False,
    extra_changes: Callable[[SrlHead], Iterable[Change]] = lambda _: (),
) -> _StoredSrl:
    made = _store_next(ports, pen, making, compare_all=compare_all)
    facts, head = made.draft.facts, made.head
    action, resource = AuditAction.SRL_REGENERATE, f"srl/{head.version}"
    entry = audit.entry(ports, caller, action, resource, settings=facts.settings, count=head.count)
    unchanged = Check(facts.signer.address, VersionIs(facts.signer.version))
    _move_heads(ports, pen, made, [unchanged, entry, *extra_changes(head)])
    return made


def _store_next(
    ports: Ports, pen: SeedCache, making: _SrlDraft, *, compare_all: bool = False
) -> _StoredSrl:
    """Make and store the next list: from the list in force if possible, else from all records.

    If `compare_all` is true, or if its issue says so, it is compared with all records.
    """
    making, plan = _plan(ports, pen, making, compare_all=compare_all)
    try:
        return _sign_and_store(ports, pen, making, plan)
    except DataCorrupt as error:
        _log.warning("the list before cannot be followed (%s); reading all records instead", error)
    return _sign_and_store(ports, pen, *_plan_from_records(ports, pen, making))


def _plan(
    ports: Ports, pen: SeedCache, making: _SrlDraft, *, compare_all: bool
) -> tuple[_SrlDraft, SrlPlan]:
    """Return the content of the next list, which the feed is brought up to date with (SRL-12)."""
    if compare_all:
        # Their counter may have been visible before them when the last list was made.
        ended = in_force.read_revoked_signers_and_tombstones(ports, making.facts)
        making = replace(making, previous=making.previous._replace(signers_and_tombstones=ended))
    making, is_exact = _reconcile_with_feed(
        ports, pen, making, decisions.expired_ids(making.previous, making.issue)
    )
    plan = decisions.plan_from_feed(making.facts, making.previous, ports.now())
    if plan is None:
        return _plan_from_records(ports, pen, making)
    if not (compare_all or decisions.is_comparison_due(making.facts.srl_head, making.issue)):
        return making, replace(plan, is_exact=is_exact)
    recorded = reread(partial(_read_records, ports, making))
    if differences := plan.content.differences(recorded.content):
        making, is_exact = _reconcile_with_feed(ports, pen, making, differences)
        plan = decisions.plan_from_feed(making.facts, making.previous, ports.now())
        if plan is None:
            return _plan_from_records(ports, pen, making)
    return making, replace(plan, misplaced_ids=recorded.misplaced, is_exact=is_exact)


def _reconcile_with_feed(
    ports: Ports, pen: SeedCache, making: _SrlDraft, ids: Collection[str]
) -> tuple[_SrlDraft, bool]:
    """State in the feed what the list will say of these; false if no entry can be signed."""
    if not ids:
        return making, True
    covered = Coverage(making.facts.pending.read_at)
    try:
        if len(ids) > decisions.INLINE_MAX:
            facts = publish_discontinuity(ports, pen, making.facts, coverage=covered)
        else:
            facts, _ = _publish_statuses(ports, pen, making.facts, ids, covered)
    except SeedUnavailable as error:
        _warn_unsigned(error)
        return making, False
    _require_same_head(making.facts, facts)
    told = in_force.read_entries_since(ports, facts, making.previous.entries or ())
    return replace(making, facts=facts, previous=making.previous._replace(entries=told)), True


def _warn_unsigned(error: SeedUnavailable) -> None:
    # Another signer is about to replace this one. It publishes what has a mark.
    _log.warning("no entry can be signed (%s); the list covers the feed as it is", error)


def _plan_from_records(
    ports: Ports, pen: SeedCache, making: _SrlDraft
) -> tuple[_SrlDraft, SrlPlan]:
    """Return the content that all records give, with a break of the feed before it.

    A tenant without a feed begins one, after a restore above the one that it may have had.
    """
    facts, is_exact = making.facts, True
    newest = facts.feed_head
    is_broken = newest and decisions.has_discontinuity_since(newest, facts.srl_head)
    if newest and (not is_broken or newest.is_ahead(ports.now())):
        try:
            facts = publish_discontinuity(ports, pen, facts)
        except SeedUnavailable:
            is_exact = False
    _require_same_head(making.facts, facts)
    # After the head of the feed: a later change is in an entry that the list does not cover.
    recorded = reread(lambda: _read_records(ports, making))
    revoked_signers, tombstones = in_force.read_revoked_signers_and_tombstones(ports, facts)
    # A feed that lost its head may still have entries.
    left = in_force.read_last_sequence(ports, facts.tenant_id) if facts.feed_head is None else None
    sequence, chain = decisions.initial_position(facts, making.restored_sequence, left)
    content = replace(recorded.content, signers=revoked_signers)
    plan = SrlPlan(content, tombstones, sequence, chain, recorded.misplaced, is_exact)
    return replace(making, facts=facts), plan


def _read_records(ports: Ports, making: _SrlDraft) -> records.ScanResult:
    issue, listed = making.issue, making.previous.revoked_ids or []
    return records.scan_for_srl(
        ports, making.facts.tenant_id, listed, at=issue.issued_at, ttl=issue.lifetime
    )


def _sign_and_store(ports: Ports, pen: SeedCache, making: _SrlDraft, plan: SrlPlan) -> _StoredSrl:
    """Sign and store the list with its state."""
    plan = plan.with_jump(ports.now()) if making.jump else plan
    issue, listed, before = making.issue, plan.content, making.facts.srl_head
    state = SrlState(
        making.facts.tenant_id,
        issue.version,
        issue.issued_at,
        listed.ends,
        listed.signers,
        making.list_signers,
        plan.tombstones,
        plan.sequence,
        making.previous.checkpoint,
    )
    payload = Payload(issue.version, issue.issued_at, issue.expires_at, listed.revoked_ids)
    packs = before.is_gzip_wanted(ports.now())
    signed = storage.sign_srl(pen, making.signer, payload, state, packs=packs)
    # Without a sequence, no list follows from this one, and the feed breaks with the next.
    sequence = plan.sequence if plan.is_exact else None
    changes = making.facts.totals().changes
    head = storage.store_srl(ports, signed, changes=changes, sequence=sequence, previous=before)
    head = replace(head, packs_until=before.packs_until if packs else None)
    return _StoredSrl(making, plan, head)


def _move_heads(
    ports: Ports, pen: SeedCache, stored_srl: _StoredSrl, changes: Iterable[Change]
) -> None:
    """Replace the head of the list, and make it the base of the feed, in one write.

    If an entry is published first, only the head of the feed is read and signed again.
    """
    making, plan, head = stored_srl
    facts, changes = making.facts, list(changes)
    tenant_id, before, newest = facts.tenant_id, facts.srl_head, facts.feed_head
    base = decisions.feed_base(head, plan.sequence, plan.chain)
    row = SrlVersionRecord.of(head, base, plan.content, making.previous.revoked_ids)
    for _ in range(_TRIES):
        newest = newest and newest.with_base_issued_at(head.issued_at)
        leapt = storage.jump_writes(ports, tenant_id, newest, plan.jump) if plan.jump else None
        based = storage.base_change(pen, newest, base, facts.settings, making.signer, leapt)
        try:
            ports.store.write(
                *_head_writes(tenant_id, head, row, VersionIs(before.version)),
                Delete(
                    PublicationDeadline.after_publication(before, tenant_id).address,
                    Expect.ANYTHING,
                ),
                Delete(schedule_model.issue_address(before, tenant_id), Expect.ANYTHING),
                *changes,
                *(leapt.entries if leapt else ()),
                based,
            )
        except PreconditionFailed as lost:
            if set(lost.lost) != {based.address}:
                raise
        else:
            return
        newest = in_force.read_feed_head(ports, tenant_id)
    raise Unavailable("entries of the feed were published during every attempt")


def _prune(ports: Ports, stored_srl: _StoredSrl) -> None:
    """Move warrants that ended long ago, and remove old entries of the feed that it covers."""
    making, plan, _ = stored_srl
    tenant_id, since = making.facts.tenant_id, making.issue.listed_since
    try:
        if plan.misplaced_ids:
            records.move_ended(ports, tenant_id, plan.misplaced_ids, since=since)
        storage.prune(ports, tenant_id, until=plan.sequence)
    except (DataCorrupt, Unavailable):
        # The list is published. The next publication does the same again.
        _log.warning("what ended could not be moved, or old entries not removed", exc_info=True)


def _head_writes(
    tenant_id: str, head: SrlHead, row: SrlVersionRecord, expected: VersionIs | Expect
) -> list[Change]:
    turn, item = PublicationDeadline.after_publication(head, tenant_id), head.to_item()
    return [
        Put(turn.address, turn.to_item(), Expect.ABSENT),
        Put(schedule_model.issue_address(head, tenant_id), {}, Expect.ABSENT),
        Put(head_address(tenant_id), item, expected),
        Put(head.history_address(tenant_id), item, Expect.ANYTHING),
        # After a restore there may be a row of this version already.
        Put(version_address(tenant_id, head.version), row.to_item(), Expect.ANYTHING),
    ]
