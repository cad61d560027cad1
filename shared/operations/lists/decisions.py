"""The facts of a publication, and the decisions made from them.

This module calls no port.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from shared import logs
from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import Base, FeedEntry
from shared.errors import DataCorrupt
from shared.model import times
from shared.model.feed import LEAP, FeedHead, StoredEntry
from shared.model.items import Address, Item
from shared.model.lists.content import RevokedSet, SrlState
from shared.model.lists.head import SrlHead
from shared.model.lists.schedule import (
    OutboxMark,
    PublicationDeadline,
    SignerOutboxMark,
    is_key_mark,
)
from shared.model.lists.signers import SrlSigner
from shared.model.lists.tombstones import Tombstones
from shared.model.tenants import TenantSettings
from shared.model.warrants import is_past_retention
from shared.operations.base.counters import ChangeTotals

_log = logging.getLogger(__name__)

# If a revoked key or a rebuild affects more warrants, they are published by an SRL, not by entries.
INLINE_MAX: Final = 20_000

# Every version divisible by this gets a full comparison, to detect errors.
COMPARED_EVERY: Final = 100


class PendingEntry(NamedTuple):
    """A feed entry with the expiries of the warrants that it revokes."""

    entry: FeedEntry
    expiries: list[datetime | None]


class PendingMarks(NamedTuple):
    """The outbox marks on warrants and on revoked signers, read from `read_at` on.

    `is_complete` is false if there may be more marks on warrants.
    """

    read_at: datetime
    warrants: Mapping[Address, OutboxMark]
    is_complete: bool
    signers: Mapping[Address, SignerOutboxMark]

    def without(self, signers: Collection[Address]) -> "PendingMarks":
        """Return these marks without the marks on `signers`."""
        left = {each: mark for each, mark in self.signers.items() if each not in signers}
        return self._replace(signers=left)


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """The publication facts: reads that the writes of a publication depend on.

    `srl_head` names the current SRL, and `signer` signs the next publication. `feed_head` is None
    if the tenant has no feed yet. `written` are the entries that this publication wrote.

    Only an SRL needs `stored_signers`, `totals` and `tenant_marks`. They raise `DataCorrupt` only
    when they are called, because damage there must not stop the feed.
    """

    settings: TenantSettings
    srl_head: SrlHead
    signer: SrlSigner
    feed_head: FeedHead | None
    pending: PendingMarks
    written: tuple[PendingEntry, ...] = ()
    stored_signers: Callable[[], Mapping[Address, Item]] = field(default=dict)
    totals: Callable[[], ChangeTotals] = field(default=lambda: ChangeTotals(0, 0))
    tenant_marks: Callable[[], dict[Address, OutboxMark]] = field(default=dict)

    @property
    def tenant_id(self) -> str:
        """The tenant to publish for."""
        return self.settings.tenant_id

    @property
    def is_detached_from_feed(self) -> bool:
        """Whether the feed needs a discontinuity because no SRL can follow from the current one."""
        is_broken = self.feed_head is not None and self.feed_head.is_broken
        return self.srl_head.sequence is None and not is_broken


class PreviousSrl(NamedTuple):
    """The current SRL and the changes since then.

    A member that cannot be read is None. `entries` are the feed entries since the current SRL.
    `signers_and_tombstones` are the revoked signers and the tombstones, or None if `state` has the
    same. `added` are the members that capabilities add to the next state.
    """

    revoked_ids: list[str] | None
    state: SrlState | None
    entries: list[PendingEntry] | None
    signers_and_tombstones: tuple[tuple[str, ...], Tombstones] | None = None
    added: Mapping[str, Any] = {}


class SrlIssue(NamedTuple):
    """The version of an SRL, with its issue time and its lifetime."""

    version: int
    issued_at: datetime
    lifetime: timedelta

    @property
    def expires_at(self) -> datetime:
        """The expiry of the SRL."""
        return self.issued_at + self.lifetime

    @property
    def listed_since(self) -> datetime:
        """The SRL omits warrants that expired before this time (SRL-9)."""
        return self.issued_at - self.lifetime


class SequenceJump(NamedTuple):
    """A discontinuity with a sequence jump, after a stolen SRL signer is replaced (FEED-7).

    `past` is the last entry that the SRL covers. `sequence` is the sequence of the discontinuity
    `entry`.
    """

    past: int
    sequence: int
    entry: StoredEntry


@dataclass(frozen=True, slots=True)
class SrlPlan:
    """The content of the next SRL, and the facts for its state.

    The SRL covers the feed up to `sequence`, which has the chain hash `chain`. `misplaced_ids` are
    warrants that belong in the other partition: the shard, or its partition of expired warrants.
    `is_exact` is false if the feed lacks part of the SRL, because no entry could be signed. `jump`
    is a discontinuity at `sequence` that is not written yet.
    """

    content: RevokedSet
    tombstones: Tombstones
    sequence: int
    chain: bytes
    misplaced_ids: tuple[str, ...] = ()
    is_exact: bool = True
    jump: SequenceJump | None = None

    def with_jump(self, now: datetime) -> "SrlPlan":
        """Return the same content with a discontinuity far above the feed.

        The plan is exact then: clients start from this SRL, regardless of the entries before it.
        """
        sequence = self.sequence + LEAP
        entry = StoredEntry.of(FeedEntry(sequence), [], now, follows=self.chain)
        jump = SequenceJump(self.sequence, sequence, entry)
        return replace(self, sequence=sequence, chain=entry.chain, is_exact=True, jump=jump)


def needs_full_comparison(facts: PublicationFacts, now: datetime) -> bool:
    """Return whether a mark requires a full comparison.

    The comparison finds key changes that were in flight when the last SRL was built. Raises
    `DataCorrupt`.
    """
    marked = facts.tenant_marks().items()
    return any(is_key_mark(address) and mark.is_settled(now) for address, mark in marked)


def is_srl_due(facts: PublicationFacts, now: datetime) -> bool:
    """Return whether the next SRL is due, because of its deadline, the feed or a change.

    Raises `DataCorrupt`.
    """
    srl_head, newest = facts.srl_head, facts.feed_head
    deadline = PublicationDeadline.after_publication(srl_head, facts.tenant_id)
    if srl_head.is_ahead(now) or deadline.due_at <= now:
        return True
    published = newest and (newest.sequence, newest.base.version)
    has_news = published != (srl_head.sequence, srl_head.version)
    return has_news or facts.totals().changes != srl_head.changes


def next_entry(
    facts: PublicationFacts,
    ids: Collection[str],
    ends: Mapping[str, datetime | None],
    now: datetime,
) -> PendingEntry:
    """Return the next entry: the revocation status of these warrants, or a discontinuity.

    `ends` contains the expiry of each revoked warrant.
    """
    sequence = next_sequence(facts)
    if facts.is_detached_from_feed:
        return PendingEntry(FeedEntry(sequence), [])
    ttl = facts.settings.srl_ttl
    revoked = sorted(each for each, at in ends.items() if not is_past_retention(at, now, ttl=ttl))
    removed = tuple(sorted({*ids}.difference(revoked)))
    return PendingEntry(
        FeedEntry(sequence, tuple(revoked), removed), [ends[each] for each in revoked]
    )


def next_sequence(facts: PublicationFacts, restored_sequence: int | None = None) -> int:
    """Return the sequence of the next entry.

    After a restore it is far above `restored_sequence`. Raises `DataCorrupt` if there is no feed.
    """
    if facts.feed_head is None:
        raise DataCorrupt("the feed of a tenant has no feed head")
    last = facts.feed_head.sequence
    return last + 1 if restored_sequence is None else max(last, restored_sequence) + LEAP


def next_issue(facts: PublicationFacts, now: datetime, lower_bound: int = 0) -> SrlIssue:
    """Return the issue of the next SRL, with a version above `lower_bound` (docs/adr/09)."""
    srl_head, lifetime = facts.srl_head, facts.settings.srl_ttl
    version = max(srl_head.version, lower_bound) + 1
    if not srl_head.is_ahead(now):
        return SrlIssue(version, times.truncate_to_second(max(now, srl_head.issued_at)), lifetime)
    # Either this clock or the earlier one is wrong. An SRL issued even later would be invalid, too.
    _log.error(
        "the current SRL was issued in the future, at %s; issuing the next SRL by this clock",
        times.format_utc(srl_head.issued_at),
        extra=logs.fields(tenant_id=facts.tenant_id, metrics={"ClockSkew": 1}),
    )
    return SrlIssue(version, times.truncate_to_second(now), lifetime)


def is_comparison_due(srl_head: SrlHead, issue: SrlIssue) -> bool:
    """Return whether the SRL after `srl_head` requires a full comparison."""
    return (
        issue.version % COMPARED_EVERY == 0
        # A warrant that left the SRL may have to return.
        or srl_head.expires_at - srl_head.issued_at != issue.lifetime
        or issue.issued_at < srl_head.issued_at
    )


def expired_ids(previous: PreviousSrl, issue: SrlIssue) -> list[str]:
    """Return warrants past retention that leave the SRL, up to a limit.

    Returns no warrants if the next SRL does not follow from the current one.
    """
    if previous.state is None or previous.entries is None or _has_discontinuity(previous.entries):
        return []
    last = dict[str, datetime | None]()
    for each in previous.entries:
        last.update(dict.fromkeys(each.entry.removed))
        last.update(zip(each.entry.revoked, each.expiries, strict=True))
    # UTC texts with whole seconds sort by time.
    limit = times.format_utc(issue.listed_since)
    before = (each for each, at in previous.state.ends.items() if at < limit and each not in last)
    ended = (each for each, at in last.items() if at is not None and times.format_utc(at) < limit)
    return list(islice(chain(before, ended), INLINE_MAX))


def plan_from_feed(facts: PublicationFacts, previous: PreviousSrl, now: datetime) -> SrlPlan | None:
    """Return the plan that applies the feed to the current SRL.

    Returns None if a full rebuild is required, for example after a discontinuity or if the feed
    head is in the future.
    """
    newest, ids = facts.feed_head, previous.revoked_ids
    state, entries = previous.state, previous.entries
    if (
        newest is None
        or newest.is_ahead(now)
        or ids is None
        or state is None
        or entries is None
        or _has_discontinuity(entries)
    ):
        return None
    signers, tombstones = previous.signers_and_tombstones or (state.signers, state.tombstones)
    content = RevokedSet(ids, state.ends, state.signers).apply(entries, signers=signers)
    return SrlPlan(content, tombstones, newest.sequence, newest.signed_head.chain)


def _has_discontinuity(entries: Iterable[PendingEntry]) -> bool:
    return any(each.entry.is_break for each in entries)


def has_discontinuity_since(newest: FeedHead, srl_head: SrlHead) -> bool:
    """Return whether a discontinuity follows the current SRL. Clients then await the next SRL."""
    return newest.is_broken if srl_head.sequence is None else newest.broke_at > srl_head.sequence


def initial_position(
    facts: PublicationFacts, restored_sequence: int | None, last_sequence: int | None
) -> tuple[int, bytes]:
    """Return the sequence and the chain hash of the feed after a full rebuild.

    A tenant without a feed begins one above its possible earlier feed. `restored_sequence` is known
    after a restore, and `last_sequence` is the last stored entry.
    """
    if facts.feed_head is not None:
        return facts.feed_head.sequence, facts.feed_head.signed_head.chain
    sequences = restored_sequence, facts.srl_head.sequence, last_sequence
    known = [each for each in sequences if each is not None]
    return max(known) + LEAP if known else 0, wire.first_chain(facts.tenant_id)


def feed_base(head: SrlHead, sequence: int, chain: bytes) -> Base:
    """Return an SRL as a base of the feed. It covers the feed up to `sequence`."""
    return Base(head.version, sequence, chain, bytes.fromhex(head.payload_sha256), head.count)
