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
from shared.errors import Corrupt
from shared.model import times
from shared.model.audit.checkpoint import Kept
from shared.model.feed import LEAP, FeedHead, StoredEntry
from shared.model.items import Address, Item
from shared.model.lists.content import Content, ListState
from shared.model.lists.head import ListHead
from shared.model.lists.schedule import Mark, SignersMark, Turn, is_of_keys
from shared.model.lists.signers import ListSigner
from shared.model.lists.tombstones import Tombstones
from shared.model.tenants import TenantSettings
from shared.model.warrants import left_behind
from shared.operations.base.counters import Counted

_log = logging.getLogger(__name__)

# More warrants than this, of a revoked key or found by a rebuild, are published by a list.
INLINE_MAX: Final = 20_000

# Each list with a version divisible by this is compared with all records, in case of an error.
COMPARED_EVERY: Final = 100


class Told(NamedTuple):
    """An entry of the feed, with the ends of the warrants that it revokes."""

    entry: FeedEntry
    ends: list[datetime | None]


class Marked(NamedTuple):
    """The marks on warrants and on revoked signers, read from `read_at` on.

    `are_all` is false if more warrants may be marked.
    """

    read_at: datetime
    warrants: Mapping[Address, Mark]
    are_all: bool
    signers: Mapping[Address, SignersMark]

    def without(self, signers: Collection[Address]) -> "Marked":
        """Return the marks other than these on signers."""
        left = {each: mark for each, mark in self.signers.items() if each not in signers}
        return self._replace(signers=left)


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts for the entries and the list of a publication, whose writes expect them.

    `listed` is the head of the list in force, `signer` signs what follows, `newest` is the head of
    the feed: None if the tenant has none yet. `own` are the entries that this publication wrote.
    `stored_signers`, `counted` and `on_tenant`, which a list alone needs, raise `Corrupt` only when
    they are used, because damage there must not stop the feed.
    """

    settings: TenantSettings
    listed: ListHead
    signer: ListSigner
    newest: FeedHead | None
    marked: Marked
    own: tuple[Told, ...] = ()
    stored_signers: Callable[[], Mapping[Address, Item]] = field(default=dict)
    counted: Callable[[], Counted] = field(default=lambda: Counted(0, 0))
    on_tenant: Callable[[], dict[Address, Mark]] = field(default=dict)

    @property
    def tenant_id(self) -> str:
        """The tenant that is published for."""
        return self.settings.tenant_id

    @property
    def is_left_behind(self) -> bool:
        """Whether no list can follow from the list in force by the feed, and no break says so."""
        is_broken = self.newest is not None and self.newest.is_broken
        return self.listed.sequence is None and not is_broken


class Prior(NamedTuple):
    """The list in force and what came since; each is None if it cannot be read.

    `told` are the entries since. `ended` are the revoked signers and the tombstones, None if they
    are those of the state. `log` is what the sealed log of the tenant has stated.
    """

    revoked_ids: list[str] | None
    state: ListState | None
    told: list[Told] | None
    ended: tuple[tuple[str, ...], Tombstones] | None = None
    log: Kept | None = None


class Issue(NamedTuple):
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


class Leap(NamedTuple):
    """A break that is written when a stolen list signer is replaced (FEED-7).

    `past` is the last entry that the list covers, and `sequence` that of the break `entry`.
    """

    past: int
    sequence: int
    entry: StoredEntry

    @classmethod
    def over(cls, past: int, chain: bytes, now: datetime) -> "Leap":
        """Return the break far above the entry `past`, at which the chain is `chain`."""
        sequence = past + LEAP
        return cls(past, sequence, StoredEntry.of(FeedEntry(sequence), [], now, follows=chain))


@dataclass(frozen=True, slots=True)
class Plan:
    """The content of the next list, and the facts for its state.

    The list covers the feed up to `sequence`, where the chain is `chain`. `misplaced` are warrants
    in a shard that belong into its partition of ended ones, or the reverse. `is_exact` is false if
    the feed lacks what the list says, because no entry could be signed. `leap` is a break at
    `sequence` that is still to be written.
    """

    content: Content
    tombstones: Tombstones
    sequence: int
    chain: bytes
    misplaced: tuple[str, ...] = ()
    is_exact: bool = True
    leap: Leap | None = None

    def leapt(self, now: datetime) -> "Plan":
        """Return the same content, which also covers a break far above the feed.

        Clients begin with the list then, so it is exact, whatever could be signed before.
        """
        leap = Leap.over(self.sequence, self.chain, now)
        chain = leap.entry.chain
        return replace(self, sequence=leap.sequence, chain=chain, is_exact=True, leap=leap)


def is_anew(facts: Facts, now: datetime) -> bool:
    """Return whether a mark asks for a list that is compared with all records.

    That finds changes of keys that were in flight when the last list was made. Raises `Corrupt`.
    """
    marked = facts.on_tenant().items()
    return any(is_of_keys(address) and mark.is_over(now) for address, mark in marked)


def is_due(facts: Facts, now: datetime) -> bool:
    """Return whether the next list is due: by its time, the feed or a change. Raises `Corrupt`."""
    listed, newest = facts.listed, facts.newest
    if listed.is_ahead(now) or Turn.after(listed, facts.tenant_id).due_at <= now:
        return True
    told = newest and (newest.sequence, newest.base.version)
    return told != (listed.sequence, listed.version) or facts.counted().changes != listed.changes


def entry(
    facts: Facts, ids: Collection[str], ends: Mapping[str, datetime | None], now: datetime
) -> Told:
    """Return the next entry: which of these warrants are revoked, and which not; or a break.

    `ends` are those of the revoked ones.
    """
    sequence = next_sequence(facts)
    if facts.is_left_behind:
        return Told(FeedEntry(sequence), [])
    ttl = facts.settings.srl_ttl
    revoked = sorted(each for each, at in ends.items() if not left_behind(at, now, ttl=ttl))
    removed = tuple(sorted({*ids}.difference(revoked)))
    return Told(FeedEntry(sequence, tuple(revoked), removed), [ends[each] for each in revoked])


def next_sequence(facts: Facts, above: int | None = None) -> int:
    """Return the sequence of the next entry; after a restore, far above the feed and `above`.

    Raises `Corrupt` if there is no feed.
    """
    if facts.newest is None:
        raise Corrupt("the feed of a tenant has no head")
    last = facts.newest.sequence
    return last + 1 if above is None else max(last, above) + LEAP


def issue(facts: Facts, now: datetime, above: int = 0) -> Issue:
    """Return the issue of the next list, whose version is higher than `above` (docs/adr/09)."""
    listed, lifetime = facts.listed, facts.settings.srl_ttl
    version = max(listed.version, above) + 1
    if not listed.is_ahead(now):
        return Issue(version, times.whole(max(now, listed.issued_at)), lifetime)
    # One of two clocks is wrong. A list issued even later would be invalid like this one.
    _log.error(
        "the list in force was issued in the future, at %s; the next one is issued by this clock",
        times.text(listed.issued_at),
        extra=logs.fields(tenant_id=facts.tenant_id, metrics={"HeadInFuture": 1}),
    )
    return Issue(version, times.whole(now), lifetime)


def is_compared(listed: ListHead, made: Issue) -> bool:
    """Return whether the list after `listed` is to be compared with all records."""
    return (
        made.version % COMPARED_EVERY == 0
        # A warrant that left the list may have to come back.
        or listed.expires_at - listed.issued_at != made.lifetime
        or made.issued_at < listed.issued_at
    )


def leaving(prior: Prior, made: Issue) -> list[str]:
    """Return warrants that ended so long ago that they leave the list; not all at once.

    None leave a list that does not follow from the one in force.
    """
    if prior.state is None or prior.told is None or _has_break(prior.told):
        return []
    last = dict[str, datetime | None]()
    for each in prior.told:
        last.update(dict.fromkeys(each.entry.removed))
        last.update(zip(each.entry.revoked, each.ends, strict=True))
    # Texts of whole seconds in UTC sort by time.
    limit = times.text(made.listed_since)
    before = (each for each, at in prior.state.ends.items() if at < limit and each not in last)
    ended = (each for each, at in last.items() if at is not None and times.text(at) < limit)
    return list(islice(chain(before, ended), INLINE_MAX))


def followed(facts: Facts, prior: Prior, now: datetime) -> Plan | None:
    """Return what the feed makes of the list in force; None if all records must be read.

    So it is, after a break, if the head of the feed is of a clock that was ahead.
    """
    newest, ids, state, told = facts.newest, prior.revoked_ids, prior.state, prior.told
    if (
        newest is None
        or newest.is_ahead(now)
        or ids is None
        or state is None
        or told is None
        or _has_break(told)
    ):
        return None
    signers, tombstones = prior.ended or (state.signers, state.tombstones)
    content = Content(ids, state.ends, state.signers).after(told, signers=signers)
    return Plan(content, tombstones, newest.sequence, newest.signed.chain)


def _has_break(told: Iterable[Told]) -> bool:
    return any(each.entry.is_break for each in told)


def is_broken_since(newest: FeedHead, listed: ListHead) -> bool:
    """Return whether the feed broke after the list in force, so that clients await the next one."""
    return newest.is_broken if listed.sequence is None else newest.broke_at > listed.sequence


def begun(facts: Facts, above: int | None, left: int | None) -> tuple[int, bytes]:
    """Return where a list from all records leaves the feed: its sequence and its chain.

    A tenant without a feed begins one, above what it may have had: `above` is known after a
    restore, `left` is the last entry that is stored.
    """
    if facts.newest is not None:
        return facts.newest.sequence, facts.newest.signed.chain
    known = [each for each in (above, facts.listed.sequence, left) if each is not None]
    return max(known) + LEAP if known else 0, wire.first_chain(facts.tenant_id)


def base(head: ListHead, sequence: int, chain: bytes) -> Base:
    """Return a list as base of the feed; it covers the feed up to `sequence`."""
    return Base(head.version, sequence, chain, bytes.fromhex(head.payload_sha256), head.count)
