"""Consistency of list signers: exactly one is active, and it names the pending one."""

from collections.abc import Iterator

from shared.model.lists.signers import ListSigner, SignerStatus, signers
from shared.operations.lists import records
from shared.operations.lists import signers as srl_signers
from shared.operations.operator.consistency import directory
from shared.operations.operator.consistency.inconsistency import Inconsistency
from shared.ports import Ports
from shared.ports.store import At, Expect, Put


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant's list signers. Raises `Corrupt`, `Unavailable`."""
    head = directory.newest(ports, tenant_id)
    if head is None:
        return
    entries = ports.store.query(signers(tenant_id), newest_first=True)
    keys = {entry.sk: ListSigner.from_item(entry.item) for entry in entries}
    active = [key for key in keys.values() if key.status is SignerStatus.ACTIVE]
    if not active:
        yield _without(ports, tenant_id, keys.get(head.key_id))
        return
    # As in `in_force`: the signer of the list in force, otherwise the newest active one.
    current = next((key for key in active if key.id == head.key_id), active[0])
    for key in active:
        if key is not current:
            yield _ended(key, f"the list signer {key.id} is active, but another one signs")
    yield from _pending(current, keys)


def _without(ports: Ports, tenant_id: str, key: ListSigner | None) -> Inconsistency:
    if key is not None and key.status is SignerStatus.PENDING:
        change = Put(key.address, key.activated(ports.now()).to_item(), At(key.version))
        problem = f"the list signer {key.id} signed the list in force, but is not active"
        return Inconsistency(problem, (change,))
    new = srl_signers.make(ports, tenant_id)
    return Inconsistency(
        "none of its list signers is active; verifiers will need the public key of a new one",
        (Put(new.address, new.to_item(), Expect.ABSENT),),
    )


def _pending(current: ListSigner, keys: dict[str, ListSigner]) -> Iterator[Inconsistency]:
    named = current.pending_id
    if named is not None and (named not in keys or keys[named].status is not SignerStatus.PENDING):
        yield Inconsistency(
            f"the list signer {current.id} names {named} as the next one, which is not pending",
            (Put(current.address, current.followed_by(None).to_item(), At(current.version)),),
        )
    for key in keys.values():
        if key.status is SignerStatus.PENDING and key.id != named:
            problem = f"the list signer {key.id} is pending, but the active one does not name it"
            yield _ended(key, problem)


def _ended(key: ListSigner, problem: str) -> Inconsistency:
    """Revoke a signer: it is not known whether it was to be retired or revoked."""
    change = Put(key.address, key.revoked().to_item(), At(key.version))
    return Inconsistency(problem, (change, *records.noted(key.tenant_id)))
