"""How much of what was acknowledged an answer may lack (FEED-12)."""

from shared.model.callers import Caller, Scope
from shared.operations.rules.operation import operation
from shared.operations.srl import unpublished
from shared.operations.srl.unpublished import Look
from shared.ports import Ports


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.REVOKER, Scope.AUDITOR)
def look(ports: Ports, caller: Caller) -> Look:
    """Look at what the tenant's feed lacks. Raises `Corrupt`, `Unavailable`."""
    return unpublished.look(ports, caller.tenant_id)
