"""The facts of a publication, and its decisions, made from them alone: nothing here asks a port."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Final, NamedTuple

from shared import logs
from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import Base, FeedEntry
from shared.errors import DataCorrupt
from shared.model import times
from shared.model.audit.checkpoint import PinnedCheckpoint
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

# More warrants than this, of a revoked key or found by a rebuild, are published by a list.
INLINE_MAX: Final = 20_000

# Each list with a version divisible by this is compared with all records, in case of an error.
COMPARED_EVERY: Final = 100


class PendingEntry(NamedTuple):
    """An entry of the feed, with the ends of the warrants that it revokes."""

    entry: FeedEntry
    expiries: list[datetime | None]


class PendingMarks(NamedTuple):
    """The marks on warrants and on revoked signers, read from `read_at` on.

    `is_complete` is false if more warrants may be marked.
    """

    read_at: datetime
    warrants: Mapping[Address, OutboxMark]
    is_complete: bool
    signers: Mapping[Address, SignerOutboxMark]

    def without(self, signers: Collection[Address]) -> "PendingMarks":
        """Return the marks other than these on signers."""
        left = {each: mark for each, mark in self.signers.items() if each not in signers}
        return self._replace(signers=left)


@dataclass(frozen=True, slots=True)
class PublicationFacts:
    """The facts for the entries and the list of a publication, whose writes expect them.

    `srl_head` is the head of the list in force, `signer` signs what follows, `feed_head` is the
    head of the feed: None if the tenant has none yet. `written` are the entries that this
    publication wrote. `stored_signers`, `totals` and `tenant_marks`, which a list alone needs,
    raise `DataCorrupt` only when they are used, because damage there must not stop the feed.
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
        """The tenant that is published for."""
        return self.settings.tenant_id

    @property
    def is_detached_from_feed(self) -> bool:
        """Whether no list can follow from the list in force by the feed, and no break says so."""
        is_broken = self.feed_head is not None and self.feed_head.is_broken
        return self.srl_head.sequence is None and not is_broken


class PreviousSrl(NamedTuple):
    """The list in force and what came since; each is None if it cannot be read.

    `entries` are the entries since. `signers_and_tombstones` are the revoked signers and the
    tombstones, None if they are those of the state. `log` is what the sealed log of the tenant has
    stated.
    """

    revoked_ids: list[str] | None
    state: SrlState | None
    entries: list[PendingEntry] | None
    signers_and_tombstones: tuple[tuple[str, ...], Tombstones] | None = None
    checkpoint: PinnedCheckpoint | None = None


class SrlIssue(NamedTuple):
    """Which list is made: its version, and when it is issued and expires."""

    version: int
    issued_at: datetime
    lifetime: timedelta

    @property
    def expires_at(self) -> datetime:
        """When the list expires."""
        return self.issued_at + self.lifetime

    @property
    def listed_since(self) -> datetime:
        """Warrants that ended before this time are not in the list (SRL-9)."""
        return self.issued_at - self.lifetime


class SequenceJump(NamedTuple):
    """A break that is written when a stolen list signer is replaced (FEED-7).

    `past` is the last entry that the list covers, and `sequence` that of the break `entry`.
    """

    past: int
    sequence: int
    entry: StoredEntry

    @classmethod
    def from_position(cls, past: int, chain: bytes, now: datetime) -> "SequenceJump":
        """Return the break far above the entry `past`, at which the chain is `chain`."""
        sequence = past + LEAP
        return cls(past, sequence, StoredEntry.of(FeedEntry(sequence), [], now, follows=chain))


@dataclass(frozen=True, slots=True)
class SrlPlan:
    """The content of the next list, and the facts for its state.

    The list covers the feed up to `sequence`, where the chain is `chain`. `misplaced_ids` are
    warrants in a shard that belong into its partition of ended ones, or the reverse. `is_exact` is
    false if the feed lacks what the list says, because no entry could be signed. `jump` is a break
    at `sequence` that is still to be written.
    """

    content: RevokedSet
    tombstones: Tombstones
    sequence: int
    chain: bytes
    misplaced_ids: tuple[str, ...] = ()
    is_exact: bool = True
    jump: SequenceJump | None = None

    def with_jump(self, now: datetime) -> "SrlPlan":
        """Return the same content, which also covers a break far above the feed.

        Clients begin with the list then, so it is exact, whatever could be signed before.
        """
        leap = SequenceJump.from_position(self.sequence, self.chain, now)
        chain = leap.entry.chain
        return replace(self, sequence=leap.sequence, chain=chain, is_exact=True, jump=leap)


def needs_full_comparison(facts: PublicationFacts, now: datetime) -> bool:
    """Return whether a mark asks for a list that is compared with all records.

    That finds changes of keys that were in flight when the last list was made. Raises
    `DataCorrupt`.
    """
    marked = facts.tenant_marks().items()
    return any(is_key_mark(address) and mark.is_settled(now) for address, mark in marked)


