"""Publish the feed and the SRL of a tenant without losing a revocation (docs/adr/09).

Each revocation is written together with an outbox mark. A publication turns the marks into feed
entries, which clients poll. It also builds the next SRL from the current SRL and the later entries
when that SRL is due. `wake` publishes the feed after each change. The scheduler publishes both, and
thereby also the changes that `wake` missed.

A publication by the scheduler runs these steps:

1. Read the publication facts (`in_force`).
2. Publish feed entries for all outbox marks, each in one write with the feed head. Then remove the
   marks.
3. Decide whether an SRL is due (`decisions`).
4. Read the current SRL and its state. Remove old blobs.
5. Build, sign and verify the next SRL. Store its state, and then the SRL (`storage`).
6. Move the SRL head and the feed head in one write. Its preconditions are the heads that were read.
7. Remove old feed entries. Acknowledge the marks on the tenant (`marks`).

The feed and the SRL are separate writes, because a fault in the SRL must not delay the feed. If the
process stops at any point, the old SRL stays current. A retry may publish an entry twice, and an
unused blob may remain.
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

# Retries after another publisher appended an entry first.
_TRIES: Final = 20

_WAITED: Final = "ChangePublishedSeconds"

# Attempts to remove marks while the write of their change is still in flight.
_LOOKS: Final = 3


class RestoredPosition(NamedTuple):
    """The highest published SRL version and the highest published sequence of the feed."""

    version: int
    sequence: int


class PublishedFeed(NamedTuple):
    """The feed head after a publication of the feed, and the number of entries written.

    `facts` are the publication facts of the entries, or None if no change had a mark. `seeds` then
    contains the unwrapped seed of the signer. `unnamed` are the marks on signers that `name_keys`
    has yet to remove.
    """

    head: FeedHead
    entries: int = 0
    facts: PublicationFacts | None = None
    seeds: SeedCache | None = None
    unnamed: frozenset[Address] = frozenset()

    @property
    def is_whole(self) -> bool:
        """Whether the feed contains every change acknowledged before its publication."""
        return self.facts is None or self.facts.pending.is_complete


@dataclass(frozen=True, slots=True)
class PublicationRun:
    """The tenants that one run published, and the errors of the other tenants.

    `failed` maps tenant identifiers to errors.
    """

    published: list[str] = field(default_factory=list)
    failed: dict[str, Exception] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _SrlDraft:
    """The inputs of the next SRL.

    `signer` signs the SRL, and `srl_signers` are stored in its state.
    """

    facts: PublicationFacts
    issue: SrlIssue
    signer: SrlSigner
    srl_signers: tuple[SrlSigner, ...]
    previous: PreviousSrl
    restored_sequence: int | None
    jump: bool


class _StoredSrl(NamedTuple):
    """An SRL that is stored but not current yet, with its inputs and its head."""

    draft: _SrlDraft
    plan: SrlPlan
    head: SrlHead


# --- the feed ---


def publish_feed(
    ports: Ports, tenant_id: str, unnamed_marks: Collection[Address] = ()
) -> PublishedFeed | None:
    """Publish feed entries for all outbox marks (FEED-4).

    Reads and writes no blob. `unnamed_marks` are marks on signers that the feed already covers. The
    caller must then call `name_keys` with these marks, and with the marks in `unnamed` of the
    result.

    Returns None if the tenant has no feed yet: its next SRL begins the feed. Raises `DataCorrupt`,
    `Unavailable`. A change that was not published keeps its mark.
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
    """Publish the key bundle in the feed head, and remove marks on signers.

    `unnamed_marks` are the marks on signers that the feed already covers. Raises `DataCorrupt`,
    `Unavailable`.
    """
    published_keys.publish_key_reference(ports, SeedCache(ports), tenant_id)
    marks.remove_signer_marks(ports, unnamed_marks)


def publish_pending(ports: Ports, pen: SeedCache, facts: PublicationFacts) -> PublicationFacts:
    """Publish entries for all outbox marks, and remove the marks.

    Returns the facts after the publication. Marks on signers stay if the feed head cannot name the
    key bundle. Clients can then detect the age of their bundle. Raises `DataCorrupt`,
    `Unavailable`.
    """
    facts, signers = _append_marked(ports, pen, facts)
    if not signers:
        return facts
    try:
        is_new = published_keys.publish_key_reference(ports, pen, facts.tenant_id)
    except DataCorrupt:
        _log.exception("cannot publish the signing keys of tenant %s", facts.tenant_id)
        return facts
    marks.remove_signer_marks(ports, signers)
    return in_force.refresh_heads(ports, facts) if is_new else facts


