"""The rate limit of publications that a tenant requests (SRL-14, docs/adr/0035)."""

import logging
from math import ceil
from typing import Final

from shared import logs
from shared.errors import RateLimited, Unavailable
from shared.model.callers import Caller, Scope
from shared.model.rate_limit import (
    BURST,
    RATE_PER_SECOND,
    Purpose,
    is_of_another_clock,
    microseconds,
)
from shared.operations.rules.operation import operation
from shared.operations.srl import in_force
from shared.ports import Ports

_log = logging.getLogger(__name__)

# The cost of a publication in tokens, about its CPU time in milliseconds: a fixed part, and one
# token per so many warrants on the list. The bucket gains RATE_PER_SECOND tokens a second.
_LEAST: Final = 40
_WARRANTS_A_TOKEN: Final = 500
_OPEN: Final = logs.fields(metrics={"LimiterOpen": 1})


@operation(Scope.ADMIN)
def take(ports: Ports, caller: Caller) -> None:
    """Take the cost of a publication from the tenant's bucket. Raises `RateLimited`.

    This bucket is not that of requests, and the schedule does not use it. If the buckets are
    unavailable, or a clock that was ahead has written this one, the publication is allowed and an
    error is logged.
    """
    count = in_force.head(ports, caller.tenant_id).count
    cost = min(BURST, _LEAST + count // _WARRANTS_A_TOKEN)
    name, now = Purpose.PUBLICATIONS.bucket(caller.tenant_id), microseconds(ports.now())
    try:
        # Take one token only if all are available: a rejected request must not use up the rest.
        lease = ports.buckets.lease(name, 1, now=now, reserve=cost - 1)
        if is_of_another_clock(lease.full_at, now):
            _log.error("the allowance is ahead of this clock; publishing without it", extra=_OPEN)
            return
        if not lease.granted:
            raise RateLimited(retry_after=ceil(cost / RATE_PER_SECOND))
        ports.buckets.lease(name, cost - 1, now=now)
    except Unavailable:
        _log.exception("the allowance cannot be read; publishing without it", extra=_OPEN)
