"""The writes of a publication: entries and heads of the feed, blobs of lists and their states.

Each write of a head expects the one that was read. A list and its state are stored, under names
that contain their hashes, before a head points to them (docs/adr/09, 0024).
"""

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import Any, Final, NamedTuple

from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import Base, Reference
from shared.errors import BlobExists, Corrupt, ExpectationLost, InvalidSrl, OutOfSpace, Unavailable
from shared.model import feed, seeds, times
from shared.model.feed import FeedHead, StoredEntry
from shared.model.lists import content
from shared.model.lists.content import ListState, Payload
from shared.model.lists.head import (
    PACKED_FROM,
    STATE_SUFFIX,
    ListHead,
    bases_folder,
    blob_name,
    folders,
    lists_folder,
    packed_folder,
    sha256_of,
    states_folder,
    version_prefix,
)
from shared.model.lists.signers import ListSigner
from shared.model.lists.verification import verify_own
from shared.model.tenants import TenantSettings
from shared.operations.base import operation, seals
from shared.operations.lists import in_force
from shared.operations.lists.decisions import Facts, Leap, Told
from shared.ports import Ports
from shared.ports.store import At, Change, Check, Delete, Expect, Put

_log = logging.getLogger(__name__)

# How many lists, including the one in force, are kept when the next one is made (docs/adr/10): of
# those that have not expired, and in any case. A client that has received the address of an older
# list fetches it within minutes; a restore needs the newest list.
_KEPT_VALID: Final = 20
_KEPT_ALWAYS: Final = 2

# How long entries are kept that the base covers: a client that was away needs no base.
KEPT: Final = timedelta(days=14)
_PRUNED_AT_ONCE: Final = 1_000

# How many entries may be written again after a break. Each has an item of up to 400 kB, and a write
# of DynamoDB 4 MB.
_RESTATED_MAX: Final = 8


class _End(NamedTuple):
    """The parts of the feed's head that change: where the feed ends, and its base."""

    sequence: int
    chain: bytes
    base: Base


class Covered(NamedTuple):
    """The time that an entry covers: changes since `since`, and all acknowledged before `until`.

    `until` is None if not all of those are in it. `changes` are the revoked keys that it and the
    entries before it state wholly.
    """

    since: datetime
    until: datetime | None = None
    changes: tuple[str, ...] = ()


class Named(NamedTuple):
    """The trust document and the signing keys that a head of the feed names (TRUST-9).

    None if there are none.
    """

    trust: Reference | None = None
    keys: Reference | None = None


class Leapt(NamedTuple):
    """The changes that write a break and what follows it, and where the feed ends then."""

    entries: tuple[Put, ...]
    sequence: int
    chain: bytes


class Pen:
    """Opens the seed of each signer once. It lives no longer than one publication."""

    def __init__(self, ports: Ports) -> None:
        self._ports, self.now = ports, ports.now
        self._seeds: dict[tuple[str, int], bytes] = {}

    def seed(self, signer: ListSigner) -> bytes:
        """Return the seed of an active signer. Raises `SeedLost`, `Unavailable`."""
        key = signer.id, signer.version
        if key not in self._seeds:
            self._seeds[key] = seals.opened(self._ports, signer)
        return self._seeds[key]


class SignedList(NamedTuple):
    """A signed list with its signed state.

    `packed` is `body` in gzip, None if nobody asks for it; `base` is the payload in gzip.
    """

    list_signer: ListSigner
    payload: Payload
    body: bytes
    packed: bytes | None
    base: bytes
    state: bytes


def append(
    ports: Ports, pen: Pen, facts: Facts, told: Told, covered: Covered | None = None
) -> Facts:
    """Write an entry and the head that ends with it; return the facts after it.

    Without `covered`, it states no change from before now. Raises `ExpectationLost` if another
    entry, or a rotation of the list signer, came first; `Corrupt` if there is no feed; `SeedLost`,
    `Unavailable`.
    """
    before, signer, now = facts.newest, facts.signer, ports.now()
    if before is None:
        raise Corrupt("the feed of a tenant has no head")
    entry = told.entry
    since, until, changes = covered or Covered(now)
    chain = before.signed.chain
    stored = StoredEntry.of(entry, told.ends, now, follows=chain, changes=changes)
    end = _End(entry.sequence, stored.chain, before.base)
    unlisted = min(since, before.unlisted_since(facts.listed.issued_at) or since)
    newest = replace(
        _head(pen, facts.settings, signer, end, before),
        published_ms=feed.milliseconds(now),
        broke_at=entry.sequence if entry.is_break else before.broke_at,
        unlisted_bytes=before.unlisted_bytes + len(stored.entry),
        unlisted_ms=feed.milliseconds(unlisted),
        covered_ms=feed.milliseconds(until) or before.covered_ms,
    )
    ports.store.write(
        Put(feed.head_address(facts.tenant_id), newest.to_item(), At(before.version)),
        Put(feed.entry_address(facts.tenant_id, entry.sequence), stored.to_item(), Expect.ABSENT),
        Check(signer.address, At(signer.version)),
    )
    return replace(facts, newest=newest, own=(*facts.own, told))


