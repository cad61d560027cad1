"""Proof of propagation: whether each authorizer refuses a revoked warrant (FLEET-10)."""

from typing import NamedTuple

from shared.model.callers import Caller, Scope
from shared.model.fleet.propagation import Propagation
from shared.model.revocations import Revocation
from shared.operations.base.operation import operation
from shared.operations.changes import revocations
from shared.operations.fleet import propagation
from shared.operations.lists.reach import Traced
from shared.ports import Ports


class Progress(NamedTuple):
    """A revocation, from where on clients refuse its warrant, and who is known to refuse it."""

    revocation: Revocation
    traced: Traced
    propagation: Propagation


@operation(Scope.ADMIN, Scope.REVOKER, Scope.AUDITOR)
def of_revocation(ports: Ports, caller: Caller, *, revocation_id: str) -> Progress:
    """Return how far a revocation has got among the authorizers (FLEET-10).

    Raises `NotFound`; `Corrupt`, `Unavailable`: a fault is never reported as complete.
    """
    record = revocations.record(ports, caller, revocation_id=revocation_id)
    return Progress(record, *propagation.of_revocation(ports, caller.tenant_id, record))
