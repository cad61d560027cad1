"""The rate limit of publications that a tenant requests (SRL-14, docs/adr/0035)."""

from typing import Final

from shared.model.callers import Caller, Scope
from shared.model.rate_limit import BURST, Purpose
from shared.operations.rules import allowance
from shared.operations.rules.operation import operation
from shared.operations.srl import in_force
from shared.ports import Ports

# The cost of a publication in tokens, about its CPU time in milliseconds: a fixed part, and one
# token per so many warrants on the list. The bucket gains RATE_PER_SECOND tokens a second.
_LEAST: Final = 40
_WARRANTS_A_TOKEN: Final = 500


@operation(Scope.ADMIN)
def take(ports: Ports, caller: Caller) -> None:
    """Take the cost of a publication from the tenant's bucket. Raises `RateLimited`.

    This bucket is not that of requests, and the schedule does not use it. If the bucket cannot be
    read, the publication is allowed.
    """
    count = in_force.head(ports, caller.tenant_id).count
    cost = min(BURST, _LEAST + count // _WARRANTS_A_TOKEN)
    allowance.take(ports, caller, Purpose.PUBLICATIONS, cost)
