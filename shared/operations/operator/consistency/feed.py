"""Consistency of the feed: its head, its entries, and its base, which is the list in force.

If a feed contradicts itself, the repair removes its head. The next list then begins another feed,
far above this one, and clients continue from that list (docs/adr/12).
"""

from collections.abc import Iterator

from shared.authorizer.formats import ed25519, wire
from shared.errors import Corrupt
from shared.model import feed as model
from shared.model.feed import FeedHead, StoredEntry
from shared.model.items import Item, Row
from shared.model.lists.head import ListHead
from shared.model.lists.signers import ListSigner, signers
from shared.operations.lists import in_force, marks, records
from shared.operations.operator.consistency.inconsistency import Inconsistency
from shared.ports import Ports
from shared.ports.store import Delete, Expect


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant's feed. Raises `Corrupt`, `Unavailable`."""
    listed, address = in_force.head(ports, tenant_id), model.head_address(tenant_id)
    if listed.sequence is None:
        return  # A release without a feed published this list. The next one begins the feed.
    item = ports.store.get(address)
    if item is None:
        yield from _without_list(ports, tenant_id, "its feed has no head")
        return
    try:
        newest = _examined(ports, tenant_id, item, listed)
    except Corrupt as error:
        # Otherwise entries may have been published during the walk.
        if ports.store.get(address) == item:
            changes = (Delete(address, Expect.PRESENT), *records.noted(tenant_id))
            yield Inconsistency(f"its feed contradicts itself: {error}", changes)
            yield from _unreadable(ports, tenant_id)
        return
    if not _has_base(ports, newest, listed):
        problem = "clients of its feed cannot start from the list in force"
        yield from _without_list(ports, tenant_id, problem)
    yield from _unreadable(ports, tenant_id)


def _without_list(ports: Ports, tenant_id: str, problem: str) -> Iterator[Inconsistency]:
    """Yield a problem that the next list solves, unless a mark makes the schedule look."""
    if not marks.of_tenant(ports, tenant_id):
        yield Inconsistency(f"{problem}, and none is due", tuple(records.noted(tenant_id)))


def _has_base(ports: Ports, newest: FeedHead, listed: ListHead) -> bool:
    """Return whether clients can start from the list in force, and go on to the head."""
    if newest.base.version != listed.version or newest.is_broken or listed.base is None:
        return False
    try:
        in_force.read(ports, listed.base)
    except Corrupt:
        return False
    return True


def _examined(ports: Ports, tenant_id: str, item: Item, listed: ListHead) -> FeedHead:
    """Return the head of the feed. Raises `Corrupt` if it cannot be continued."""
    newest = FeedHead.from_item(item)
    head = newest.signed
    if head.tenant_id != tenant_id:
        raise Corrupt("its head is that of another tenant")
    _check_signature(ports, tenant_id, newest, listed)
    _check_base(head, listed)
    _check_entries(ports, head)
    return newest


def _check_signature(ports: Ports, tenant_id: str, newest: FeedHead, listed: ListHead) -> None:
    item = ports.store.get(signers(tenant_id).address(newest.key_id))
    if item is None and newest.key_id == listed.key_id:
        return  # The signer of the list is lost. Another one signs both with the next list.
    public_key = ListSigner.from_item(item).public_bytes if item else b""
    signed = wire.signed_part(newest.payload)
    if not item or not ed25519.is_signed(signed, newest.signature, public_key=public_key):
        raise Corrupt("its head is not signed by a list signer")


def _check_base(head: wire.SignedHead, listed: ListHead) -> None:
    base = head.base
    if head.sequence < (listed.sequence or 0):
        raise Corrupt("its head is older than the list in force")
    same = base.sequence, base.sha256.hex(), base.count
    if base.version == listed.version and same != (
        listed.sequence,
        listed.payload_sha256,
        listed.count,
    ):
        raise Corrupt("its base has the version of the list in force, but is another list")


def _check_entries(ports: Ports, head: wire.SignedHead) -> None:
    """Check that the entries after the base lead to the head, and that none follows it."""
    sequence, chain = head.base.sequence, head.base.chain
    after = model.entry_sk(sequence)
    for row in ports.store.query(model.feed(head.tenant_id), after=after, before=model.HEAD):
        stored, entry = _entry(row)
        if entry.sequence != sequence + 1 and not entry.is_break:
            raise Corrupt(f"entry {sequence + 1} is missing")
        sequence, chain = entry.sequence, wire.next_chain(chain, stored.entry)
    if (sequence, chain) != (head.sequence, head.chain):
        raise Corrupt("its entries do not lead to its head")


def _entry(row: Row) -> tuple[StoredEntry, wire.FeedEntry]:
    """Return the entry as it is stored, and opened. Raises `Corrupt` if no client can read it."""
    stored = StoredEntry.from_item(row.item)
    entry, _ = stored.opened()
    if row.sk != model.entry_sk(entry.sequence):
        raise Corrupt(f"entry {entry.sequence} is stored as another one")
    return stored, entry


def _unreadable(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield entries that no client can read; without them, a client starts from the list."""
    partition = model.feed(tenant_id)
    for row in ports.store.query(partition, before=model.HEAD):
        try:
            _entry(row)
        except Corrupt as error:
            change = Delete(partition.address(row.sk), Expect.PRESENT)
            yield Inconsistency(f"entry {row.sk.lstrip('0')} of its feed: {error}", (change,))
