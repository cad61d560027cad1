"""What is stored of authorizers."""

from shared.model.fleet.authorizers import Authorizer, authorizers
from tests.kit.api import Tenant


def stored(tenant: Tenant, authorizer_id: str) -> Authorizer:
    """The authorizer as it is stored."""
    item = tenant.ports.store.get(authorizers(tenant.id).address(authorizer_id))
    assert item is not None
    return Authorizer.from_item(item)
