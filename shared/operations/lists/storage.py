"""The writes of a publication: feed entries, feed heads, SRL blobs and SRL states.

Each write of a head has the head that was read as its precondition. An SRL and its state are stored
before a head points to them. Their names contain their hashes (docs/adr/09, 0024).
"""

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from typing import Final, NamedTuple

from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import Base
from shared.capabilities import SeedReader
from shared.errors import (
    BlobExists,
    DataCorrupt,
    InvalidSrl,
    OutOfSpace,
    PreconditionFailed,
    Unavailable,
)
from shared.model import feed, seeds, times
from shared.model.feed import FeedHead, StoredEntry
from shared.model.lists import content
from shared.model.lists.content import Payload, SrlState
from shared.model.lists.head import (
    PACKED_FROM,
    STATE_SUFFIX,
    SrlHead,
    bases_folder,
    blob_name,
    folders,
    lists_folder,
    packed_folder,
    sha256_of,
    states_folder,
    version_prefix,
)
from shared.model.lists.signers import SrlSigner
from shared.model.lists.verification import verify_own
from shared.model.tenants import TenantSettings
from shared.operations.base import operation, seals
from shared.operations.lists import in_force
from shared.operations.lists.decisions import PendingEntry, PublicationFacts, SequenceJump
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Expect, Put, VersionIs

_log = logging.getLogger(__name__)

# How many unexpired SRLs are kept, and how many in any case, when the next SRL is built
# (docs/adr/10). Both include the current SRL. A client with the address of an older SRL fetches it
# within minutes. A restore needs the newest SRL.
_KEPT_VALID: Final = 20
_KEPT_ALWAYS: Final = 2

# How long entries that the base covers are kept. A client that returns in this time needs no base.
KEPT: Final = timedelta(days=14)
_PRUNED_AT_ONCE: Final = 1_000

# How many entries may be written again after a discontinuity. Each has an item of up to 400 kB, and
# a DynamoDB transaction is limited to 4 MB.
_RESTATED_MAX: Final = 8


class Coverage(NamedTuple):
    """The time that an entry covers: changes since `since`, and all acknowledged before `until`.

    `until` is None if some of these changes are not in the entry. `changes` are the revoked keys
    that are complete with this entry and the entries before it.
    """

    since: datetime
    until: datetime | None = None
    changes: tuple[str, ...] = ()


class JumpWrites(NamedTuple):
    """The writes for a discontinuity and the entries after it, and the new end of the feed."""

    entries: tuple[Put, ...]
    sequence: int
    chain: bytes


