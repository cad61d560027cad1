"""Consistency of the list in force: it differs from the records only in marked warrants."""

from collections.abc import Iterator

from shared.errors import Corrupt
from shared.model import revocations
from shared.model.srl import encoding, schedule
from shared.model.srl.head import FORMAT, Head
from shared.operations.operator.consistency.inconsistency import Inconsistency
from shared.operations.operator.consistency.revocations import published_again
from shared.operations.rules import counters, revoked_signers, tenants
from shared.operations.srl import content as srl_content
from shared.operations.srl import in_force, tombstones
from shared.ports import Ports


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield warrants that the next list would not correct. Raises `Corrupt`, `Unavailable`."""
    head = in_force.head(ports, tenant_id)
    ttl = tenants.settings(ports, tenant_id).srl_ttl
    counted = counters.counted(ports, tenant_id)
    is_pending = counted.changes != head.changes
    listed = set(encoding.revoked_ids(in_force.body(ports, head)))
    signers = revoked_signers.read(ports, tenant_id)
    content = srl_content.of_all_records(ports, tenant_id, signers).content
    revoked = set(content.revoked_ids)
    wanted = set(content.at(head.issued_at, ttl=ttl).revoked_ids)
    changed = schedule.warrant_marks(tenant_id)
    marked = {entry.sk for partition in changed for entry in ports.store.query(partition)}
    lacking = wanted - listed - marked
    if is_pending:
        # The next list finds warrants of keys that were revoked after the list was made.
        lacking = _by_themselves(ports, tenant_id, lacking)
    for warrant_id in sorted(lacking):
        yield _unmarked(tenant_id, warrant_id, f"the list lacks {warrant_id}, which is revoked")
    for warrant_id in sorted(listed - revoked - marked):
        yield _unmarked(tenant_id, warrant_id, f"the list has {warrant_id}, which is not revoked")

    if not is_pending and head.format == FORMAT:
        yield from _state(ports, tenant_id, head, counted.tombstones)


def _state(ports: Ports, tenant_id: str, head: Head, changes: int) -> Iterator[Inconsistency]:
    """Check that the state of the list has all tombstones (docs/adr/0024)."""
    try:
        signer = in_force.signer(ports, tenant_id)
    except Corrupt:
        return  # `list_signers` reports this.
    state = in_force.state(ports, head, signer)
    if state.tombstones != tombstones.gathered(ports, tenant_id, changes=changes):
        yield Inconsistency(
            "the state beside its list lacks something that was revoked, deleted or disabled",
            tuple(tombstones.noted(tenant_id)),
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
    return Inconsistency(f"{problem}, and no mark makes the next list correct it", tuple(changes))
