"""Lost roots: the service makes no other by itself, and an operator lets documents begin anew."""

from shared.model import trust as model
from shared.model.audit.audit_log import Action
from shared.model.callers import Caller
from shared.operations.base import audit, tenants
from shared.operations.base.operation import settle
from shared.operations.trust import documents
from shared.ports import Ports
from shared.ports.store import At, Delete


def has_documents(ports: Ports) -> bool:
    """Return whether a root has signed a document for any tenant. Raises `Unavailable`."""
    return any(
        documents.head(ports, each.tenant_id) is not None
        or documents.highest(ports, each.tenant_id) > 0
        for each in tenants.directory(ports)
    )


def begin_anew(ports: Ports, caller: Caller) -> bool:
    """Forget the documents of lost roots, so that the next one is the first of others (TRUST-21).

    Clients then need another pin. Returns whether there was a document. Raises `Corrupt`,
    `Unavailable`.
    """

    def attempt() -> bool:
        head = documents.head(ports, caller.tenant_id)
        if head is None:
            return False
        ports.store.write(
            Delete(model.head_address(caller.tenant_id), At(head.version)),
            audit.entry(
                ports,
                caller,
                Action.TRUST_BEGIN_ANEW,
                f"trust/{head.version}",
                settings=tenants.settings(ports, caller.tenant_id),
                pin=head.pin,
            ),
        )
        return True

    return settle(attempt)
