"""Publish the feed and the SRL of a tenant without losing a revocation (docs/adr/09).

Each revocation is written together with an outbox mark. A publication turns the marks into feed
entries, which clients poll. It also builds the next SRL from the current SRL and the later entries
when that SRL is due. `wake` publishes the feed after each change. The scheduler publishes both, and
thereby also the changes that `wake` missed.

A publication by the scheduler runs these steps:

1. Read the publication facts (`in_force`).
2. Publish feed entries for all outbox marks, each in one write with the feed head. Then remove the
   marks (`feed_writer`).
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
from functools import partial
from typing import Final, NamedTuple

from shared import logs
from shared.authorizer.formats import wire
from shared.capabilities import INSTALLED
from shared.errors import DataCorrupt, PreconditionFailed, Unavailable
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller
from shared.model.feed import FeedHead
from shared.model.items import Address
from shared.model.lists.content import (
    Payload,
    RevokedSet,
    SrlState,
    SrlVersionRecord,
    version_address,
)
from shared.model.lists.head import SrlHead, head_address
from shared.model.lists.schedule import PublicationDeadline, issue_address
from shared.model.lists.signers import SrlSigner
from shared.model.tenants import TenantSettings
from shared.operations.base import audit
from shared.operations.base.operation import reread, settle
from shared.operations.base.seals import SeedUnavailable
from shared.operations.lists import decisions, in_force, marks, records, schedule, storage
from shared.operations.lists.decisions import PreviousSrl, PublicationFacts, SrlIssue, SrlPlan
from shared.operations.lists.feed_writer import FeedWriter
from shared.operations.lists.storage import Coverage, SeedCache
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Expect, Put, VersionIs

_log = logging.getLogger(__name__)

# Retries after another publisher appended an entry first.
_TRIES: Final = 20


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
    pending, feed_head = in_force.read_marks(ports, tenant_id)
    if feed_head is None:
        return None
    pending = pending.without(unnamed_marks)
    if not (pending.warrants or pending.signers):
        return PublishedFeed(feed_head)
    feed = FeedWriter(ports, in_force.read_feed_facts(ports, tenant_id, pending, feed_head))
    signer_marks = feed.append_pending(unnamed_marks)
    facts = feed.facts
    return PublishedFeed(
        facts.feed_head or feed_head, len(facts.written), facts, feed.seed_cache, signer_marks
    )


def name_keys(ports: Ports, tenant_id: str, unnamed_marks: Collection[Address]) -> None:
    """Publish the key bundle in the feed head, and remove marks on signers.

    `unnamed_marks` are the marks on signers that the feed already covers. Raises `DataCorrupt`,
    `Unavailable`.
    """
    INSTALLED.publish_references(ports, SeedCache(ports), tenant_id)
    marks.remove_signer_marks(ports, unnamed_marks)


# --- the SRL ---


def create_first(ports: Ports, settings: TenantSettings, srl_signer: SrlSigner) -> list[Change]:
    """Store version 1, an empty SRL, and return the writes that publish it (SRL-6)."""
    now, seed_cache = times.truncate_to_second(ports.now()), SeedCache(ports)
    tenant_id, srl_signers = settings.tenant_id, (replace(srl_signer, sealed_seed=None),)
    payload = Payload(1, now, now + settings.srl_ttl, [])
    state = SrlState(tenant_id, 1, now, srl_signers=srl_signers)
    head = storage.store_srl(ports, seed_cache, srl_signer, payload, state)
    head = replace(head, sequence=0)
    base = decisions.feed_base(head, 0, wire.first_chain(tenant_id))
    row = SrlVersionRecord.of(head, base, RevokedSet(), [])
    return [
        *_head_changes(tenant_id, head, row, Expect.ABSENT),
        storage.base_change(seed_cache, None, base, settings, srl_signer),
    ]


def publish_due(ports: Ports, *, is_over: Callable[[], bool] = lambda: False) -> PublicationRun:
    """Publish for every due tenant in this process.

    A failure of one tenant does not stop the others. Stops before the next tenant if `is_over`
    returns true. Raises `Unavailable` if the due tenants cannot be read.
    """
    run = PublicationRun()
    for tenant_id in schedule.read_due_tenants(ports).tenant_ids:
        if is_over():
            break
        try:
            if publish_if_due(ports, tenant_id):
                run.published.append(tenant_id)
        except Exception as error:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            run.failed[tenant_id] = error
    return run


def publish_if_due(ports: Ports, tenant_id: str) -> bool:
    """Publish the feed of a tenant, and its SRL if that is due.

    Returns whether an SRL was published. Repeated and concurrent calls are harmless. Raises
    `DataCorrupt`, `Unavailable`.
    """

    def attempt() -> tuple[PublicationFacts, bool]:
        before = in_force.read_facts(ports, tenant_id, sees_tenant=True)
        feed = FeedWriter(ports, before)
        feed.publish_pending()
        facts = feed.facts
        if facts.written:
            figures = {"FeedSchedulerPublications": len(facts.written)}
            _log.info("feed", extra=logs.fields(tenant_id=tenant_id, metrics=figures))
        now = ports.now()
        compare_all = decisions.needs_full_comparison(facts, now)
        is_due = compare_all or decisions.is_srl_due(facts, now)
        if is_due:
            caller = Caller.inside(tenant_id, name="schedule", handle=facts.settings.handle)
            srl = ListPublication.begin(feed, before, compare_all=compare_all)
            srl.run(partial(_regeneration_changes, feed, caller), prune=True)
        return facts, is_due

    facts, is_published = settle(attempt)
    marks.acknowledge(ports, facts.tenant_marks())
    return is_published


def publish(
    ports: Ports,
    caller: Caller,
    *,
    restored_position: RestoredPosition | None = None,
    compare_all: bool = False,
    prune: bool = False,
    extra_changes: Callable[[SrlHead], Iterable[Change]] = lambda _: (),
) -> SrlHead:
    """Publish the next SRL, even if nothing changed (SRL-6); return its head.

    - `restored_position` is given after a restore and causes a full rebuild.
    - `compare_all` causes a full comparison.
    - `prune` removes old feed entries after the publication, and moves warrants past retention.
    - `extra_changes` returns further writes for the transaction that replaces the SRL head.

    Raises `PreconditionFailed` if another publication or a rotation of the SRL signer came first
    (see `settle`). Raises `Unavailable` if a port does not respond, and `DataCorrupt` if the SRL
    would be wrong. In each case the old SRL stays current.
    """
    before = in_force.read_facts(ports, caller.tenant_id)
    feed = FeedWriter(ports, before)
    if restored_position is not None and before.feed_head is not None:
        feed.append_discontinuity(restored_sequence=restored_position.sequence)
    feed.publish_pending()
    srl = ListPublication.begin(
        feed, before, restored_position=restored_position, compare_all=compare_all
    )
    return srl.run(
        lambda head: [*_regeneration_changes(feed, caller, head), *extra_changes(head)], prune=prune
    )


def publish_with_new_signer(
    ports: Ports,
    head: SrlHead,
    srl_signer: SrlSigner,
    changes: Iterable[Change],
    *,
    jump: bool = False,
) -> None:
    """Publish the next SRL, signed by `srl_signer`, together with `changes`.

    All writes are one transaction, with the given `head` as a precondition. `jump` is true if the
    previous signer was stolen: the same transaction then adds a discontinuity with a sequence jump
    (FEED-7). Raises the same errors as `publish`.
    """
    changes = list(changes)
    before = in_force.read_facts(ports, srl_signer.tenant_id)
    if before.srl_head.version != head.version:
        raise PreconditionFailed([head_address(before.tenant_id)])
    feed = FeedWriter(ports, before)
    try:
        feed.publish_pending()
    except SeedUnavailable as error:
        feed.facts = before
        _warn_unsigned(error)
    srl = ListPublication.begin(feed, before)
    srl.signer, srl.jump = srl_signer, jump
    srl.srl_signers = in_force.strip_seeds(before.tenant_id, before.stored_signers(), changes)
    srl.run(lambda _: changes)


@dataclass(slots=True)
class ListPublication:
    """One attempt to publish the next SRL of a tenant.

    `feed` has published all pending changes, and `before` are the facts from before that. `signer`
    signs the SRL, and `srl_signers` are stored in its state. `previous` is the current SRL with the
    changes since then. With `jump`, a discontinuity with a sequence jump is part of the write that
    replaces the heads.
    """

    feed: FeedWriter
    before: PublicationFacts
    issue: SrlIssue
    signer: SrlSigner
    srl_signers: tuple[SrlSigner, ...]
    previous: PreviousSrl
    restored_sequence: int | None = None
    compare_all: bool = False
    jump: bool = False

    @classmethod
    def begin(
        cls,
        feed: FeedWriter,
        before: PublicationFacts,
        *,
        restored_position: RestoredPosition | None = None,
        compare_all: bool = False,
    ) -> "ListPublication":
        """Read the current SRL and the changes since then, and remove old blobs.

        `compare_all` requires a full comparison, which some versions also require. Raises
        `PreconditionFailed` if another SRL or signer was published since `before`; `DataCorrupt`,
        `Unavailable`.
        """
        ports, facts = feed.ports, feed.facts
        _require_same_head(before, facts)
        lower_bound = restored_position.version if restored_position else 0
        issue = decisions.next_issue(facts, ports.now(), lower_bound)
        # Old SRLs must not use space that the next one needs, whether or not it is published.
        cleanup_tasks = storage.cleanup_tasks(ports, facts.tenant_id, facts.srl_head)
        return cls(
            feed,
            before,
            issue,
            facts.signer,
            in_force.strip_seeds(facts.tenant_id, facts.stored_signers()),
            in_force.read_previous(ports, facts, cleanup_tasks),
            restored_position.sequence if restored_position else None,
            compare_all,
        )

    def run(
        self, head_changes: Callable[[SrlHead], Iterable[Change]], *, prune: bool = False
    ) -> SrlHead:
        """Publish the SRL, and return its head.

        1. Determine the content from the current SRL and the feed, or else from all records.
        2. Sign and verify the SRL. Store its state, and then the SRL.
        3. Replace the SRL head and the feed head in one write, which also has `head_changes`.
        4. With `prune`, move warrants past retention, and remove old feed entries.
        """
        plan = self.follow_feed() or self.rebuild()
        try:
            plan, head = self._store(plan)
        except DataCorrupt as error:
            _log.warning(
                "cannot follow the previous SRL (%s); rebuilding the SRL from all records", error
            )
            plan, head = self._store(self.rebuild())
        self._replace_heads(head, plan, list(head_changes(head)))
        if prune:
            self._prune(plan)
        return head

    def follow_feed(self) -> SrlPlan | None:
        """Return the current SRL with the changes of the feed, or None if it cannot be followed.

        The feed is first brought up to date with the next SRL (SRL-12).
        """
        ports, issue = self.feed.ports, self.issue
        if self.compare_all:
            # At the last SRL, their counter may have been visible before the records themselves.
            ended = in_force.read_revoked_signers_and_tombstones(ports, self.feed.facts)
            self.previous = self.previous._replace(signers_and_tombstones=ended)
        # Warrants past retention leave the SRL, so they must leave the feed first.
        is_exact = self._reconcile_feed(decisions.expired_ids(self.previous, issue))
        facts = self.feed.facts
        plan = decisions.plan_from_feed(facts, self.previous, ports.now())
        if plan is None:
            return None
        if not (self.compare_all or decisions.is_comparison_due(facts.srl_head, issue)):
            return replace(plan, is_exact=is_exact)
        recorded = reread(self.read_records)
        if differences := plan.content.differences(recorded.content):
            is_exact = self._reconcile_feed(differences)
            plan = decisions.plan_from_feed(self.feed.facts, self.previous, ports.now())
        return plan and replace(plan, misplaced_ids=recorded.misplaced, is_exact=is_exact)

    def rebuild(self) -> SrlPlan:
        """Return the content of all records, after a discontinuity in the feed.

        A tenant without a feed begins one. After a restore, its sequence is above the earlier feed.
        """
        ports, is_exact = self.feed.ports, True
        newest, srl_head = self.feed.facts.feed_head, self.feed.facts.srl_head
        is_broken = newest and decisions.has_discontinuity_since(newest, srl_head)
        if newest and (not is_broken or newest.is_ahead(ports.now())):
            try:
                self.feed.append_discontinuity()
            except SeedUnavailable:
                is_exact = False
        facts = self.feed.facts
        _require_same_head(self.before, facts)
        # Read after the feed head: a later change is then in an entry that the SRL does not cover.
        recorded = reread(self.read_records)
        revoked_signers, tombstones = in_force.read_revoked_signers_and_tombstones(ports, facts)
        last_sequence = None
        if facts.feed_head is None:
            # A feed that lost its head may still have entries.
            last_sequence = in_force.read_last_sequence(ports, facts.tenant_id)
        sequence, chain = decisions.initial_position(facts, self.restored_sequence, last_sequence)
        content = replace(recorded.content, signers=revoked_signers)
        return SrlPlan(content, tombstones, sequence, chain, recorded.misplaced, is_exact)

    def read_records(self) -> records.ScanResult:
        """Return the content of all records, except for the revoked signers."""
        return records.scan_for_srl(
            self.feed.ports,
            self.before.tenant_id,
            self.previous.revoked_ids or [],
            at=self.issue.issued_at,
            ttl=self.issue.lifetime,
        )

    def _reconcile_feed(self, ids: Collection[str]) -> bool:
        """Publish the status of these warrants, so the feed agrees with the next SRL.

        Returns false if no entry can be signed.
        """
        if not ids:
            return True
        feed, facts = self.feed, self.feed.facts
        coverage = Coverage(facts.pending.read_at)
        try:
            if len(ids) > decisions.INLINE_MAX:
                feed.append_discontinuity(coverage)
            else:
                feed.append_statuses(ids, coverage)
        except SeedUnavailable as error:
            feed.facts = facts
            _warn_unsigned(error)
            return False
        _require_same_head(facts, feed.facts)
        known = self.previous.entries or ()
        entries = in_force.read_entries_since(feed.ports, feed.facts, known)
        self.previous = self.previous._replace(entries=entries)
        return True

    def _store(self, plan: SrlPlan) -> tuple[SrlPlan, SrlHead]:
        """Sign, verify and store the SRL with its state.

        Returns the plan, with the sequence jump if there is one, and the head of the SRL.
        """
        ports, issue, facts = self.feed.ports, self.issue, self.feed.facts
        if self.jump:
            plan = plan.with_jump(ports.now())
        state = SrlState(
            facts.tenant_id,
            issue.version,
            issue.issued_at,
            plan.content.ends,
            plan.content.signers,
            self.srl_signers,
            plan.tombstones,
            plan.sequence,
            self.previous.added,
        )
        ids = plan.content.revoked_ids
        payload = Payload(issue.version, issue.issued_at, issue.expires_at, ids)
        changes = facts.totals().changes
        head = storage.store_srl(
            ports, self.feed.seed_cache, self.signer, payload, state, facts.srl_head
        )
        # Without a sequence, no SRL can follow from this one. The next one adds a discontinuity.
        sequence = plan.sequence if plan.is_exact else None
        return plan, replace(head, changes=changes, sequence=sequence)

    def _replace_heads(self, head: SrlHead, plan: SrlPlan, changes: Iterable[Change]) -> None:
        """Replace the SRL head, and make the SRL the base of the feed, in one write.

        If another publisher appends an entry first, only the feed head is read and signed again.
        """
        ports, facts = self.feed.ports, self.feed.facts
        tenant_id, before, newest = facts.tenant_id, facts.srl_head, facts.feed_head
        base = decisions.feed_base(head, plan.sequence, plan.chain)
        row = SrlVersionRecord.of(head, base, plan.content, self.previous.revoked_ids)
        deadline = PublicationDeadline.after_publication(before, tenant_id)
        for _ in range(_TRIES):
            newest = newest and newest.with_base_issued_at(head.issued_at)
            jump = storage.jump_writes(ports, tenant_id, newest, plan.jump) if plan.jump else None
            base_change = storage.base_change(
                self.feed.seed_cache, newest, base, facts.settings, self.signer, jump
            )
            try:
                ports.store.write(
                    *_head_changes(tenant_id, head, row, VersionIs(before.version)),
                    Delete(deadline.address, Expect.ANYTHING),
                    Delete(issue_address(before, tenant_id), Expect.ANYTHING),
                    *changes,
                    *(jump.entries if jump else ()),
                    base_change,
                )
            except PreconditionFailed as lost:
                # After any other conflict, the SRL itself may be outdated.
                if set(lost.lost) != {base_change.address}:
                    raise
            else:
                return
            newest = in_force.read_feed_head(ports, tenant_id)
        raise Unavailable("gave up after conflicting feed publications in every attempt")

    def _prune(self, plan: SrlPlan) -> None:
        """Move warrants past retention, and remove old feed entries that the SRL covers."""
        ports, tenant_id = self.feed.ports, self.before.tenant_id
        try:
            if plan.misplaced_ids:
                since = self.issue.listed_since
                records.move_ended(ports, tenant_id, plan.misplaced_ids, since=since)
            storage.prune(ports, tenant_id, until=plan.sequence)
        except (DataCorrupt, Unavailable):
            # The SRL is published already. The next publication repeats this work.
            _log.warning(
                "cannot move warrants past retention, or remove old feed entries", exc_info=True
            )


def _require_same_head(old: PublicationFacts, new: PublicationFacts) -> None:
    """Raise `PreconditionFailed` if another SRL or signer was published in between."""
    before, after = (
        (each.srl_head.version, each.signer.id, each.signer.version) for each in (old, new)
    )
    if before != after:
        raise PreconditionFailed([head_address(old.tenant_id)])


def _warn_unsigned(error: SeedUnavailable) -> None:
    # A new signer is about to replace this one. It publishes the changes that have a mark.
    _log.warning("cannot sign feed entries (%s); publishing the SRL without them", error)


def _regeneration_changes(feed: FeedWriter, caller: Caller, head: SrlHead) -> list[Change]:
    """Return the check that the signer is unchanged, and the audit entry of the SRL."""
    signer, settings = feed.facts.signer, feed.facts.settings
    action, resource = AuditAction.SRL_REGENERATE, f"srl/{head.version}"
    entry = audit.entry(feed.ports, caller, action, resource, settings=settings, count=head.count)
    return [Check(signer.address, VersionIs(signer.version)), entry]


def _head_changes(
    tenant_id: str, head: SrlHead, row: SrlVersionRecord, expected: VersionIs | Expect
) -> list[Change]:
    deadline, item = PublicationDeadline.after_publication(head, tenant_id), head.to_item()
    return [
        Put(deadline.address, deadline.to_item(), Expect.ABSENT),
        Put(issue_address(head, tenant_id), {}, Expect.ABSENT),
        Put(head_address(tenant_id), item, expected),
        Put(head.history_address(tenant_id), item, Expect.ANYTHING),
        # After a restore there may already be a row of this version.
        Put(version_address(tenant_id, head.version), row.to_item(), Expect.ANYTHING),
    ]