class SeedCache:
    """Caches unwrapped seeds during one publication."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self._seeds: dict[tuple[str, int], bytes] = {}

    def unwrap(self, signer: SrlSigner) -> bytes:
        """Return the seed of an active signer. Raises `SeedUnavailable`, `Unavailable`."""
        key = signer.id, signer.version
        if key not in self._seeds:
            self._seeds[key] = seals.unwrap_seed(self.ports, signer)
        return self._seeds[key]


def append_entry(
    ports: Ports,
    seed_cache: SeedCache,
    facts: PublicationFacts,
    pending_entry: PendingEntry,
    coverage: Coverage | None = None,
) -> PublicationFacts:
    """Write an entry and the feed head that ends with it; return the facts after it.

    Without `coverage`, the entry contains no change from before now. Raises `PreconditionFailed` if
    another entry or a rotation of the SRL signer came first, `DataCorrupt` if there is no feed,
    `SeedUnavailable`, `Unavailable`.
    """
    before, signer, now = facts.feed_head, facts.signer, ports.now()
    if before is None:
        raise DataCorrupt("the feed of a tenant has no feed head")
    entry, expiries = pending_entry
    since, until, changes = coverage or Coverage(now)
    chain = before.signed_head.chain
    stored = StoredEntry.of(entry, expiries, now, follows=chain, changes=changes)
    end = replace(before.signed_head, sequence=entry.sequence, chain=stored.chain)
    unlisted = min(since, before.unlisted_since(facts.srl_head.issued_at) or since)
    newest = replace(
        _sign_feed_head(seed_cache, facts.settings, signer, end, before),
        published_ms=feed.milliseconds(now),
        broke_at=entry.sequence if entry.is_break else before.broke_at,
        unlisted_bytes=before.unlisted_bytes + len(stored.entry),
        unlisted_ms=feed.milliseconds(unlisted),
        covered_ms=feed.milliseconds(until) or before.covered_ms,
    )
    ports.store.write(
        Put(feed.head_address(facts.tenant_id), newest.to_item(), VersionIs(before.version)),
        Put(feed.entry_address(facts.tenant_id, entry.sequence), stored.to_item(), Expect.ABSENT),
        Check(signer.address, VersionIs(signer.version)),
    )
    return replace(facts, feed_head=newest, written=(*facts.written, pending_entry))


def base_change(
    seed_cache: SeedCache,
    previous: FeedHead | None,
    base: Base,
    settings: TenantSettings,
    signer: SrlSigner,
    jump: JumpWrites | None = None,
) -> Put:
    """Return the write that sets the base of the feed, signed by `signer`.

    `previous` is the feed head that was read, or None if the feed begins with this base. `jump` is
    the new end of the feed if the same write adds a discontinuity.
    """
    if previous is None:
        now, tenant_id = seed_cache.ports.now(), settings.tenant_id
        end = wire.SignedHead(tenant_id, base.sequence, base.chain, now, now, base)
    else:
        end = replace(previous.signed_head, base=base)
    if jump is not None:
        end = replace(end, sequence=jump.sequence, chain=jump.chain)
    head = _sign_feed_head(seed_cache, settings, signer, end, previous)
    if jump is not None:
        head = replace(head, broke_at=base.sequence)
    expected = VersionIs(previous.version) if previous else Expect.ABSENT
    return Put(feed.head_address(settings.tenant_id), head.to_item(), expected)


def reference_changes(
    seed_cache: SeedReader,
    previous: FeedHead,
    settings: TenantSettings,
    signer: SrlSigner,
    end: wire.SignedHead,
) -> list[Change]:
    """Return the writes that name other documents in the feed head, without a new entry.

    `end` has the references to these documents (TRUST-9), and otherwise equals `previous`. Raises
    `SeedUnavailable`, `Unavailable`.
    """
    head = _sign_feed_head(seed_cache, settings, signer, end, previous)
    return [
        Put(feed.head_address(settings.tenant_id), head.to_item(), VersionIs(previous.version)),
        Check(signer.address, VersionIs(signer.version)),
    ]


def jump_writes(
    ports: Ports, tenant_id: str, newest: FeedHead | None, jump: SequenceJump
) -> JumpWrites:
    """Return the writes for a discontinuity and for the entries that its SRL lacks.

    These entries were published while the SRL was built. Raises `PreconditionFailed` if there are
    too many, or if the feed has another discontinuity since: the SRL must then be built again.
    Raises `DataCorrupt`, `Unavailable`.
    """
    lost = PreconditionFailed([feed.head_address(tenant_id)])
    until = newest.sequence if newest else jump.past
    if not 0 <= until - jump.past <= _RESTATED_MAX:
        raise lost
    sequence, last = jump.sequence, jump.entry
    puts = [Put(feed.entry_address(tenant_id, sequence), last.to_item(), Expect.ABSENT)]
    for stored in in_force.read_entries(ports, tenant_id, after=jump.past, until=until):
        entry, expiries = stored.decode()
        if entry.is_break:
            raise lost
        sequence += 1
        entry = replace(entry, sequence=sequence)
        last = StoredEntry.of(entry, expiries, stored.issued_at, follows=last.chain)
        puts.append(Put(feed.entry_address(tenant_id, sequence), last.to_item(), Expect.ABSENT))
    return JumpWrites(tuple(puts), sequence, last.chain)


def prune(ports: Ports, tenant_id: str, *, until: int) -> None:
    """Remove entries up to `until`, which the base covers, that are older than `KEPT`.

    Raises `Unavailable`.
    """
    limit, partition = ports.now() - KEPT, feed.feed_partition(tenant_id)
    rows = ports.store.query(partition, before=feed.entry_sk(until + 1), limit=_PRUNED_AT_ONCE)
    old = takewhile(lambda row: StoredEntry.from_item(row.item).issued_at < limit, rows)
    operation.apply_steps(
        ports,
        [[Delete(partition.address(row.sk), Expect.ANYTHING)] for row in old],
        most=1,
    )


def store_blob(
    ports: Ports, folder: str, version: int, data: bytes, *, suffix: str = "json"
) -> str:
    """Store a blob and return its name. Raises `OutOfSpace`, `Unavailable`."""
    sha256 = hashlib.sha256(data).hexdigest()
    name = blob_name(folder, version=version, sha256=sha256, suffix=suffix)
    # A blob with this name has the same bytes, from an earlier run that was interrupted.
    with suppress(BlobExists):
        ports.blobs.put(name, data)
    return name


def cleanup_tasks(ports: Ports, tenant_id: str, head: SrlHead) -> list[Callable[[], None]]:
    """Return cleanup tasks for SRLs older than `head`, the current one.

    Blobs of later versions stay, because another process may be about to publish them. A task logs
    a warning if the blob store is unavailable.
    """
    lifetime = (head.expires_at - head.issued_at).total_seconds()
    expired, surplus = (
        version_prefix(max(1, head.version - kept + 1)) for kept in (_KEPT_ALWAYS, _KEPT_VALID)
    )

    def discard(folder: str) -> None:
        try:
            ports.blobs.discard(
                folder, before=expired, older_than_seconds=lifetime, any_age_before=surplus
            )
        except Unavailable:
            _log.warning("cannot remove old blobs in %s", folder, exc_info=True)

    return [partial(discard, folder) for folder in folders(tenant_id)]


def store_srl(
    ports: Ports,
    seed_cache: SeedCache,
    signer: SrlSigner,
    payload: Payload,
    state: SrlState,
    previous: SrlHead | None = None,
) -> SrlHead:
    """Sign an SRL and its state, verify the SRL as a client would, and store both.

    Returns the head that publishes it, without `changes` and `sequence`. `previous` is the head of
    the current SRL. A large SRL is also stored in gzip if a client requested that. If the disk is
    full, all older SRLs are removed first. Raises `DataCorrupt` if the SRL is not valid,
    `OutOfSpace`, `Unavailable`.
    """
    tenant_id, version = signer.tenant_id, payload.version
    is_packed = previous is not None and previous.is_gzip_wanted(ports.now())
    seed = seed_cache.unwrap(signer)
    body = content.sign(payload, seed=seed)
    try:
        verify_own(body, payload, public_key=signer.public_bytes, now=ports.now())
    except InvalidSrl as error:
        raise DataCorrupt(f"refusing to publish an SRL that is not valid: {error}") from error
    packed = content.pack(body) if is_packed and len(body) >= PACKED_FROM else None
    packed_base, signed_state = content.pack(payload.cbor), state.sign(seed=seed)

    def store_blobs() -> SrlHead:
        # The state is stored before its SRL, so a restore that finds the SRL also finds the state.
        states, bases = states_folder(tenant_id), bases_folder(tenant_id)
        state_blob, base_blob = ports.gather(
            lambda: store_blob(ports, states, version, signed_state, suffix=STATE_SUFFIX),
            lambda: store_blob(ports, bases, version, packed_base, suffix="cbor.gz"),
        )
        blob = store_blob(ports, lists_folder(tenant_id), version, body)
        head = SrlHead(
            version=version,
            issued_at=payload.issued_at,
            expires_at=payload.expires_at,
            count=len(payload.revoked_ids),
            changes=0,
            blob=blob,
            sha256=sha256_of(blob),
            size=len(body),
            key_id=signer.id,
            state=state_blob,
            base=base_blob,
            base_size=len(packed_base),
            payload_sha256=hashlib.sha256(payload.cbor).hexdigest(),
            packs_until=previous.packs_until if previous and is_packed else None,
        )
        if packed is None:
            return head
        packed_blob = store_blob(ports, packed_folder(tenant_id), version, packed, suffix="json.gz")
        return replace(head, packed=packed_blob, packed_size=len(packed))

    try:
        return store_blobs()
    except OutOfSpace:
        if previous is None:
            raise
    _log.warning("the disk is full; removing old SRLs of tenant %s", tenant_id)
    for folder in folders(tenant_id):
        ports.blobs.discard(folder, before=version_prefix(previous.version))
    return store_blobs()


def _sign_feed_head(
    seed_cache: SeedReader,
    settings: TenantSettings,
    signer: SrlSigner,
    end: wire.SignedHead,
    previous: FeedHead | None,
) -> FeedHead:
    """Return the feed head that follows `previous` with `end`, issued now, signed by `signer`."""
    issued_at = now = times.truncate_to_second(seed_cache.ports.now())
    # A client with a clock ahead may have a head that other clients reject. It accepts a head with
    # an earlier issue time only together with a new entry.
    if previous is not None and (end.sequence == previous.sequence or not previous.is_ahead(now)):
        issued_at = max(now, previous.signed_head.issued_at)
    end = replace(
        end,
        tenant_id=settings.tenant_id,
        issued_at=issued_at,
        expires_at=issued_at + settings.srl_ttl,
    )
    payload, seed = end.encode(), seed_cache.unwrap(signer)
    signature = seeds.signature(wire.signed_part(payload), seed=seed)
    if previous is None:
        return FeedHead(payload, signature, signer.id)
    return replace(
        previous,
        payload=payload,
        signature=signature,
        key_id=signer.id,
        version=previous.version + 1,
        unlisted_bytes=0 if end.base.sequence == end.sequence else previous.unlisted_bytes,
    )