def is_srl_due(facts: PublicationFacts, now: datetime) -> bool:
    """Return whether the next list is due: by its time, the feed or a change.

    Raises `DataCorrupt`.
    """
    listed, newest = facts.srl_head, facts.feed_head
    if (
        listed.is_ahead(now)
        or PublicationDeadline.after_publication(listed, facts.tenant_id).due_at <= now
    ):
        return True
    told = newest and (newest.sequence, newest.base.version)
    return told != (listed.sequence, listed.version) or facts.totals().changes != listed.changes


def next_entry(
    facts: PublicationFacts,
    ids: Collection[str],
    ends: Mapping[str, datetime | None],
    now: datetime,
) -> PendingEntry:
    """Return the next entry: which of these warrants are revoked, and which not; or a break.

    `ends` are those of the revoked ones.
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
    """Return the sequence of the next entry; after a restore, far above `restored_sequence`.

    Raises `DataCorrupt` if there is no feed.
    """
    if facts.feed_head is None:
        raise DataCorrupt("the feed of a tenant has no head")
    last = facts.feed_head.sequence
    return last + 1 if restored_sequence is None else max(last, restored_sequence) + LEAP


def next_issue(facts: PublicationFacts, now: datetime, lower_bound: int = 0) -> SrlIssue:
    """Return the issue of the next list, with a version above `lower_bound` (docs/adr/09)."""
    listed, lifetime = facts.srl_head, facts.settings.srl_ttl
    version = max(listed.version, lower_bound) + 1
    if not listed.is_ahead(now):
        return SrlIssue(version, times.truncate_to_second(max(now, listed.issued_at)), lifetime)
    # One of two clocks is wrong. A list issued even later would be invalid like this one.
    _log.error(
        "the list in force was issued in the future, at %s; the next one is issued by this clock",
        times.format_utc(listed.issued_at),
        extra=logs.fields(tenant_id=facts.tenant_id, metrics={"ClockSkew": 1}),
    )
    return SrlIssue(version, times.truncate_to_second(now), lifetime)


def is_comparison_due(srl_head: SrlHead, issue: SrlIssue) -> bool:
    """Return whether the list after `srl_head` is to be compared with all records."""
    return (
        issue.version % COMPARED_EVERY == 0
        # A warrant that left the list may have to come back.
        or srl_head.expires_at - srl_head.issued_at != issue.lifetime
        or issue.issued_at < srl_head.issued_at
    )


def expired_ids(prior: PreviousSrl, issue: SrlIssue) -> list[str]:
    """Return warrants that ended so long ago that they leave the list; not all at once.

    None leave a list that does not follow from the one in force.
    """
    if prior.state is None or prior.entries is None or _has_discontinuity(prior.entries):
        return []
    last = dict[str, datetime | None]()
    for each in prior.entries:
        last.update(dict.fromkeys(each.entry.removed))
        last.update(zip(each.entry.revoked, each.expiries, strict=True))
    # Texts of whole seconds in UTC sort by time.
    limit = times.format_utc(issue.listed_since)
    before = (each for each, at in prior.state.ends.items() if at < limit and each not in last)
    ended = (each for each, at in last.items() if at is not None and times.format_utc(at) < limit)
    return list(islice(chain(before, ended), INLINE_MAX))


def plan_from_feed(facts: PublicationFacts, prior: PreviousSrl, now: datetime) -> SrlPlan | None:
    """Return what the feed makes of the list in force; None if all records must be read.

    So it is, after a break, if the head of the feed is of a clock that was ahead.
    """
    newest, ids, state, told = facts.feed_head, prior.revoked_ids, prior.state, prior.entries
    if (
        newest is None
        or newest.is_ahead(now)
        or ids is None
        or state is None
        or told is None
        or _has_discontinuity(told)
    ):
        return None
    signers, tombstones = prior.signers_and_tombstones or (state.signers, state.tombstones)
    content = RevokedSet(ids, state.ends, state.signers).apply(told, signers=signers)
    return SrlPlan(content, tombstones, newest.sequence, newest.signed_head.chain)


def _has_discontinuity(entries: Iterable[PendingEntry]) -> bool:
    return any(each.entry.is_break for each in entries)


def has_discontinuity_since(newest: FeedHead, srl_head: SrlHead) -> bool:
    """Return whether the feed broke after the list in force, so that clients await the next one."""
    return newest.is_broken if srl_head.sequence is None else newest.broke_at > srl_head.sequence


def initial_position(
    facts: PublicationFacts, restored_sequence: int | None, previous: int | None
) -> tuple[int, bytes]:
    """Return where a list from all records leaves the feed: its sequence and its chain.

    A tenant without a feed begins one, above what it may have had: `restored_sequence` is known
    after a restore, `previous` is the last entry that is stored.
    """
    if facts.feed_head is not None:
        return facts.feed_head.sequence, facts.feed_head.signed_head.chain
    known = [
        each for each in (restored_sequence, facts.srl_head.sequence, previous) if each is not None
    ]
    return max(known) + LEAP if known else 0, wire.first_chain(facts.tenant_id)


def feed_base(head: SrlHead, sequence: int, chain: bytes) -> Base:
    """Return a list as base of the feed; it covers the feed up to `sequence`."""
    return Base(head.version, sequence, chain, bytes.fromhex(head.payload_sha256), head.count)