def _append_marked(
    ports: Ports, pen: SeedCache, facts: PublicationFacts, unnamed_marks: Collection[Address] = ()
) -> tuple[PublicationFacts, frozenset[Address]]:
    """Publish entries for all marks except `unnamed_marks`; remove the marks on warrants.

    Also returns the marks on signers. A mark stays if it was set again, or if its change is only
    partly visible. In that case all marks are read again.
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
    """Log how long each published change waited, if its time is known."""
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
    """Publish a discontinuity. Clients reload from the next SRL, a full rebuild.

    After a restore, `restored_sequence` is the highest sequence known to be published. The new
    sequence then jumps far above it. `coverage` describes the changes that the discontinuity
    replaces. Raises `DataCorrupt` if the tenant has no feed; `SeedUnavailable`, `Unavailable`.
    """

    def write(facts: PublicationFacts) -> PublicationFacts:
        told = PendingEntry(FeedEntry(decisions.next_sequence(facts, restored_sequence)), [])
        return storage.append_entry(ports, pen, facts, told, coverage)

    return _retry_on_conflict(ports, facts, write)


def _publish_marks(
    ports: Ports, pen: SeedCache, facts: PublicationFacts
) -> tuple[PublicationFacts, set[str]]:
    """Write entries for all marks.

    Also returns the warrants that are revoked directly, not only by their key.
    """
    marked = facts.pending
    moments = [each.set_at or marked.read_at for each in marked.warrants.values()]
    moments += [each.set_at or marked.read_at for each in marked.signers.values()]
    since = min([marked.read_at, *moments])
    extra = _ids_of_revoked_signers(ports, facts)
    keys = tuple(each for mark in marked.signers.values() for each in mark.changes)
    # Too many warrants for entries are published by the next SRL.
    if len(extra) > decisions.INLINE_MAX:
        covered = Coverage(since, changes=keys)
        facts, extra = publish_discontinuity(ports, pen, facts, coverage=covered), []
    ids = [address.sk for address in marked.warrants] + extra
    covered = Coverage(since, marked.read_at if marked.is_complete else None, keys)
    return _publish_statuses(ports, pen, facts, ids, covered)


def _ids_of_revoked_signers(ports: Ports, facts: PublicationFacts) -> list[str]:
    """Return the warrants that newly revoked signers signed.

    Returns at most `INLINE_MAX` + 1 warrants. More than `INLINE_MAX` are too many for entries.
    """
    revoked = [signer for mark in facts.pending.signers.values() for signer in mark.signers]
    if not revoked:
        return []
    since = ports.now() - facts.settings.srl_ttl
    found = records.read_signed_by(ports, facts.tenant_id, revoked, since=since)
    return [warrant_id for warrant_id, _ in islice(found, decisions.INLINE_MAX + 1)]


def _publish_statuses(
    ports: Ports, pen: SeedCache, facts: PublicationFacts, ids: Iterable[str], coverage: Coverage
) -> tuple[PublicationFacts, set[str]]:
    """Write entries with the revocation status of each warrant.

    Also returns the warrants that are revoked directly, not only by their key. `coverage` applies
    to the last entry together with the entries before it.
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
    """Write one entry with the revocation status of these warrants, or a discontinuity."""
    # The facts contain the feed head, which was read before these records. If a record changes
    # after this read, its entry can only follow this one.
    ends, own = _read_revoked_ends(ports, facts.tenant_id, ids)
    told = decisions.next_entry(facts, ids, ends, ports.now())
    return storage.append_entry(ports, pen, facts, told, coverage), own