def based(
    pen: Pen,
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
    head = _head(pen, settings, signer, end, before)
    if leapt is not None:
        head = replace(head, broke_at=base.sequence)
    expected = At(before.version) if before else Expect.ABSENT
    return Put(feed.head_address(settings.tenant_id), head.to_item(), expected)


def naming(
    pen: Pen,
    before: FeedHead,
    settings: TenantSettings,
    signer: ListSigner,
    named: Named,
) -> list[Change]:
    """Return the changes that let the feed end where it does, with a head that names this.

    Raises `SeedLost`, `Unavailable`.
    """
    end = _End(before.sequence, before.signed.chain, before.base)
    head = _head(pen, settings, signer, end, before, named)
    return [
        Put(feed.head_address(settings.tenant_id), head.to_item(), At(before.version)),
        Check(signer.address, At(signer.version)),
    ]


def leapt(ports: Ports, tenant_id: str, newest: FeedHead | None, leap: Leap) -> Leapt:
    """Return the changes that write a break, and after it the entries that its list lacks.

    These are entries that were published while the list was made. Raises `ExpectationLost` if they
    are too many, or if the feed broke meanwhile: then make the list anew. Raises `Corrupt`,
    `Unavailable`.
    """
    lost = ExpectationLost([feed.head_address(tenant_id)])
    until = newest.sequence if newest else leap.past
    if not 0 <= until - leap.past <= _RESTATED_MAX:
        raise lost
    written = [(leap.sequence, leap.entry)]
    for each in in_force.entries(ports, tenant_id, after=leap.past, until=until):
        (entry, ends), (before, last) = each.opened(), written[-1]
        if entry.is_break:
            raise lost
        again = replace(entry, sequence=before + 1)
        written.append(
            (before + 1, StoredEntry.of(again, ends, each.issued_at, follows=last.chain))
        )
    sequence, last = written[-1]
    puts = tuple(
        Put(feed.entry_address(tenant_id, number), each.to_item(), Expect.ABSENT)
        for number, each in written
    )
    return Leapt(puts, sequence, last.chain)


def prune(ports: Ports, tenant_id: str, *, until: int) -> None:
    """Remove entries up to `until`, which the base covers, that are older than `KEPT`.

    Raises `Unavailable`.
    """
    limit, partition = ports.now() - KEPT, feed.feed(tenant_id)
    rows = ports.store.query(partition, before=feed.entry_sk(until + 1), limit=_PRUNED_AT_ONCE)
    old = takewhile(lambda row: StoredEntry.from_item(row.item).issued_at < limit, rows)
    operation.apply_steps(
        ports,
        [[Delete(partition.address(row.sk), Expect.ANYTHING)] for row in old],
        most=1,
    )


def sign(
    pen: Pen,
    list_signer: ListSigner,
    payload: Payload,
    state: ListState,
    *,
    packs: bool = False,
) -> SignedList:
    """Sign a list and its state, and verify the list as a client would.

    If `packs` is true, a list that is not short is stored in gzip too. Raises `Corrupt` if the list
    is not valid, `Unavailable`.
    """
    seed = pen.seed(list_signer)
    body = content.sign(payload, seed=seed)
    try:
        verify_own(body, payload, public_key=list_signer.public_bytes, now=pen.now())
    except InvalidSrl as error:
        raise Corrupt(f"refusing to publish a list that is not valid: {error}") from error
    packed = content.pack(body) if packs and len(body) >= PACKED_FROM else None
    base = content.pack(payload.encoded)
    return SignedList(list_signer, payload, body, packed, base, state.sign(seed=seed))


def put(ports: Ports, folder: str, version: int, data: bytes, *, suffix: str = "json") -> str:
    """Store a blob and return its name. Raises `OutOfSpace`, `Unavailable`."""
    sha256 = hashlib.sha256(data).hexdigest()
    name = blob_name(folder, version=version, sha256=sha256, suffix=suffix)
    # A blob of this name has the same bytes: an earlier run stored it and then stopped.
    with suppress(BlobExists):
        ports.blobs.put(name, data)
    return name


def discards(ports: Ports, tenant_id: str, head: ListHead) -> list[Callable[[], None]]:
    """Return what removes lists before `head`, which is in force, that need not be kept.

    Blobs of later versions stay: another process may be about to publish them. A warning is logged
    if the blob store is unavailable.
    """
    lifetime = (head.expires_at - head.issued_at).total_seconds()
    expired, surplus = (
        version_prefix(max(1, head.version - kept + 1)) for kept in (_KEPT_ALWAYS, _KEPT_VALID)
    )
    return [
        partial(
            _discard,
            ports,
            folder,
            before=expired,
            older_than_seconds=lifetime,
            any_age_before=surplus,
        )
        for folder in folders(tenant_id)
    ]


def store(
    ports: Ports,
    signed: SignedList,
    *,
    changes: int,
    sequence: int | None,
    before: ListHead | None = None,
) -> ListHead:
    """Store a signed list with its state, and return the head that publishes it.

    The list covers `changes` changes, and the feed up to `sequence`; None if it does not follow
    from the feed. If the disk is full, all lists before that of `before`, which is in force, are
    removed first. Raises `OutOfSpace`, `Unavailable`.
    """
    tenant_id = signed.list_signer.tenant_id
    try:
        return _put_all(ports, signed, changes, sequence)
    except OutOfSpace:
        if before is None:
            raise
    _log.warning("the disk is full; the old lists of tenant %s are removed", tenant_id)
    for folder in folders(tenant_id):
        ports.blobs.discard(folder, before=version_prefix(before.version))
    return _put_all(ports, signed, changes, sequence)


def _put_all(ports: Ports, signed: SignedList, changes: int, sequence: int | None) -> ListHead:
    payload, tenant_id = signed.payload, signed.list_signer.tenant_id
    version, states = payload.version, states_folder(tenant_id)
    # The state is stored before its list: a restore that finds the list finds the state too.
    state, base = ports.gather(
        lambda: put(ports, states, version, signed.state, suffix=STATE_SUFFIX),
        lambda: put(ports, bases_folder(tenant_id), version, signed.base, suffix="cbor.gz"),
    )
    blob = put(ports, lists_folder(tenant_id), version, signed.body)
    head = ListHead(
        version=version,
        issued_at=payload.issued_at,
        expires_at=payload.expires_at,
        count=len(payload.revoked_ids),
        changes=changes,
        blob=blob,
        sha256=sha256_of(blob),
        size=len(signed.body),
        key_id=signed.list_signer.id,
        state=state,
        sequence=sequence,
        base=base,
        base_size=len(signed.base),
        payload_sha256=hashlib.sha256(payload.encoded).hexdigest(),
    )
    if signed.packed is None:
        return head
    packed = put(ports, packed_folder(tenant_id), version, signed.packed, suffix="json.gz")
    return replace(head, packed=packed, packed_size=len(signed.packed))


def _discard(ports: Ports, folder: str, **which: Any) -> None:
    try:
        ports.blobs.discard(folder, **which)
    except Unavailable:
        _log.warning("old blobs in %s could not be removed", folder, exc_info=True)


def _head(
    pen: Pen,
    settings: TenantSettings,
    signer: ListSigner,
    end: _End,
    before: FeedHead | None,
    named: Named | None = None,
) -> FeedHead:
    """Return the head that follows `before`, signed by `signer`.

    It names what `before` does, unless `named` says otherwise.
    """
    if named is None:
        named = Named(before.signed.trust, before.signed.keys) if before else Named()
    issued_at = now = times.whole(pen.now())
    # A client whose clock is ahead may hold a head that others refuse. It takes a head that was
    # issued before that one only with another entry.
    if before is not None and (end.sequence == before.sequence or not before.is_ahead(now)):
        issued_at = max(now, before.signed.issued_at)
    told = wire.SignedHead(
        settings.tenant_id,
        end.sequence,
        end.chain,
        issued_at,
        issued_at + settings.srl_ttl,
        end.base,
        *named,
    )
    payload, seed = told.encode(), pen.seed(signer)
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
