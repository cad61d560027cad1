"""Reads of the current SRL, its state, the feed, and the signer of the next SRL (SIGNER-2).

The signer of the current SRL also signs the next one. A new signer takes over in one write with the
head of its first SRL, so the SRL head determines the active signer. If a head and a signer are read
during that write, a write with this head as its precondition fails.

A publication reads its facts once (docs/adr/09). It needs three round trips; the reads of each
round trip are concurrent:

1. the marks on the tenant, its settings, the SRL head, the counters
2. the SRL signers, the marks on warrants and on signers
3. the feed head

The counters and the SRL head come before the marks, so a later change makes the next SRL due. The
marks come before the feed head, which then covers marks that another process published and removed.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from shared.authorizer.formats import wire
from shared.capabilities import INSTALLED
from shared.errors import DataCorrupt
from shared.model import feed
from shared.model.feed import FeedHead, StoredEntry
from shared.model.lists import content
from shared.model.lists.content import SrlState
from shared.model.lists.head import (
    SrlHead,
    head_address,
    heads_partition,
    history_address,
    sha256_of,
    version_of,
)
from shared.model.lists.schedule import OutboxMark
from shared.model.lists.signers import SrlSigner, SrlSignerStatus, signers_partition
from shared.model.lists.tombstones import Tombstones
from shared.model.tenants import TenantSettings, settings_address
from shared.operations.base import counters, tenants
from shared.operations.base.counters import ChangeTotals
from shared.operations.base.operation import reread
from shared.operations.lists import marks, records
from shared.operations.lists.decisions import (
    PendingEntry,
    PendingMarks,
    PreviousSrl,
    PublicationFacts,
)
from shared.ports import Ports
from shared.ports.store import Address, Change, Delete, Item, Put

T = TypeVar("T")

_log = logging.getLogger(__name__)


def read_srl_head(ports: Ports, tenant_id: str) -> SrlHead:
    """Read the SRL head, which names the current SRL. Raises `DataCorrupt` if there is none."""
    item = ports.store.get(head_address(tenant_id))
    if item is None:
        raise DataCorrupt("a tenant has no published SRL")
    return SrlHead.from_item(item)


def read_srl_heads(ports: Ports, tenant_id: str) -> list[SrlHead]:
    """Read the SRL heads that are kept, in no order. Raises `DataCorrupt`, `Unavailable`."""
    rows = ports.store.query(heads_partition(tenant_id), before=head_address(tenant_id).sk)
    return [SrlHead.from_item(row.item) for row in rows]


def read_head_of_version(ports: Ports, tenant_id: str, version: int) -> SrlHead | None:
    """Read the SRL head of this version, or None if it is not kept. Raises `DataCorrupt`."""
    addresses = [head_address(tenant_id), history_address(tenant_id, version)]
    heads = map(SrlHead.from_item, ports.store.get_many(addresses).values())
    return next((each for each in heads if each.version == version), None)


def read_head_of_payload(ports: Ports, tenant_id: str, sha256: str) -> SrlHead | None:
    """Read the SRL head with this payload hash, in hex, or None if it is not kept."""
    heads = read_srl_heads(ports, tenant_id)
    return next((each for each in heads if each.payload_sha256 == sha256), None)


def read_active_signer(ports: Ports, tenant_id: str) -> SrlSigner:
    """Read the signer of the next SRL. Raises `DataCorrupt` if no signer is active."""
    return read_head_and_signer(ports, tenant_id)[1]


def read_head_and_signer(ports: Ports, tenant_id: str) -> tuple[SrlHead, SrlSigner]:
    """Read the head of the current SRL and the signer of the next SRL.

    A write that relies on the signer must have this head as a precondition. Raises `DataCorrupt` if
    no signer is active even after `reread`.
    """
    return reread(lambda: _read_head_and_signer(ports, tenant_id))


def _read_head_and_signer(ports: Ports, tenant_id: str) -> tuple[SrlHead, SrlSigner]:
    current = read_srl_head(ports, tenant_id)
    active = SrlSigner.from_optional(
        ports.store.get(signers_partition(tenant_id).address(current.key_id))
    )
    if active is None or active.status is not SrlSignerStatus.ACTIVE:
        # A restore was incomplete.
        signers = SrlSigner.from_rows(
            ports.store.query(signers_partition(tenant_id), newest_first=True)
        )
        active = next((each for each in signers if each.status is SrlSignerStatus.ACTIVE), None)
    if active is None:
        raise DataCorrupt("it has no active SRL signer")
    return current, active


def read_signer_items(ports: Ports, tenant_id: str) -> dict[Address, Item]:
    """Read the items of all signers except archived ones. Raises `Unavailable`."""
    partition = signers_partition(tenant_id)
    return {partition.address(row.sk): row.item for row in ports.store.query(partition)}


def read_signers(ports: Ports, tenant_id: str) -> tuple[SrlSigner, ...]:
    """Return all signers except archived ones, without seeds (see `strip_seeds`)."""
    return strip_seeds(tenant_id, read_signer_items(ports, tenant_id))


def strip_seeds(
    tenant_id: str, items: Mapping[Address, Item], changes: Iterable[Change] = ()
) -> tuple[SrlSigner, ...]:
    """Return the signers stored as `items`, after `changes`, without their seeds.

    The signers are in order of creation. Raises `DataCorrupt`.
    """
    partition, after = signers_partition(tenant_id), dict(items)
    for each in changes:
        if isinstance(each, Put) and each.address.pk == partition.pk:
            after[each.address] = each.item
        elif isinstance(each, Delete):
            after.pop(each.address, None)
    return tuple(
        replace(SrlSigner.from_item(after[key]), sealed_seed=None) for key in sorted(after)
    )


def read_feed_head(ports: Ports, tenant_id: str) -> FeedHead | None:
    """Read the feed head, or None if it is lost.

    Raises `DataCorrupt`, `Unavailable`.
    """
    return FeedHead.from_optional(ports.store.get(feed.head_address(tenant_id)))


def read_entries(ports: Ports, tenant_id: str, *, after: int, until: int) -> Iterator[StoredEntry]:
    """Read all entries after the sequence `after`, up to and including `until`, in order.

    Raises `DataCorrupt` if an entry is missing; `Unavailable`.
    """
    if after == until:
        return
    start, end = feed.entry_sk(after), feed.entry_sk(until + 1)
    wanted = after
    for row in ports.store.query(feed.feed_partition(tenant_id), after=start, before=end):
        wanted += 1
        if row.sk != feed.entry_sk(wanted):
            break
        yield StoredEntry.from_item(row.item)
    if wanted != until:
        raise DataCorrupt(f"feed entry {wanted} is missing")


def read_last_sequence(ports: Ports, tenant_id: str) -> int | None:
    """Return the sequence of the last stored entry, or None. Raises `Unavailable`."""
    rows = ports.store.query(
        feed.feed_partition(tenant_id), before=feed.HEAD, newest_first=True, limit=1
    )
    return next((int(row.sk) for row in rows), None)


def read_srl_body(ports: Ports, of: SrlHead) -> bytes:
    """Read the SRL of a head, byte for byte. Raises `DataCorrupt`, `Unavailable`."""
    return read_blob(ports, of.form().blob)


def read_srl_state(ports: Ports, of: SrlHead, srl_signer: SrlSigner) -> SrlState:
    """Read the state of the SRL with the head `of`.

    `srl_signer` is the signer of the next SRL. Raises `DataCorrupt` if the signature or the
    content is not valid; `Unavailable`.
    """
    if of.key_id != srl_signer.id:
        item = ports.store.get(signers_partition(srl_signer.tenant_id).address(of.key_id))
        if item is None:
            raise DataCorrupt("the key that signed the current SRL has no record")
        srl_signer = SrlSigner.from_item(item)
    data = read_blob(ports, of.state)
    return decode_state(data, of.state, srl_signer.tenant_id, public_key=srl_signer.public_bytes)


def decode_state(data: bytes, blob: str, tenant_id: str, *, public_key: bytes) -> SrlState:
    """Return the state in the data of a blob, with the members of capabilities checked.

    Raises `BlobNotSigned` if the key (32 bytes) did not sign it, and `DataCorrupt`.
    """
    state = SrlState.verify_and_decode(
        data, public_key=public_key, tenant_id=tenant_id, version=version_of(blob)
    )
    INSTALLED.check_state_members(state.added)
    return state


def read_blob(ports: Ports, blob: str) -> bytes:
    """Read a blob. Raises `DataCorrupt` if it is missing or its hash is wrong; `Unavailable`."""
    data = ports.blobs.get(blob)
    if data is None or hashlib.sha256(data).hexdigest() != sha256_of(blob):
        raise DataCorrupt(f"the blob of version {version_of(blob)} is missing or altered")
    return data


class ReadBatch:
    """Concurrent reads with different result types."""

    def __init__(self) -> None:
        self._reads: list[Callable[[], None]] = []

    def add(self, read: Callable[[], T]) -> Callable[[], T]:
        """Add a read, and return a function that returns its result after `run`.

        The function raises `DataCorrupt` if the read did.
        """
        results, errors = list[T](), list[DataCorrupt]()

        def run_read() -> None:
            try:
                results.append(read())
            except DataCorrupt as error:
                errors.append(error)

        def result() -> T:
            if errors:
                raise errors[0]
            return results[0]

        self._reads.append(run_read)
        return result

    def run(self, ports: Ports) -> None:
        """Run the reads added since the last run. Raises `Unavailable`."""
        reads, self._reads = self._reads, []
        ports.gather(*reads)


def read_facts(ports: Ports, tenant_id: str, *, sees_tenant: bool = False) -> PublicationFacts:
    """Read the facts for the entries and the SRL. Raises `DataCorrupt`, `Unavailable`.

    Reads the marks on the tenant only if `sees_tenant` is true.
    """
    of_settings, of_head = settings_address(tenant_id), head_address(tenant_id)
    reads = ReadBatch()
    tenant_marks: Callable[[], dict[Address, OutboxMark]] = dict
    if sees_tenant:
        tenant_marks = reads.add(lambda: marks.read_tenant_marks(ports, tenant_id))
    items = reads.add(lambda: ports.store.get_many([of_settings, of_head]))
    counts = reads.add(lambda: counters.of_revocations(ports, tenant_id))
    tombstones = reads.add(lambda: counters.of_tombstones(ports, tenant_id))
    reads.run(ports)
    if of_settings not in items():
        raise DataCorrupt("a tenant has no settings")
    if of_head not in items():
        raise DataCorrupt("a tenant has no published SRL")
    settings = TenantSettings.from_item(items()[of_settings])
    srl_head = SrlHead.from_item(items()[of_head])
    # Read after the SRL head, which contains the identifier of the active signer.
    stored_signers = reads.add(lambda: read_signer_items(ports, tenant_id))
    pending = _read_pending_marks(ports, tenant_id, reads)
    signer = None
    with suppress(DataCorrupt, KeyError):
        item = stored_signers()[signers_partition(tenant_id).address(srl_head.key_id)]
        signer = SrlSigner.from_item(item)
    if signer is None or signer.status is not SrlSignerStatus.ACTIVE:
        signer = read_active_signer(ports, tenant_id)
    return PublicationFacts(
        settings,
        srl_head,
        signer,
        read_feed_head(ports, tenant_id),
        pending,
        stored_signers=stored_signers,
        totals=lambda: ChangeTotals(counts()["changes"] + tombstones(), tombstones()),
        tenant_marks=tenant_marks,
    )


def read_marks(ports: Ports, tenant_id: str) -> tuple[PendingMarks, FeedHead | None]:
    """Read the marks that the feed has not published yet, and then the feed head.

    Raises `DataCorrupt`, `Unavailable`.
    """
    pending = _read_pending_marks(ports, tenant_id, ReadBatch())
    return pending, read_feed_head(ports, tenant_id)


def read_feed_facts(
    ports: Ports, tenant_id: str, pending: PendingMarks, newest: FeedHead
) -> PublicationFacts:
    """Read the other facts that an entry needs.

    `newest` is the feed head, read after the marks in `pending`. Raises `DataCorrupt`,
    `Unavailable`.
    """
    settings, (srl_head, signer) = ports.gather(
        lambda: tenants.settings(ports, tenant_id),
        lambda: read_head_and_signer(ports, tenant_id),
    )
    return PublicationFacts(settings, srl_head, signer, newest, pending)


def refresh_heads(ports: Ports, facts: PublicationFacts) -> PublicationFacts:
    """Read the heads and the signer again after a conflict. Raises `DataCorrupt`."""
    (srl_head, signer), newest = ports.gather(
        lambda: read_head_and_signer(ports, facts.tenant_id),
        lambda: read_feed_head(ports, facts.tenant_id),
    )
    return replace(facts, srl_head=srl_head, signer=signer, feed_head=newest)


def read_previous(
    ports: Ports, facts: PublicationFacts, extra_reads: Iterable[Callable[[], None]]
) -> PreviousSrl:
    """Read the current SRL and the changes since then; log the parts that cannot be read.

    Runs `extra_reads` concurrently. Raises `DataCorrupt`, `Unavailable`.
    """
    reads = ReadBatch()
    for each in extra_reads:
        reads.add(each)
    body = reads.add(lambda: read_srl_body(ports, facts.srl_head))
    state = reads.add(lambda: read_srl_state(ports, facts.srl_head, facts.signer))
    entries = reads.add(lambda: read_entries_since(ports, facts))
    added = reads.add(lambda: INSTALLED.list_state_members(ports, facts.tenant_id))
    reads.run(ports)
    payload, known = _read_or_none(body), _read_or_none(state)
    ids = None if payload is None else content.revoked_ids(payload)
    ended, changes = None, facts.totals().tombstones
    if known is not None and known.tombstones.changes != changes:
        ended = read_revoked_signers_and_tombstones(ports, facts)
    return PreviousSrl(ids, known, entries(), ended, added())


def read_entries_since(
    ports: Ports, facts: PublicationFacts, entries: Iterable[PendingEntry] = ()
) -> list[PendingEntry] | None:
    """Return the entries since the current SRL. Reads them unless all are known.

    Returns None if the feed cannot be followed. Raises `Unavailable`.
    """
    start, newest = facts.srl_head.sequence, facts.feed_head
    if start is None or newest is None:
        return None
    known = {each.entry.sequence: each for each in (*entries, *facts.written)}
    sequences = range(start + 1, newest.sequence + 1)
    is_known = len(known) >= len(sequences) and known.keys() >= set(sequences)
    if newest.sequence >= start and is_known:
        return [known[each] for each in sequences]
    chain, found = newest.base.chain, list[PendingEntry]()
    try:
        for stored in read_entries(ports, facts.tenant_id, after=start, until=newest.sequence):
            chain = wire.next_chain(chain, stored.entry)
            found.append(PendingEntry(*stored.decode()))
        if newest.base.version == facts.srl_head.version and chain != newest.signed_head.chain:
            raise DataCorrupt("a feed entry was altered")
    except DataCorrupt as error:
        # Normal after a restore: the feed is newer than the records.
        _log.warning("cannot follow the feed (%s); rebuilding the SRL from all records", error)
        return None
    return found


def read_revoked_signers_and_tombstones(
    ports: Ports, facts: PublicationFacts
) -> tuple[tuple[str, ...], Tombstones]:
    """Read the revoked signers and the tombstones. Raises `DataCorrupt`, `Unavailable`."""
    signers = records.read_revoked_signers(ports, facts.tenant_id)
    changes = facts.totals().tombstones
    return signers, records.read_tombstones(ports, facts.tenant_id, changes=changes)


def _read_or_none(read_it: Callable[[], T]) -> T | None:
    try:
        return read_it()
    except DataCorrupt as error:
        _log.warning("cannot read the current SRL (%s); rebuilding the SRL from all records", error)
        return None


def _read_pending_marks(ports: Ports, tenant_id: str, reads: ReadBatch) -> PendingMarks:
    """Run `reads`, together with the reads of the marks on warrants and signers."""
    read_at, limit = ports.now(), feed.ENTRY_MAX
    on_warrants = reads.add(partial(marks.read_warrant_marks, ports, tenant_id, limit=limit))
    on_signers = reads.add(partial(marks.read_visible_signer_marks, ports, tenant_id))
    reads.run(ports)
    warrant_marks, is_complete = on_warrants()
    return PendingMarks(read_at, warrant_marks, is_complete, on_signers())
