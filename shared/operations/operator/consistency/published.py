"""Consistency of what is published: the feed, and the list in force.

The base of the feed is the list in force. If a feed contradicts itself, the repair removes its
head. The next list then begins another feed, far above this one, and clients continue from that
list (docs/adr/12). With the feed since, the list in force lacks only what has a mark.
"""

from collections.abc import Iterator

from shared.authorizer.formats import ed25519, wire
from shared.errors import Corrupt
from shared.model import feed as model
from shared.model import revocations
from shared.model.feed import FeedHead, StoredEntry
from shared.model.items import Item, Row
from shared.model.lists import schedule
from shared.model.lists.content import Content, revoked_ids
from shared.model.lists.head import ListHead
from shared.model.lists.schedule import SignersMark
from shared.model.lists.signers import ListSigner, signers
from shared.model.signing_keys import Signer
from shared.operations.base import counters, tenants
from shared.operations.lists import in_force, marks, records
from shared.operations.lists.records import signed_by
from shared.operations.operator.consistency.inconsistency import Inconsistency
from shared.operations.operator.consistency.revocations import published_again, repaired
from shared.ports import Ports
from shared.ports.store import Delete, Expect


def check_feed(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant's feed. Raises `Corrupt`, `Unavailable`."""
    listed, address = in_force.head(ports, tenant_id), model.head_address(tenant_id)
    if listed.sequence is None:
        return  # This list does not follow from the feed. The next one does.
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
    if newest.base.version != listed.version or newest.is_broken:
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


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield warrants that the next list would not correct. Raises `Corrupt`, `Unavailable`."""
    head = in_force.head(ports, tenant_id)
    counted = counters.counted(ports, tenant_id)
    listed = in_force.body(ports, head)
    signers = records.revoked_signers(ports, tenant_id)
    content = records.of_all(ports, tenant_id, signers).content
    # The marks before the feed: what had a mark when its change was read has one, or an entry.
    marked = _marked(ports, tenant_id)
    made = _followed(ports, tenant_id, head, revoked_ids(listed))
    if made is not None:
        ttl = tenants.settings(ports, tenant_id).srl_ttl
        wanted = set(content.at(head.issued_at, ttl=ttl).revoked_ids)
        yield from _lacking(ports, tenant_id, wanted - made - marked, signers)
        for warrant_id in sorted(made - set(content.revoked_ids) - marked):
            problem = f"the list has {warrant_id}, which is not revoked"
            yield _unmarked(tenant_id, warrant_id, problem)
    if counted.changes == head.changes:
        yield from _state(ports, tenant_id, head, counted.tombstones)


def _marked(ports: Ports, tenant_id: str) -> set[str]:
    """Return the warrants with a mark, or of signers with a mark."""
    signer_marks = ports.store.query(schedule.signers_marks(tenant_id))
    pending = {each for row in signer_marks for each in SignersMark.from_item(row.item).signers}
    changed = schedule.warrant_marks(tenant_id)
    marked = {row.sk for partition in changed for row in ports.store.query(partition)}
    return marked.union(each for each, _ in signed_by(ports, tenant_id, pending))


def _followed(ports: Ports, tenant_id: str, head: ListHead, listed: list[str]) -> set[str] | None:
    """Return the warrants that the next list has, apart from those that have marks.

    Returns None if that list is made from all records.
    """
    try:
        newest = in_force.feed_head(ports, tenant_id)
        if newest is None or newest.is_broken or head.sequence is None:
            return None
        stored = in_force.entries(ports, tenant_id, after=head.sequence, until=newest.sequence)
        opened = [each.opened() for each in stored]
    except Corrupt:
        return None  # The check of the feed reports this.
    return set(Content(listed).after(opened, signers=()).revoked_ids)


def _lacking(
    ports: Ports, tenant_id: str, lacking: set[str], signers: tuple[str, ...]
) -> Iterator[Inconsistency]:
    """Yield what neither the list nor the feed has, of each revoked signer and by itself."""
    own = _by_themselves(ports, tenant_id, lacking)
    for warrant_id in sorted(own):
        yield _unmarked(tenant_id, warrant_id, f"the list lacks {warrant_id}, which is revoked")
    for signer in signers if lacking - own else ():
        signed = {each for each, _ in signed_by(ports, tenant_id, [signer])} & lacking - own
        if signed:
            yield Inconsistency(
                f"the list lacks {len(signed)} warrants of the revoked key {signer}, such as "
                f"{min(signed)}, and no mark makes the feed name them",
                (
                    marks.on_signers(tenant_id, [Signer.parse(signer)]),
                    *records.noted(tenant_id),
                ),
            )


def _state(ports: Ports, tenant_id: str, head: ListHead, changes: int) -> Iterator[Inconsistency]:
    """Check that the state of the list has all tombstones (docs/adr/14)."""
    try:
        signer = in_force.signer(ports, tenant_id)
    except Corrupt:
        return  # `list_signers` reports this.
    state = in_force.state(ports, head, signer)
    if state.tombstones != records.tombstones(ports, tenant_id, changes=changes):
        yield Inconsistency(
            "the state beside its list lacks something that was revoked, deleted or disabled",
            tuple(records.noted(tenant_id)),
        )


def _by_themselves(ports: Ports, tenant_id: str, warrant_ids: set[str]) -> set[str]:
    """Return those of the warrants that have a revocation of their own."""
    addresses = {
        each: revocations.shard_of(tenant_id, each).address(each) for each in sorted(warrant_ids)
    }
    found = ports.store.get_many(addresses.values())
    return {each for each, address in addresses.items() if address in found}


def _unmarked(tenant_id: str, warrant_id: str, problem: str) -> Inconsistency:
    changes = published_again(tenant_id, warrant_id, adds=False)
    problem += ", and no mark makes the next list correct it"
    return Inconsistency(problem, tuple(changes), repaired(warrant_id))
