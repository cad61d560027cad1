"""Rate limits of tenants (AUTH-6, AUTH-14), and checks of role limits."""

import logging
from collections.abc import Iterable
from datetime import datetime
from math import ceil
from typing import Final, TypeVar

from shared import logs
from shared.errors import (
    InsufficientScope,
    InvalidRequest,
    InvalidState,
    NotFound,
    RateLimited,
    Unavailable,
)
from shared.model import times
from shared.model.callers import Caller
from shared.model.identifiers import is_identifier
from shared.model.items import Partition
from shared.model.rate_limit import (
    HALF,
    RATE_PER_SECOND,
    BucketPurpose,
    BucketUser,
    is_of_another_clock,
    microseconds,
)
from shared.model.records import Record
from shared.ports import Ports
from shared.ports.token_buckets import Lease, TokenBuckets

_log = logging.getLogger(__name__)

_NOT_NEEDED: Final = "This action requires no approval; omit Rescind-Approval."
_OPEN: Final = logs.fields(metrics={"RateLimitBypassed": 1})
# A key takes this many tokens from its own bucket for each token from the tenant's bucket, which
# gives it half the rate. `HALF` of its tokens must stay, which gives it half of half the burst.
_OWN: Final = 2
_NOT_REACHED: Final = "Your role does not include this warrant or signing key."


R = TypeVar("R", bound=Record)


def lease(
    buckets: TokenBuckets, holder: BucketUser, tokens: int, *, now: int, least: int = 1
) -> Lease:
    """Take up to `tokens` from the tenant's bucket for `holder`, or none if fewer than `least`.

    A key without admin scope may take the tokens above `HALF`. Below that it takes at most half of
    the rate, so other callers find tokens (AUTH-15). Raises `Unavailable`.
    """
    if holder.key_id is None:
        return buckets.lease(holder.bucket, tokens, now=now, least=least)
    free = buckets.lease(holder.bucket, tokens, now=now, reserve=HALF, least=least)
    rest = tokens - free.granted
    if not rest or is_of_another_clock(free.full_at, now):
        return free
    least = 1 if free.granted else least
    own = buckets.lease(holder.own_bucket, _OWN * rest, now=now, reserve=HALF, least=_OWN * least)
    # The tokens that the holder may take from the lower half.
    share = rest if is_of_another_clock(own.full_at, now) else own.granted // _OWN
    if not share:
        return free
    more = buckets.lease(holder.bucket, share, now=now, reserve=holder.reserve, least=least)
    return Lease(free.granted + more.granted, more.full_at, free.refilled or more.refilled)


def take(ports: Ports, caller: Caller, purpose: BucketPurpose, cost: int) -> None:
    """Take `cost` tokens (at least 1) from the tenant's bucket for `purpose`, or none.

    Raises `RateLimited`. The request is allowed, and an error is logged, if the buckets are
    unavailable or were written by a clock that was ahead (AUTH-10).
    """
    now = microseconds(ports.now())
    try:
        taken = lease(ports.buckets, BucketUser.of(caller, purpose), cost, now=now, least=cost)
    except Unavailable:
        _log.exception("cannot read the rate limit; admitting the request without it", extra=_OPEN)
        return
    if is_of_another_clock(taken.full_at, now):
        _log.error(
            "the rate limit is ahead of this clock; admitting the request without it", extra=_OPEN
        )
    elif not taken.granted:
        rate = RATE_PER_SECOND if caller.is_admin else RATE_PER_SECOND // _OWN
        raise RateLimited(retry_after=ceil(cost / rate))


def find(ports: Ports, partition: Partition, identifier: str, *, kind: str, record: type[R]) -> R:
    """Read the record with an identifier of `kind` from a partition of the caller's tenant.

    Raises `NotFound`, with no difference between a record of another tenant and no record.
    """
    item = None
    # No record has a malformed identifier, and some are not valid as store keys.
    if is_identifier(identifier, kind=kind):
        item = ports.store.get(partition.address(identifier))
    if item is None:
        raise NotFound
    return record.from_item(item)


def check_warrants(caller: Caller, warrant_ids: Iterable[str]) -> None:
    """Raise `InsufficientScope` if the caller's role limits exclude a warrant (AUTH-18)."""
    if fault := next(filter(None, (fault_of_warrant(caller, each) for each in warrant_ids)), None):
        raise fault


def fault_of_warrant(caller: Caller, warrant_id: str) -> InsufficientScope | None:
    """Return an error if the caller's role limits exclude a warrant (AUTH-18)."""
    return None if caller.reaches_warrant(warrant_id) else InsufficientScope((), _NOT_REACHED)


def check_key(caller: Caller, line: Iterable[str]) -> None:
    """Raise `InsufficientScope` if the role limits exclude a key; `line` adds its ancestors."""
    if not caller.reaches_key(*line):
        raise InsufficientScope((), _NOT_REACHED)


def check_asks_nothing(caller: Caller) -> None:
    """Raise `InvalidState` if the call requests an unnecessary approval."""
    if caller.asks_approval:
        raise InvalidState(_NOT_NEEDED)


def check_end(ports: Ports, expires_at: datetime | None) -> None:
    """Check an optional expiry (API-17).

    Raises `InvalidRequest` if it is not in the future.
    """
    if times.has_passed(expires_at, ports.now()):
        raise InvalidRequest("expires_at: must be in the future.")