def _read_revoked_ends(
    ports: Ports, tenant_id: str, ids: Collection[str]
) -> tuple[dict[str, datetime | None], set[str]]:
    """Return the expiries of the revoked warrants.

    Also returns the warrants that are revoked directly, not only by their key.
    """
    found = verdicts.read_statuses(ports, tenant_id, ids)
    ends = {each: verdict.ends_at for each, verdict in found.items() if verdict.revoked}
    # A warrant in its shard is revoked, even if its own record is damaged or not visible yet.
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
    """Return the result of `write`. After a conflict, read the heads again and retry."""
    known = [facts]
    return settle(lambda: write(known.pop() if known else in_force.refresh_heads(ports, facts)))


# --- the SRL ---


def create_first(ports: Ports, settings: TenantSettings, srl_signer: SrlSigner) -> list[Change]:
    """Store version 1, an empty SRL, and return the writes that publish it (SRL-6)."""
    now, pen = times.truncate_to_second(ports.now()), SeedCache(ports)
    tenant_id, srl_signers = settings.tenant_id, (replace(srl_signer, sealed_seed=None),)
    payload = Payload(1, now, now + settings.srl_ttl, [])
    state = SrlState(tenant_id, 1, now, srl_signers=srl_signers)
    signed = storage.sign_srl(pen, srl_signer, payload, state)
    head = storage.store_srl(ports, signed, changes=0, sequence=0)
    base = decisions.feed_base(head, 0, wire.first_chain(tenant_id))
    begins = storage.base_change(pen, None, base, settings, srl_signer)
    row = SrlVersionRecord.of(head, base, RevokedSet(), [])
    return [*_head_writes(tenant_id, head, row, Expect.ABSENT), begins]


def publish_due(ports: Ports, *, is_over: Callable[[], bool] = lambda: False) -> PublicationRun:
    """Publish for every due tenant in this process.

    A failure of one tenant does not stop the others. Stops before the next tenant if `is_over`
    returns true. Raises `Unavailable` if the due tenants cannot be read.
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
    """Publish the feed of a tenant, and its SRL if that is due.

    Returns whether an SRL was published. Repeated and concurrent calls are harmless. Raises
    `DataCorrupt`, `Unavailable`.
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
    """Publish the next SRL, even if nothing changed (SRL-6); return its head.

    - `restored_position` is given after a restore and causes a full rebuild.
    - `compare_all` causes a full comparison.
    - `tidies` removes old feed entries after the publication, and moves warrants past retention.
    - `extra_changes` returns further writes for the transaction that replaces the SRL head.

    Raises `PreconditionFailed` if another publication or a rotation of the SRL signer came first
    (see `settle`). Raises `Unavailable` if a port does not respond, and `DataCorrupt` if the SRL
    would be wrong. In each case the old SRL stays current.
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
    srl_signer: SrlSigner,
    changes: Iterable[Change],
    *,
    leaps: bool = False,
) -> None:
    """Publish the next SRL, signed by `srl_signer`, together with `changes`.

    All writes are one transaction, with the given `head` as a precondition. `leaps` is true if the
    previous signer was stolen: the same transaction then adds a discontinuity with a sequence jump
    (FEED-7). Raises the same errors as `publish`.
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
    making = replace(making, signer=srl_signer, srl_signers=stored)
    _move_heads(ports, pen, _store_next(ports, pen, making), changes)


def _publish_if_due(ports: Ports, tenant_id: str) -> tuple[PublicationFacts, bool]:
    """Publish the feed, and the SRL if it is due.

    Returns the facts, and whether an SRL was published.
    """
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
    """Read the inputs of the next SRL.

    `read` are the facts from before the feed was brought up to date. Raises `PreconditionFailed` if
    another SRL or signer was published since.
    """
    _require_same_head(read, facts)
    issue = decisions.next_issue(
        facts, ports.now(), lower_bound=restored_position.version if restored_position else 0
    )
    # Old SRLs must not use space that the next one needs, whether or not it is published.
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
    """Raise `PreconditionFailed` if another SRL or signer was published in between."""
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
    """Build and store the next SRL.

    The SRL follows from the current one if possible. Otherwise it is a full rebuild. `compare_all`
    requires a full comparison, which some versions also require.
    """
    making, plan = _plan(ports, pen, making, compare_all=compare_all)
    try:
        return _sign_and_store(ports, pen, making, plan)
    except DataCorrupt as error:
        _log.warning(
            "cannot follow the previous SRL (%s); rebuilding the SRL from all records", error
        )
    return _sign_and_store(ports, pen, *_plan_from_records(ports, pen, making))


