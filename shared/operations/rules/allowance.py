"""Requests that cost more than one token of a bucket of the rate limit (AUTH-6, SRL-14)."""

import logging
from math import ceil
from typing import Final

from shared import logs
from shared.errors import RateLimited, Unavailable
from shared.model.rate_limit import RATE_PER_SECOND, is_of_another_clock, microseconds
from shared.ports import Ports

_log = logging.getLogger(__name__)

_OPEN: Final = logs.fields(metrics={"LimiterOpen": 1})


def take(ports: Ports, bucket: str, cost: int, *, reserve: int = 0) -> None:
    """Take `cost` tokens (at least 1) of a bucket, or none; `reserve` tokens must stay.

    Raises `RateLimited`. If the buckets are unavailable, or a clock that was ahead has written this
    one, the request is allowed and an error is logged (AUTH-10).
    """
    now = microseconds(ports.now())
    try:
        # Take one token only if all are available: a rejected request must not use up the rest.
        lease = ports.buckets.lease(bucket, 1, now=now, reserve=reserve + cost - 1)
        if is_of_another_clock(lease.full_at, now):
            _log.error("the allowance is ahead of this clock; going on without it", extra=_OPEN)
            return
        if not lease.granted:
            raise RateLimited(retry_after=ceil(cost / RATE_PER_SECOND))
        if cost > 1:
            ports.buckets.lease(bucket, cost - 1, now=now, reserve=reserve)
    except Unavailable:
        _log.exception("the allowance cannot be read; going on without it", extra=_OPEN)
