"""The list signers of a tenant: read, replaced and created (SIGNER-2)."""

import logging
from collections.abc import Collection, Iterable
from dataclasses import replace

from shared.authorizer.statements import Statement, highest
from shared.errors import Corrupt
from shared.model import seeds
from shared.model.identifiers import SIGNING_KEY
from shared.model.seeds import Purpose
from shared.model.srl.signers import ENDED, ListSigner, Status, archive, signers
from shared.operations.rules import operation, seals
from shared.ports import Ports
from shared.ports.store import At, Change, Delete, Expect, Put

_log = logging.getLogger(__name__)


def all_of(ports: Ports, tenant_id: str, changed: Iterable[Change] = ()) -> tuple[ListSigner, ...]:
    """Return all signers except the archived ones, in order of creation, without seeds.

    The result is what a read would return after the changes `changed`.
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
    """Read the signers with these identifiers, archived or not; leave out what does not exist.

    If one is missing, read all once more: a write may just be moving it into the archive or back.
    """
    addresses = [signers(tenant_id), *(archive(tenant_id, status) for status in ENDED)]
    keys = [address.address(each) for address in addresses for each in key_ids]
    items = ports.store.get_many(keys)
    if len({key.sk for key in items}) < len(set(key_ids)):
        operation.wait_for_writes()
        items = ports.store.get_many(keys)
    return {key.sk: ListSigner.from_item(item) for key, item in items.items()}


def replaced(before: ListSigner, after: ListSigner) -> list[Change]:
    """Return the changes that replace `before`, in the version that was read, by `after`."""
    if before.address == after.address:
        return [Put(after.address, after.to_item(), At(before.version))]
    moved = Put(after.address, after.to_item(), Expect.ABSENT)
    return [moved, Delete(before.address, At(before.version))]


def next_number(records: Iterable[ListSigner]) -> int:
    """Return the number of the next statement, higher than those of all statements so far.

    `records` are all signers except the archived ones.
    """
    records = list(records)
    forms = (each.statement for each in records if each.statement is not None)
    return 1 + max(len(records), highest(forms))


def vouched(
    ports: Ports, new: ListSigner, by: ListSigner, records: Iterable[ListSigner]
) -> ListSigner:
    """Add a statement by the signer `by` to a new one, if the seed of `by` opens.

    `records` are all signers except the archived ones. Raises `Unavailable`.
    """
    try:
        seed = seals.opened(ports, by)
    except Corrupt:
        # If the key that sealed the seed is lost, only a rotation helps; so do not fail.
        _log.warning("the seed of the list signer does not open; its successor has no statement")
        return new
    statement = Statement(
        tenant_id=new.tenant_id,
        number=next_number(records),
        key_id=new.id,
        public_key=new.public_bytes,
        previous=by.public_bytes,
        issued_at=new.created_at,
    )
    return replace(new, statement=statement.signed(seed=seed))


def make(ports: Ports, tenant_id: str, status: Status = Status.ACTIVE) -> ListSigner:
    """Create a signer with a sealed seed, without storing it. Raises `Unavailable`."""
    key_id = ports.new_id(SIGNING_KEY)
    seed, public_key = seeds.new()
    context = seeds.seal_context(tenant_id, key_id, purpose=Purpose.SRL)
    sealed = ports.sealer.seal(seed, context=context)
    return ListSigner(key_id, tenant_id, public_key, status, ports.now(), sealed)