def _plan(
    ports: Ports, pen: SeedCache, making: _SrlDraft, *, compare_all: bool
) -> tuple[_SrlDraft, SrlPlan]:
    """Return the content of the next SRL, and bring the feed up to date with it (SRL-12)."""
    if compare_all:
        # At the last SRL, their counter may have been visible before the records themselves.
        ended = in_force.read_revoked_signers_and_tombstones(ports, making.facts)
        making = replace(making, previous=making.previous._replace(signers_and_tombstones=ended))
    # Warrants past retention leave the SRL, so they must leave the feed first.
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
    """Publish the status of these warrants, so the feed agrees with the next SRL.

    Returns false if no entry can be signed.
    """
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
    # A new signer is about to replace this one. It publishes the changes that have a mark.
    _log.warning("cannot sign feed entries (%s); publishing the SRL without them", error)


def _plan_from_records(
    ports: Ports, pen: SeedCache, making: _SrlDraft
) -> tuple[_SrlDraft, SrlPlan]:
    """Return the content of a full rebuild, after a discontinuity in the feed.

    A tenant without a feed begins one. After a restore, its sequence is above the earlier feed.
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
    # Read after the feed head: a later change is then in an entry that the SRL does not cover.
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
    """Sign and store the SRL with its state."""
    plan = plan.with_jump(ports.now()) if making.jump else plan
    issue, listed, before = making.issue, plan.content, making.facts.srl_head
    state = SrlState(
        making.facts.tenant_id,
        issue.version,
        issue.issued_at,
        listed.ends,
        listed.signers,
        making.srl_signers,
        plan.tombstones,
        plan.sequence,
        making.previous.checkpoint,
    )
    payload = Payload(issue.version, issue.issued_at, issue.expires_at, listed.revoked_ids)
    packs = before.is_gzip_wanted(ports.now())
    signed = storage.sign_srl(pen, making.signer, payload, state, packs=packs)
    # Without a sequence, no SRL can follow from this one. The next one adds a discontinuity.
    sequence = plan.sequence if plan.is_exact else None
    changes = making.facts.totals().changes
    head = storage.store_srl(ports, signed, changes=changes, sequence=sequence, previous=before)
    head = replace(head, packs_until=before.packs_until if packs else None)
    return _StoredSrl(making, plan, head)


def _move_heads(
    ports: Ports, pen: SeedCache, stored_srl: _StoredSrl, changes: Iterable[Change]
) -> None:
    """Replace the SRL head, and make the SRL the base of the feed, in one write.

    If another publisher appends an entry first, only the feed head is read and signed again.
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
            # After any other conflict, the SRL itself may be outdated.
            if set(lost.lost) != {based.address}:
                raise
        else:
            return
        newest = in_force.read_feed_head(ports, tenant_id)
    raise Unavailable("gave up after conflicting feed publications in every attempt")


def _prune(ports: Ports, stored_srl: _StoredSrl) -> None:
    """Move warrants past retention, and remove old feed entries that the SRL covers."""
    making, plan, _ = stored_srl
    tenant_id, since = making.facts.tenant_id, making.issue.listed_since
    try:
        if plan.misplaced_ids:
            records.move_ended(ports, tenant_id, plan.misplaced_ids, since=since)
        storage.prune(ports, tenant_id, until=plan.sequence)
    except (DataCorrupt, Unavailable):
        # The SRL is published already. The next publication repeats this work.
        _log.warning(
            "cannot move warrants past retention, or remove old feed entries", exc_info=True
        )


def _head_writes(
    tenant_id: str, head: SrlHead, row: SrlVersionRecord, expected: VersionIs | Expect
) -> list[Change]:
    turn, item = PublicationDeadline.after_publication(head, tenant_id), head.to_item()
    return [
        Put(turn.address, turn.to_item(), Expect.ABSENT),
        Put(schedule_model.issue_address(head, tenant_id), {}, Expect.ABSENT),
        Put(head_address(tenant_id), item, expected),
        Put(head.history_address(tenant_id), item, Expect.ANYTHING),
        # After a restore there may already be a row of this version.
        Put(version_address(tenant_id, head.version), row.to_item(), Expect.ANYTHING),
    ]
