"""Which key signs a tenant's next list, and how a key is made (SIGNER-2).

The key that signed the list in force signs the next one too: a new signer takes over with a list
of its own, in one write with the head of that list. So the head alone says which key is active,
and whoever reads head and keys in the middle of that write loses the write that it bases on them.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from shared.errors import Corrupt
from shared.model import seeds
from shared.model.identifiers import SIGNING_KEY
from shared.model.seeds import Purpose
from shared.model.srl.head import Head
from shared.model.srl.signers import ENDED, ListSigner, Status, archive, signers
from shared.model.srl.statements import highest
from shared.operations.rules import operation
from shared.operations.srl import heads as srl_heads
from shared.ports import Ports
from shared.ports.store import At, Change, Delete, Expect, Put


def current(ports: Ports, tenant_id: str) -> ListSigner:
    """The signer of the next list. Raises `Corrupt` if none is active."""
    return head_and_signer(ports, tenant_id)[1]


def head_and_signer(ports: Ports, tenant_id: str) -> tuple[Head, ListSigner]:
    """The head of the list in force, and the signer of the next list.

    Only a write that expects this head may rest on the signer. Raises `Corrupt` if no signer is
    active, also when they are read again: so it is not another call in the middle of its write.
    """
    return operation.reread(lambda: _head_and_signer(ports, tenant_id))


def _head_and_signer(ports: Ports, tenant_id: str) -> tuple[Head, ListSigner]:
    head = srl_heads.current(ports, tenant_id)
    item = ports.store.get(signers(tenant_id).address(head.key_id))
    signer = None if item is None else ListSigner.from_item(item)
    if signer is None or signer.status is not Status.ACTIVE:
        # An older release rotated without publishing; or a restore tore the tables apart.
        signer = _newest_active(ports, tenant_id)
    if signer is None:
        raise Corrupt("none of its list signers is active")
    return head, signer


def all_of(ports: Ports, tenant_id: str, changed: Iterable[Change] = ()) -> tuple[ListSigner, ...]:
    """Every signer of the tenant but the archived ones in order of creation, without its seed.

    Each is as it is stored, or as one of `changed` is about to store it.
    """
    partition = signers(tenant_id)
    items = {partition.address(entry.sk): entry.item for entry in ports.store.query(partition)}
    for each in changed:
        if isinstance(each, Put) and each.address.pk == partition.pk:
            items[each.address] = each.item
        elif isinstance(each, Delete):
            items.pop(each.address, None)
    return tuple(
        replace(ListSigner.from_item(items[key]), sealed_seed=None) for key in sorted(items)
    )


def find(ports: Ports, tenant_id: str, key_ids: Collection[str]) -> dict[str, ListSigner]:
    """The signers with these identifiers, archived or not; one that does not exist is left out.

    If one is missing, all are read once more: it may be on its way into the archive or back.
    """
    addresses = [signers(tenant_id), *(archive(tenant_id, status) for status in ENDED)]
    keys = [address.address(each) for address in addresses for each in key_ids]
    items = ports.store.get_many(keys)
    if len({key.sk for key in items}) < len(set(key_ids)):
        operation.PACING.sleep(operation.PACING.in_flight)
        items = ports.store.get_many(keys)
    return {key.sk: ListSigner.from_item(item) for key, item in items.items()}


def replaced(before: ListSigner, after: ListSigner) -> list[Change]:
    """The changes that store `after` in place of `before`, as that one was read."""
    if before.address == after.address:
        return [Put(after.address, after.to_item(), At(before.version))]
    moved = Put(after.address, after.to_item(), Expect.ABSENT)
    return [moved, Delete(before.address, At(before.version))]


def next_number(records: Iterable[ListSigner]) -> int:
    """The number for the next statement, higher than in all statements about `records`.

    `records` are all signers but the archived ones. Without an archive it counts the signers.
    """
    records = list(records)
    forms = (each.statement for each in records if each.statement is not None)
    return 1 + max(len(records), highest(forms))


def make(ports: Ports, tenant_id: str, status: Status = Status.ACTIVE) -> ListSigner:
    """A new signer, its seed sealed for it alone; nothing is stored yet."""
    key_id = ports.new_id(SIGNING_KEY)
    seed, public_key = seeds.new()
    context = seeds.seal_context(tenant_id, key_id, purpose=Purpose.SRL)
    sealed = ports.sealer.seal(seed, context=context)
    return ListSigner(key_id, tenant_id, public_key, status, ports.now(), sealed)


def _newest_active(ports: Ports, tenant_id: str) -> ListSigner | None:
    entries = ports.store.query(signers(tenant_id), newest_first=True)
    found = (ListSigner.from_item(entry.item) for entry in entries)
    return next((each for each in found if each.status is Status.ACTIVE), None)
