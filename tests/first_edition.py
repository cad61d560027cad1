"""A tenant's revoked keys put back into the one item in which the first edition had them."""

from shared.model import revoked_signers as model
from shared.model.revoked_signers import Count, FirstEdition
from shared.operations.rules import revoked_signers
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put


def as_first_edition(ports: Ports, tenant_id: str) -> None:
    """Put a tenant's revoked keys back into one item; at most 99."""
    address = model.count_address(tenant_id)
    signers = revoked_signers.read(ports, tenant_id)
    version = Count.of(ports.store.get(address)).version
    gone = [Delete(model.markers(tenant_id).address(each), Expect.PRESENT) for each in signers]
    item = FirstEdition(signers, version).to_item()
    ports.store.write(Put(address, item, Expect.ANYTHING), *gone)
