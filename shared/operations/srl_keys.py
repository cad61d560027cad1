"""The keys that sign a tenant's lists: list, rotate (decisions 3, SRL)."""

from dataclasses import replace

from shared.errors import Corrupt
from shared.model import seeds
from shared.model import srl_keys as model
from shared.model.audit_log import Action
from shared.model.callers import Caller, Scope
from shared.model.identifiers import SIGNING_KEY
from shared.model.seeds import Purpose
from shared.model.srl_keys import SrlKey, Status
from shared.operations import audit_log, tenants
from shared.operations.operation import operation
from shared.ports import Ports
from shared.ports.store import At, Expect, Put


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.READ_ONLY)
def listing(ports: Ports, caller: Caller) -> list[SrlKey]:
    """The tenant's signers, the current one first, then those before it, newest first."""
    entries = ports.store.query(model.signers(caller.tenant_id), newest_first=True)
    signers = [SrlKey.from_item(entry.item) for entry in entries]
    return sorted(signers, key=lambda signer: signer.status is not Status.ACTIVE)


@operation(Scope.ADMIN)
def rotate(ports: Ports, caller: Caller) -> SrlKey:
    """Start a new signer; the list in force stays valid under the old one."""
    settings = tenants.settings(ports, caller.tenant_id)
    old = current(ports, caller.tenant_id)
    new = make(ports, caller.tenant_id)
    rotated = replace(old, status=Status.ROTATED, version=old.version + 1)
    ports.store.write(
        Put(old.key, rotated.to_item(), At(old.version)),
        Put(new.key, new.to_item(), Expect.ABSENT),
        audit_log.entry(ports, caller, Action.SRL_ROTATE_KEY, new.id, settings=settings),
    )
    return new


def current(ports: Ports, tenant_id: str) -> SrlKey:
    """The signer of the next list. Raises `Corrupt` unless there is exactly one."""
    entries = ports.store.query(model.signers(tenant_id), newest_first=True)
    active = [
        signer
        for signer in (SrlKey.from_item(entry.item) for entry in entries)
        if signer.status is Status.ACTIVE
    ]
    if len(active) != 1:
        raise Corrupt(f"a tenant has {len(active)} active list signers")
    return active[0]


def make(ports: Ports, tenant_id: str) -> SrlKey:
    """A new active signer, its seed sealed for it alone; nothing is stored yet."""
    key_id = ports.new_id(SIGNING_KEY)
    seed, public_key = seeds.new()
    context = seeds.seal_context(tenant_id, key_id, purpose=Purpose.SRL)
    sealed = ports.keys.wrap(seed, context=context)
    return SrlKey(key_id, tenant_id, public_key, Status.ACTIVE, ports.now(), sealed)
