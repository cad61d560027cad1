"""Consistency of the list in force: with the feed since, it lacks only what has a mark."""

from collections.abc import Iterator

from shared.errors import Corrupt
from shared.model import revocations
from shared.model.lists import encoding, schedule
from shared.model.lists.content import Content
from shared.model.lists.head import ListHead
from shared.model.lists.schedule import SignersMark
from shared.model.signing_keys import Signer
from shared.operations.base import counters, tenants
from shared.operations.lists import in_force, marks, records, verdicts
from shared.operations.lists.records import signed_by
from shared.operations.operator.consistency.inconsistency import Inconsistency
from shared.operations.operator.consistency.revocations import published_again, repaired
from shared.ports import Ports


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield warrants that the next list would not correct. Raises `Corrupt`, `Unavailable`."""
    head = in_force.head(ports, tenant_id)
    counted = counters.counted(ports, tenant_id)
    listed = in_force.body(ports, head)
    signers = verdicts.revoked_signers(ports, tenant_id)
    content = records.of_all(ports, tenant_id, signers).content
    # The marks before the feed: what had a mark when its change was read has one, or an entry.
    marked = _marked(ports, tenant_id)
    made = _followed(ports, tenant_id, head, encoding.revoked_ids(listed))
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
