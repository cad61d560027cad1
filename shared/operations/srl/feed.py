"""Publishing the feed, in an order that loses no change (docs/adr/0046).

1. read the marks         2. read the head           3. look at the records
4. write the next entry and the head, expecting the head that was read
5. remove the marks

If it stops at any point, the worst is that the next entry states the same again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice, takewhile
from typing import Final, NamedTuple

from shared.authorizer import wire
from shared.authorizer.wire import Base, Entry
from shared.errors import Corrupt
from shared.model import feed as model
from shared.model import revocations, seeds, times
from shared.model.feed import FeedHead, StoredEntry
from shared.model.items import Address
from shared.model.revocations import RevokedWarrant
from shared.model.srl.head import Head
from shared.model.srl.schedule import SignersMark
from shared.model.srl.signers import ListSigner
from shared.model.tenants import TenantSettings
from shared.model.warrants import left_behind
from shared.operations.rules import operation, seals, steps, tenants
from shared.operations.rules.operation import settle
from shared.operations.rules.verdicts import verdicts
from shared.operations.srl import in_force, marks
from shared.operations.srl.signed import signed_by
from shared.ports import Ports
from shared.ports.store import At, Check, Delete, Expect, Put

# More warrants than this, of a revoked key or found by a rebuild, are published by a list.
INLINE_MAX: Final = 20_000

# How long entries are kept that the base covers: a client that was away needs no base.
KEPT: Final = timedelta(days=14)
_PRUNED_AT_ONCE: Final = 1_000

# How often marks are read again that could not be removed, because a write is in flight.
_TRIES: Final = 3


class Published(NamedTuple):
    """The head after a publication of the feed, and how many entries were written."""

    head: FeedHead
    entries: int = 0


class _Found(NamedTuple):
    """The revoked warrants of some, with their ends; None if an end is not known.

    `own` have a revocation of their own, not only of the key that signed them.
    """

    ends: Mapping[str, datetime | None]
    own: frozenset[str]


class _End(NamedTuple):
    """The parts of a head that change: where the feed ends, and its base."""

    sequence: int
    chain: bytes
    base: Base


@dataclass(frozen=True, slots=True)
class _Facts:
    """What an entry relies on. The write of the entry expects `head`."""

    settings: TenantSettings
    head: FeedHead
    list_signer: ListSigner
    listed: Head

    @property
    def is_left_behind(self) -> bool:
        """Whether a release without a feed published the list in force, and no break says so."""
        return self.listed.sequence is None and not self.head.is_broken


def head(ports: Ports, tenant_id: str) -> FeedHead | None:
    """Read the head of the feed; None if no list of this release was published yet.

    Raises `Corrupt`, `Unavailable`.
    """
    item = ports.store.get(model.head_address(tenant_id))
    return None if item is None else FeedHead.from_item(item)


def publish(ports: Ports, tenant_id: str, *, also: Collection[str] = ()) -> Published | None:
    """Publish entries for all warrants with a mark, and for those in `also` (FEED-4).

    Returns None if the tenant has no feed yet: its next list begins it. Raises `Corrupt`,
    `Unavailable`; what was not published keeps its mark.
    """
    entries, tries = 0, 0
    while True:
        marked, of_signers = ports.gather(
            lambda: marks.of_warrants(ports, tenant_id, limit=model.ENTRY_MAX),
            lambda: marks.of_revoked_signers(ports, tenant_id),
        )
        # After the marks: this head then covers what another process states and unmarks meanwhile.
        newest = head(ports, tenant_id)
        if newest is None:
            return None
        extra = {*also, *_signed_ids(ports, tenant_id, of_signers.values())}
        heads, own = _stated(ports, tenant_id, marked, extra)
        newest, entries, also = [newest, *heads][-1], entries + len(heads), ()
        left = marks.clear(ports, tenant_id, marked, revoked=own)
        marks.clear_signers(ports, of_signers)
        tries += left > 0
        if tries == _TRIES or not (left or len(marked) >= model.ENTRY_MAX):
            return Published(newest, entries)
        if left:
            # They were set again, or their change is visible only in part.
            operation.PACING.sleep(operation.PACING.in_flight)


def break_off(ports: Ports, tenant_id: str, *, above: int | None = None) -> FeedHead:
    """Publish a break: clients continue with the next list, which is made from all records.

    `above` is given after a restore: the highest sequence that is known to be published. The new
    one then exceeds it by far. Raises `Corrupt` if the tenant has no feed; `Unavailable`.
    """

    def attempt() -> FeedHead:
        facts = _facts(ports, tenant_id)
        sequence = facts.head.sequence + 1
        if above is not None:
            sequence = max(facts.head.sequence, above) + model.LEAP
        return _append(ports, facts, Entry(sequence), {})

    return settle(attempt)


def entries(ports: Ports, tenant_id: str, *, after: int, until: int) -> Iterator[StoredEntry]:
    """Read all entries after one sequence, up to and including another one, in order.

    Raises `Corrupt` if one is missing; `Unavailable`.
    """
    start, end = model.entry_sk(after), model.entry_sk(until + 1)
    wanted = after
    for row in ports.store.query(model.feed(tenant_id), after=start, before=end):
        wanted += 1
        if row.sk != model.entry_sk(wanted):
            break
        yield StoredEntry.from_item(row.item)
    if wanted != until:
        raise Corrupt(f"entry {wanted} of the feed is missing")


def last_entry(ports: Ports, tenant_id: str) -> int | None:
    """Return the sequence of the last entry that is stored, if any. Raises `Unavailable`."""
    entries = model.feed(tenant_id)
    rows = ports.store.query(entries, before=model.HEAD, newest_first=True, limit=1)
    return next((int(row.sk) for row in rows), None)


def based(
    ports: Ports, before: FeedHead | None, base: Base, settings: TenantSettings, signer: ListSigner
) -> Put:
    """Return the change that gives the feed this base, signed by `signer`.

    `before` is the head of the feed as it was read; None if the feed begins with this base.
    """
    end = _End(base.sequence, base.chain, base)
    if before is not None:
        end = _End(before.sequence, before.signed.chain, base)
    head = _signed(ports, settings, signer, end, before)
    expected = At(before.version) if before else Expect.ABSENT
    return Put(model.head_address(settings.tenant_id), head.to_item(), expected)


def prune(ports: Ports, tenant_id: str, *, until: int) -> None:
    """Remove entries up to `until`, which the base covers, that are older than `KEPT`.

    Raises `Unavailable`.
    """
    limit, partition = ports.now() - KEPT, model.feed(tenant_id)
    rows = ports.store.query(partition, before=model.entry_sk(until + 1), limit=_PRUNED_AT_ONCE)
    old = takewhile(lambda row: StoredEntry.from_item(row.item).issued_at < limit, rows)
    steps.apply(
        ports,
        [[Delete(partition.address(row.sk), Expect.ANYTHING)] for row in old],
        most=1,
    )


def _stated(
    ports: Ports, tenant_id: str, marked: Iterable[Address], extra: Collection[str]
) -> tuple[list[FeedHead], set[str]]:
    """Write entries for these warrants; return the heads, and the warrants revoked by themselves.

    If there are too many in `extra`, a break is written for them.
    """
    heads, own = list[FeedHead](), set[str]()
    if len(extra) > INLINE_MAX:
        heads, extra = [break_off(ports, tenant_id)], ()
    ids = iter(dict.fromkeys([*(address.sk for address in marked), *extra]))
    while part := list(islice(ids, model.ENTRY_MAX)):
        written, found = settle(partial(_state, ports, tenant_id, part))
        heads.append(written)
        own |= found.own
    return heads, own


def _signed_ids(ports: Ports, tenant_id: str, of_signers: Iterable[SignersMark]) -> list[str]:
    """Return what newly revoked signers signed; more than `INLINE_MAX` if that is too much."""
    revoked = [signer for mark in of_signers for signer in mark.signers]
    if not revoked:
        return []
    since = ports.now() - tenants.settings(ports, tenant_id).srl_ttl
    found = signed_by(ports, tenant_id, revoked, since=since)
    return [warrant_id for warrant_id, _ in islice(found, INLINE_MAX + 1)]


def _state(ports: Ports, tenant_id: str, ids: Collection[str]) -> tuple[FeedHead, _Found]:
    """Write the entry that says of each of these warrants whether it is revoked, or a break."""
    # The head first: if the records change after they were read, another entry may follow this
    # one, but none may come before it.
    facts = _facts(ports, tenant_id)
    found = _found(ports, tenant_id, ids)
    if facts.is_left_behind:
        return _append(ports, facts, Entry(facts.head.sequence + 1), {}), found
    ttl, now = facts.settings.srl_ttl, ports.now()
    ends = {each: at for each, at in found.ends.items() if not left_behind(at, now, ttl=ttl)}
    removed = tuple(sorted(each for each in ids if each not in ends))
    entry = Entry(facts.head.sequence + 1, tuple(sorted(ends)), removed)
    return _append(ports, facts, entry, ends), found


def _found(ports: Ports, tenant_id: str, ids: Collection[str]) -> _Found:
    found = verdicts(ports, tenant_id, ids)
    ends = {each: verdict.ends_at for each, verdict in found.items() if verdict.revoked}
    # A warrant that its shard has is revoked, even if its own record is damaged or not yet visible.
    shards = {
        revocations.shard_of(tenant_id, each).address(each): each
        for each in ids
        if each not in ends
    }
    for address, item in ports.store.get_many(shards).items():
        ends[shards[address]] = RevokedWarrant.from_item(item).ends_at
    return _Found(ends, frozenset(each for each in ends if not found[each].by_key))


def _facts(ports: Ports, tenant_id: str) -> _Facts:
    settings, (listed, signer), newest = ports.gather(
        lambda: tenants.settings(ports, tenant_id),
        lambda: in_force.head_and_signer(ports, tenant_id),
        lambda: head(ports, tenant_id),
    )
    if newest is None:
        raise Corrupt("the feed of a tenant has no head")
    return _Facts(settings, newest, signer, listed)


def _append(
    ports: Ports, facts: _Facts, entry: Entry, ends: Mapping[str, datetime | None]
) -> FeedHead:
    """Write an entry and the head that ends with it."""
    before, signer, now = facts.head, facts.list_signer, ports.now()
    stored = StoredEntry.of(entry, [ends[each] for each in entry.revoked], now)
    chain = wire.next_chain(before.signed.chain, stored.entry)
    end = _End(entry.sequence, chain, before.base)
    newest = replace(
        _signed(ports, facts.settings, signer, end, before),
        published_ms=int(now.timestamp() * 1000),
        broke_at=entry.sequence if entry.is_break else before.broke_at,
        unlisted_bytes=before.unlisted_bytes + len(stored.entry),
    )
    tenant_id = facts.settings.tenant_id
    ports.store.write(
        Put(model.head_address(tenant_id), newest.to_item(), At(before.version)),
        Put(model.entry_address(tenant_id, entry.sequence), stored.to_item(), Expect.ABSENT),
        Check(signer.address, At(signer.version)),
    )
    return newest


def _signed(
    ports: Ports, settings: TenantSettings, signer: ListSigner, end: _End, before: FeedHead | None
) -> FeedHead:
    """Return the head that follows `before`, signed by `signer`."""
    issued_at = now = times.whole(ports.now())
    if before is not None and not times.is_ahead(before.signed.issued_at, now):
        issued_at = max(now, before.signed.issued_at)
    told = wire.Head(
        settings.tenant_id,
        end.sequence,
        end.chain,
        issued_at,
        issued_at + settings.srl_ttl,
        end.base,
    )
    payload, seed = told.encode(), seals.opened(ports, signer)
    signature = seeds.signature(wire.signed_part(payload), seed=seed)
    if before is None:
        return FeedHead(payload, signature, signer.id)
    return replace(
        before,
        payload=payload,
        signature=signature,
        key_id=signer.id,
        version=before.version + 1,
        unlisted_bytes=0 if end.base.sequence == end.sequence else before.unlisted_bytes,
    )
