"""The feed as it is stored: its head, and its entries (docs/adr/0046).

Each write of the head expects the one that was read. The active list signer signs it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final, NamedTuple

from shared.authorizer import wire
from shared.authorizer.wire import Base, Entry
from shared.errors import Corrupt, ExpectationLost
from shared.model import feed as model
from shared.model import seeds, times
from shared.model.feed import FeedHead, Leap, StoredEntry
from shared.model.srl.head import Head
from shared.model.srl.signers import ListSigner
from shared.model.tenants import TenantSettings
from shared.operations.rules import seals, steps, tenants
from shared.operations.srl import in_force
from shared.ports import Ports
from shared.ports.store import At, Check, Delete, Expect, Put

# How long entries are kept that the base covers: a client that was away needs no base.
KEPT: Final = timedelta(days=14)
_PRUNED_AT_ONCE: Final = 1_000

# How many entries may be written again after a break. Each has an item of up to 400 kB, and a write
# of DynamoDB 4 MB.
_RESTATED_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class Facts:
    """What an entry relies on. The write of the entry expects `head`."""

    settings: TenantSettings
    head: FeedHead
    list_signer: ListSigner
    listed: Head

    @property
    def is_left_behind(self) -> bool:
        """Whether no list can follow from the list in force by the feed, and no break says so."""
        return self.listed.sequence is None and not self.head.is_broken


class _End(NamedTuple):
    """The parts of a head that change: where the feed ends, and its base."""

    sequence: int
    chain: bytes
    base: Base


class Covered(NamedTuple):
    """What an entry covers: changes made since `since`, and all acknowledged before `until`.

    `until` is None if not all of those are in it.
    """

    since: datetime
    until: datetime | None = None


class Leapt(NamedTuple):
    """The changes that write a break and what follows it, and where the feed ends then."""

    entries: tuple[Put, ...]
    sequence: int
    chain: bytes


def head(ports: Ports, tenant_id: str) -> FeedHead | None:
    """Read the head of the feed; None if no list of this release was published yet.

    Raises `Corrupt`, `Unavailable`.
    """
    item = ports.store.get(model.head_address(tenant_id))
    return None if item is None else FeedHead.from_item(item)


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


def facts(ports: Ports, tenant_id: str) -> Facts:
    """Read what the next entry relies on. Raises `Corrupt` if there is no feed; `Unavailable`."""
    settings, (listed, signer), newest = ports.gather(
        lambda: tenants.settings(ports, tenant_id),
        lambda: in_force.head_and_signer(ports, tenant_id),
        lambda: head(ports, tenant_id),
    )
    if newest is None:
        raise Corrupt("the feed of a tenant has no head")
    return Facts(settings, newest, signer, listed)


def append(
    ports: Ports,
    facts: Facts,
    entry: Entry,
    ends: Mapping[str, datetime | None],
    covered: Covered | None = None,
) -> FeedHead:
    """Write an entry and the head that ends with it; return the head.

    `ends` has the ends of the warrants that the entry revokes. Without `covered`, it states nothing
    that was changed before now. Raises `ExpectationLost` if another
    entry, or a rotation of the list signer, came first; `SeedLost`, `Unavailable`.
    """
    before, signer, now = facts.head, facts.list_signer, ports.now()
    chain = before.signed.chain
    stored = StoredEntry.of(entry, [ends[each] for each in entry.revoked], now, follows=chain)
    end = _End(entry.sequence, stored.chain, before.base)
    since, until = covered or Covered(now)
    unlisted = min(since, before.unlisted_since(facts.listed.issued_at) or since)
    newest = replace(
        _signed(ports, facts.settings, signer, end, before),
        published_ms=model.milliseconds(now),
        broke_at=entry.sequence if entry.is_break else before.broke_at,
        unlisted_bytes=before.unlisted_bytes + len(stored.entry),
        unlisted_ms=model.milliseconds(unlisted),
        covered_ms=model.milliseconds(until) or before.covered_ms,
    )
    tenant_id = facts.settings.tenant_id
    ports.store.write(
        Put(model.head_address(tenant_id), newest.to_item(), At(before.version)),
        Put(model.entry_address(tenant_id, entry.sequence), stored.to_item(), Expect.ABSENT),
        Check(signer.address, At(signer.version)),
    )
    return newest


def based(
    ports: Ports,
    before: FeedHead | None,
    base: Base,
    settings: TenantSettings,
    signer: ListSigner,
    leapt: Leapt | None = None,
) -> Put:
    """Return the change that gives the feed this base, signed by `signer`.

    `before` is the head of the feed as it was read; None if the feed begins with this base. `leapt`
    is where the feed ends, if it breaks in the same write.
    """
    end = _End(base.sequence, base.chain, base)
    if leapt is not None:
        end = _End(leapt.sequence, leapt.chain, base)
    elif before is not None:
        end = _End(before.sequence, before.signed.chain, base)
    head = _signed(ports, settings, signer, end, before)
    if leapt is not None:
        head = replace(head, broke_at=base.sequence)
    expected = At(before.version) if before else Expect.ABSENT
    return Put(model.head_address(settings.tenant_id), head.to_item(), expected)


def leapt(ports: Ports, tenant_id: str, newest: FeedHead | None, leap: Leap) -> Leapt:
    """Return the changes that write a break, and after it the entries that its list lacks.

    These are entries that were published while the list was made. Raises `ExpectationLost` if they
    are too many, or if the feed broke meanwhile: then make the list anew. Raises `Corrupt`,
    `Unavailable`.
    """
    lost = ExpectationLost([model.head_address(tenant_id)])
    until = newest.sequence if newest else leap.past
    if not 0 <= until - leap.past <= _RESTATED_MAX:
        raise lost
    written = [(leap.sequence, leap.entry)]
    for each in entries(ports, tenant_id, after=leap.past, until=until):
        (entry, ends), (before, last) = each.opened(), written[-1]
        if entry.is_break:
            raise lost
        again = replace(entry, sequence=before + 1)
        written.append(
            (before + 1, StoredEntry.of(again, ends, each.issued_at, follows=last.chain))
        )
    sequence, last = written[-1]
    puts = tuple(
        Put(model.entry_address(tenant_id, number), each.to_item(), Expect.ABSENT)
        for number, each in written
    )
    return Leapt(puts, sequence, last.chain)


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


def _signed(
    ports: Ports, settings: TenantSettings, signer: ListSigner, end: _End, before: FeedHead | None
) -> FeedHead:
    """Return the head that follows `before`, signed by `signer`."""
    issued_at = now = times.whole(ports.now())
    # Clients refuse a head from further ahead: then a clock was wrong, and is right again.
    if before is not None and before.signed.issued_at <= now + wire.FUTURE_MAX:
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
