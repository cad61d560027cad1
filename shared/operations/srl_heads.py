"""Which list of a tenant is in force."""

from shared.errors import Corrupt
from shared.model import srl
from shared.model.srl import Head
from shared.ports import Ports


def current(ports: Ports, tenant_id: str) -> Head:
    """The head of the tenant: which list is in force. Raises `Corrupt` if there is none."""
    item = ports.store.get(srl.head_key(tenant_id))
    if item is None:
        raise Corrupt("a tenant has no published list")
    return Head.from_item(item)
