"""Which key signs a tenant's next list, and how a key is made (SIGNER-2).

The key that signed the list in force signs the next one too: a new signer takes over with a list
of its own, in one write with the head of that list. So the head alone says which key is active,
and whoever reads head and keys in the middle of that write loses the write that it bases on them.
"""

from collections.abc import Iterable
from dataclasses import replace

from shared.errors import Corrupt
from shared.model import seeds
from shared.model.identifiers import SIGNING_KEY
from shared.model.seeds import Purpose
from shared.model.srl import Head
from shared.model.srl_keys import SrlKey, Status, signers
from shared.operations import srl_heads
from shared.operations.operation import reread
from shared.ports import Ports
from shared.ports.store import Change, Put


def current(ports: Ports, tenant_id: str) -> SrlKey:
    """The signer of the next list. Raises `Corrupt` if none is active."""
    return head_and_signer(ports, tenant_id)[1]


def head_and_signer(ports: Ports, tenant_id: str) -> tuple[Head, SrlKey]:
    """The head of the list in force, and the signer of the next list.

    Only a write that expects this head may rest on the signer. Raises `Corrupt` if no signer is
    active, also when they are read again: so it is not another call in the middle of its write.
    """
    return reread(lambda: _head_and_signer(ports, tenant_id))


def _head_and_signer(ports: Ports, tenant_id: str) -> tuple[Head, SrlKey]:
    head = srl_heads.current(ports, tenant_id)
    item = ports.store.get(signers(tenant_id).key(head.key_id))
    signer = None if item is None else SrlKey.from_item(item)
    if signer is None or signer.status is not Status.ACTIVE:
        # An older release rotated without publishing; or a restore tore the tables apart.
        signer = _newest_active(ports, tenant_id)
    if signer is None:
        raise Corrupt("none of its list signers is active")
    return head, signer


def all_of(ports: Ports, tenant_id: str, changed: Iterable[Change] = ()) -> tuple[SrlKey, ...]:
    """Every signer of the tenant in order of creation, without its seed.

    Each is as it is stored, or as one of `changed` is about to store it.
    """
    partition = signers(tenant_id)
    items = {partition.key(entry.sk): entry.item for entry in ports.store.query(partition)}
    items |= {
        each.key: each.item
        for each in changed
        if isinstance(each, Put) and each.key.pk == partition.pk
    }
    return tuple(replace(SrlKey.from_item(items[key]), sealed_seed=None) for key in sorted(items))


def make(ports: Ports, tenant_id: str, status: Status = Status.ACTIVE) -> SrlKey:
    """A new signer, its seed sealed for it alone; nothing is stored yet."""
    key_id = ports.new_id(SIGNING_KEY)
    seed, public_key = seeds.new()
    context = seeds.seal_context(tenant_id, key_id, purpose=Purpose.SRL)
    sealed = ports.keys.wrap(seed, context=context)
    return SrlKey(key_id, tenant_id, public_key, status, ports.now(), sealed)


def _newest_active(ports: Ports, tenant_id: str) -> SrlKey | None:
    entries = ports.store.query(signers(tenant_id), newest_first=True)
    found = (SrlKey.from_item(entry.item) for entry in entries)
    return next((each for each in found if each.status is Status.ACTIVE), None)
