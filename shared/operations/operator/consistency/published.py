"""Consistency of publications: the feed, and the current SRL.

The base of the feed is the current SRL. If a feed contradicts itself, the repair removes the feed
head. The next SRL then begins another feed, far above this one, and clients continue from that SRL
(docs/adr/12). The current SRL together with later feed entries may lack only warrants with a mark.
"""

from collections.abc import Iterator

from shared.authorizer.formats import ed25519, wire
from shared.capabilities.inconsistency import Inconsistency
from shared.errors import DataCorrupt
from shared.model import feed as model
from shared.model import revocations
from shared.model.feed import FeedHead, StoredEntry
from shared.model.items import Item, ItemRow
from shared.model.lists import schedule
from shared.model.lists.content import RevokedSet, revoked_ids
from shared.model.lists.head import SrlHead
from shared.model.lists.schedule import SignerOutboxMark
from shared.model.lists.signers import SrlSigner, signers_partition
from shared.model.signing_keys import WarrantSigner
from shared.operations.base import counters, tenants
from shared.operations.lists import in_force, marks, records
from shared.operations.lists.records import read_signed_by
from shared.operations.operator.consistency.revocations import published_again, repair_event
from shared.ports import Ports
from shared.ports.store import Delete, Expect


def check_feed(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant's feed. Raises `DataCorrupt`, `Unavailable`."""
    listed, address = in_force.read_srl_head(ports, tenant_id), model.head_address(tenant_id)
    if listed.sequence is None:
        return  # This SRL does not follow from the feed. The next one does.
    item = ports.store.get(address)
    if item is None:
        yield from _require_new_list(ports, tenant_id, "its feed has no feed head")
        return
    try:
        newest = _check_feed_head(ports, tenant_id, item, listed)
    except DataCorrupt as error:
        # Otherwise entries may have been published during the check.
        if ports.store.get(address) == item:
            changes = (
                Delete(address, Expect.PRESENT),
                *records.tombstone_counter_changes(tenant_id),
            )
            yield Inconsistency(f"its feed is inconsistent: {error}", changes)
            yield from _find_unreadable_entries(ports, tenant_id)
        return
    # Clients must be able to start from the current SRL and reach the feed head.
    has_base = newest.base.version == listed.version and not newest.is_broken
    if has_base:
        try:
            in_force.read_blob(ports, listed.base)
        except DataCorrupt:
            has_base = False
    if not has_base:
        problem = "clients of its feed cannot start from the current SRL"
        yield from _require_new_list(ports, tenant_id, problem)
    yield from _find_unreadable_entries(ports, tenant_id)


def _require_new_list(ports: Ports, tenant_id: str, problem: str) -> Iterator[Inconsistency]:
    """Yield a problem that the next SRL solves, unless a mark already notifies the scheduler."""
    if not marks.read_tenant_marks(ports, tenant_id):
        yield Inconsistency(
            f"{problem}, and no new SRL is due", tuple(records.tombstone_counter_changes(tenant_id))
        )


def _check_feed_head(ports: Ports, tenant_id: str, item: Item, srl_head: SrlHead) -> FeedHead:
    """Return the feed head. Raises `DataCorrupt` if the feed cannot be continued."""
    newest = FeedHead.from_item(item)
    head = newest.signed_head
    if head.tenant_id != tenant_id:
        raise DataCorrupt("its feed head belongs to another tenant")
    signer = ports.store.get(signers_partition(tenant_id).address(newest.key_id))
    # If the SRL signer is lost, a new one signs both with the next SRL.
    if signer is not None or newest.key_id != srl_head.key_id:
        public_key = SrlSigner.from_item(signer).public_bytes if signer else b""
        signed = wire.signed_part(newest.payload)
        if not signer or not ed25519.is_signed(signed, newest.signature, public_key=public_key):
            raise DataCorrupt("its feed head is not signed by an SRL signer")
    base = head.base
    if head.sequence < (srl_head.sequence or 0):
        raise DataCorrupt("its feed head is older than the current SRL")
    listed = srl_head.sequence, srl_head.payload_sha256, srl_head.count
    if base.version == srl_head.version and listed != (
        base.sequence,
        base.sha256.hex(),
        base.count,
    ):
        raise DataCorrupt("its base has the version of the current SRL, but another content")
    _check_entries(ports, head)
    return newest


def _check_entries(ports: Ports, head: wire.SignedHead) -> None:
    """Check that the entries after the base end at the feed head, without a later entry."""
    sequence, chain = head.base.sequence, head.base.chain
    after = model.entry_sk(sequence)
    for row in ports.store.query(
        model.feed_partition(head.tenant_id), after=after, before=model.HEAD
    ):
        stored, entry = _read_entry(row)
        if entry.sequence != sequence + 1 and not entry.is_break:
            raise DataCorrupt(f"entry {sequence + 1} is missing")
        sequence, chain = entry.sequence, wire.next_chain(chain, stored.entry)
    if (sequence, chain) != (head.sequence, head.chain):
        raise DataCorrupt("its entries do not lead to its feed head")


def _read_entry(row: ItemRow) -> tuple[StoredEntry, wire.FeedEntry]:
    """Return the entry as stored and decoded.

    Raises `DataCorrupt` if clients cannot read it.
    """
    stored = StoredEntry.from_item(row.item)
    entry, _ = stored.decode()
    if row.sk != model.entry_sk(entry.sequence):
        raise DataCorrupt(f"entry {entry.sequence} is stored as another entry")
    return stored, entry


def _find_unreadable_entries(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield entries that clients cannot read. Without them, a client starts from the SRL."""
    partition = model.feed_partition(tenant_id)
    for row in ports.store.query(partition, before=model.HEAD):
        try:
            _read_entry(row)
        except DataCorrupt as error:
            change = Delete(partition.address(row.sk), Expect.PRESENT)
            yield Inconsistency(f"feed entry {row.sk.lstrip('0')}: {error}", (change,))


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield warrants that the next SRL would not correct. Raises `DataCorrupt`, `Unavailable`."""
    head = in_force.read_srl_head(ports, tenant_id)
    counted = counters.read_counts(ports, tenant_id)
    listed = in_force.read_srl_body(ports, head)
    signers = records.read_revoked_signers(ports, tenant_id)
    content = records.scan_revoked(ports, tenant_id, signers).content
    # Read before the feed: a change with a mark at its read still has the mark, or an entry.
    signer_marks = ports.store.query(schedule.signers_marks(tenant_id))
    signer_names = {
        each for row in signer_marks for each in SignerOutboxMark.from_item(row.item).signers
    }
    partitions = schedule.warrant_marks(tenant_id)
    marked = {row.sk for partition in partitions for row in ports.store.query(partition)}
    marked.update(each for each, _ in read_signed_by(ports, tenant_id, signer_names))
    expected = _read_expected_warrants(ports, tenant_id, head, revoked_ids(listed))
    if expected is not None:
        ttl = tenants.settings(ports, tenant_id).srl_ttl
        wanted = set(content.at(head.issued_at, ttl=ttl).revoked_ids)
        yield from _find_missing_warrants(ports, tenant_id, wanted - expected - marked, signers)
        for warrant_id in sorted(expected - set(content.revoked_ids) - marked):
            problem = f"the SRL contains {warrant_id}, which is not revoked"
            yield _add_mark(tenant_id, warrant_id, problem)
    if counted.changes == head.changes:
        try:
            signer = in_force.read_active_signer(ports, tenant_id)
        except DataCorrupt:
            return  # `srl_signers` reports this.
        state = in_force.read_srl_state(ports, head, signer)
        # The SRL state must have all tombstones (docs/adr/14).
        if state.tombstones != records.read_tombstones(
            ports, tenant_id, changes=counted.tombstones
        ):
            yield Inconsistency(
                "the state of its SRL lacks a tombstone",
                tuple(records.tombstone_counter_changes(tenant_id)),
            )


def _read_expected_warrants(
    ports: Ports, tenant_id: str, head: SrlHead, ids: list[str]
) -> set[str] | None:
    """Return the warrants of the next SRL, except for warrants with marks.

    Returns None if that SRL will be a full rebuild.
    """
    try:
        newest = in_force.read_feed_head(ports, tenant_id)
        if newest is None or newest.is_broken or head.sequence is None:
            return None
        stored = in_force.read_entries(ports, tenant_id, after=head.sequence, until=newest.sequence)
        opened = [each.decode() for each in stored]
    except DataCorrupt:
        return None  # The check of the feed reports this.
    return set(RevokedSet(ids).apply(opened, signers=()).revoked_ids)


def _find_missing_warrants(
    ports: Ports, tenant_id: str, lacking: set[str], signers: tuple[str, ...]
) -> Iterator[Inconsistency]:
    """Yield revoked warrants that are in neither the SRL nor the feed, grouped by signer."""
    addresses = {
        each: revocations.shard_of(tenant_id, each).address(each) for each in sorted(lacking)
    }
    items = ports.store.get_many(addresses.values())
    # The others are revoked by their signers only.
    own = {each for each, address in addresses.items() if address in items}
    for warrant_id in sorted(own):
        yield _add_mark(tenant_id, warrant_id, f"the SRL lacks {warrant_id}, which is revoked")
    for signer in signers if lacking - own else ():
        signed = {each for each, _ in read_signed_by(ports, tenant_id, [signer])} & lacking - own
        if signed:
            yield Inconsistency(
                f"the SRL lacks {len(signed)} warrants of the revoked signing key {signer}, for "
                f"example {min(signed)}, and no outbox mark adds them to the feed",
                (
                    marks.signers_mark(tenant_id, [WarrantSigner.parse(signer)]),
                    *records.tombstone_counter_changes(tenant_id),
                ),
            )


def _add_mark(tenant_id: str, warrant_id: str, problem: str) -> Inconsistency:
    changes = published_again(tenant_id, warrant_id, adds=False)
    problem += ", and no outbox mark makes the next SRL correct it"
    return Inconsistency(problem, tuple(changes), repair_event(warrant_id))
