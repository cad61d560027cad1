"""The tokens that requests take from a tenant (AUTH-6, AUTH-14), and the limits of roles."""

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

_NOT_NEEDED: Final = "This needs no approval; send the request without Rescind-Approval."
_OPEN: Final = logs.fields(metrics={"RateLimitBypassed": 1})
# A key takes so many tokens of its own bucket for one of the tenant's, so that it has half of the
# rate, and `HALF` of them must stay, so that it has half of half of the burst.
_OWN: Final = 2
_NOT_REACHED: Final = "Your role does not reach this warrant or signing key."


R = TypeVar("R", bound=Record)


def lease(
    buckets: TokenBuckets, holder: BucketUser, tokens: int, *, now: int, least: int = 1
) -> Lease:
    """Take up to `tokens` of the tenant's bucket for `holder`, or none if fewer than `least`.

    A key that is not an admin key may take what is above `HALF`. Below, it takes no more than its
    share: half of the rate, so that others find tokens (AUTH-15). Raises `Unavailable`.
    """
    if holder.key_id is None:
        return buckets.lease(holder.bucket, tokens, now=now, least=least)
    free = buckets.lease(holder.bucket, tokens, now=now, reserve=HALF, least=least)
    rest = tokens - free.granted
    if not rest or is_of_another_clock(free.full_at, now):
        return free
    share = _share(buckets, holder, rest, now=now, least=1 if free.granted else least)
    if not share:
        return free
    more = buckets.lease(
        holder.bucket,
        share,
        now=now,
        reserve=holder.reserve,
        least=1 if free.granted else least,
    )
    return Lease(free.granted + more.granted, more.full_at, free.refilled or more.refilled)


def _share(buckets: TokenBuckets, holder: BucketUser, tokens: int, *, now: int, least: int) -> int:
    """Return how many of these tokens the holder may take of the lower half."""
    own = buckets.lease(holder.own_bucket, _OWN * tokens, now=now, reserve=HALF, least=_OWN * least)
    return tokens if is_of_another_clock(own.full_at, now) else own.granted // _OWN


def take(ports: Ports, caller: Caller, purpose: BucketPurpose, cost: int) -> None:
    """Take `cost` tokens (at least 1) of the tenant's bucket for `purpose`, or none.

    Raises `RateLimited`. If the buckets are unavailable, or a clock that was ahead has written this
    one, the request is allowed and an error is logged (AUTH-10).
    """
    now = microseconds(ports.now())
    try:
        taken = lease(ports.buckets, BucketUser.of(caller, purpose), cost, now=now, least=cost)
    except Unavailable:
        _log.exception("the allowance cannot be read; going on without it", extra=_OPEN)
        return
    if is_of_another_clock(taken.full_at, now):
        _log.error("the allowance is ahead of this clock; going on without it", extra=_OPEN)
    elif not taken.granted:
        rate = RATE_PER_SECOND if caller.is_admin else RATE_PER_SECOND // _OWN
        raise RateLimited(retry_after=ceil(cost / rate))


def find(ports: Ports, partition: Partition, identifier: str, *, kind: str, record: type[R]) -> R:
    """Read the record with an identifier of `kind` from a partition of the caller's tenant.

    Raises `NotFound`, which is the same whether another tenant has the record or none.
    """
    item = None
    # No record has a malformed identifier, and some are not valid as keys of a store.
    if is_identifier(identifier, kind=kind):
        item = ports.store.get(partition.address(identifier))
    if item is None:
        raise NotFound
    return record.from_item(item)


def check_warrants(caller: Caller, warrant_ids: Iterable[str]) -> None:
    """Raise `InsufficientScope` if the role of the caller does not reach these (AUTH-18)."""
    if fault := next(filter(None, (fault_of_warrant(caller, each) for each in warrant_ids)), None):
        raise fault


def fault_of_warrant(caller: Caller, warrant_id: str) -> InsufficientScope | None:
    """Return the error if the role of the caller does not reach a warrant (AUTH-18)."""
    return None if caller.reaches_warrant(warrant_id) else InsufficientScope((), _NOT_REACHED)


def check_key(caller: Caller, line: Iterable[str]) -> None:
    """Raise `InsufficientScope` if the role does not reach a key, named with all above it."""
    if not caller.reaches_key(*line):
        raise InsufficientScope((), _NOT_REACHED)


def check_asks_nothing(caller: Caller) -> None:
    """Raise `InvalidState` if the call asks for an approval, so that it is not made."""
    if caller.asks_approval:
        raise InvalidState(_NOT_NEEDED)


def check_end(ports: Ports, expires_at: datetime | None) -> None:
    """Check an optional time of expiry (API-17).

    Raises `InvalidRequest` if it is not in the future.
    """
    if times.has_passed(expires_at, ports.now()):
        raise InvalidRequest("expires_at: must be in the future.")
