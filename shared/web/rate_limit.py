"""The rate limit of tenants: buckets shared by all instances (AUTH-6).

Only admin keys may take the last tenth of a tenant's bucket (AUTH-8). Every other key has a share
of the lower half (AUTH-15). A write per request would make the item of the bucket a bottleneck, so
an instance leases tokens in advance. It leases its recent use in a tenth of a second, or less if
few tokens are left. Unused tokens lapse after a second. An instance that gets too few tokens waits
a short time before its next lease.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import SystemRandom
from typing import Final

from shared import logs
from shared.errors import RateLimited, Unavailable
from shared.model.rate_limit import (
    BURST,
    SECOND,
    Bucket,
    BucketUser,
    RateLimitHeaders,
    is_of_another_clock,
    microseconds,
)
from shared.operations.base import allowance
from shared.ports import Ports
from shared.ports.token_buckets import Lease
from shared.web.work import IN_PLACE, Work, WorkKind

_log = logging.getLogger(__name__)

# Limits the memory. The least recently used bucket is dropped first.
_BUCKETS_MAX: Final = 10_000
_WINDOW: Final = SECOND // 10
# An instance leases at most the remaining tokens divided by this, but at least `_LEASE_LEAST`. The
# share is small because lapsed tokens are lost to all instances.
_SHARE: Final = 32
_LEASE_LEAST: Final = 8
_LAPSE: Final = SECOND
_REFUSED_MIN: Final = SECOND // 10
_REFUSED_MAX: Final = 4 * SECOND // 10
_RETRY_AFTER_SECONDS: Final = 1
# The generator of the module has the same state in every restored snapshot.
_JITTER: Final = SystemRandom()
_OPEN: Final = logs.fields(metrics={"RateLimitBypassed": 1})


@dataclass(slots=True)
class _LocalBucket:
    """This instance's leased tokens for a holder, and the holder's recent rate of use.

    The holder may not take the last `reserve` tokens of the bucket.
    """

    reserve: int = 0
    full_at: int = 0
    leased: int = 0
    lapses_at: int = 0
    short: bool = False
    refused_until: int = 0
    window: int = 0
    used: int = 0
    used_before: int = 0
    # While one request leases tokens, the others wait for them.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def count(self, now: int) -> None:
        """Count a request in the current tenth of a second."""
        window = now // _WINDOW
        if window != self.window:
            self.used_before = self.used if window == self.window + 1 else 0
            self.window, self.used = window, 0
        self.used += 1

    def add_tokens(self, tokens: int, now: int) -> None:
        """Keep this number of tokens until they lapse."""
        self.leased, self.lapses_at = tokens, now + _LAPSE

    def enter(self, lease: Lease, wanted_count: int, now: int) -> None:
        """Keep the leased tokens.

        If they are fewer than `wanted_count`, the bucket is empty and the next lease is delayed.
        """
        self.full_at = lease.full_at
        self.add_tokens(lease.granted, now)
        was_short, self.short = self.short, lease.granted < wanted_count
        if self.short:
            # Two short leases in a row indicate contention, so wait for a random time.
            wait = _JITTER.randint(_REFUSED_MIN, _REFUSED_MAX) if was_short else _REFUSED_MIN
            self.refused_until = now + wait

    def in_hand(self, now: int) -> int:
        """Return the leased tokens; 0 if they lapsed or come from a clock in the future."""
        lapsed = now >= self.lapses_at
        return 0 if lapsed or is_of_another_clock(self.lapses_at, now) else self.leased

    def is_refused(self, now: int) -> bool:
        """Return whether it is too early for the next lease; false if the clock stepped back."""
        return now < self.refused_until <= now + _REFUSED_MAX

    def tokens_to_lease(self, now: int) -> int:
        """Return the number of tokens to lease: the recent use in a tenth of a second, limited."""
        left = Bucket(self.full_at, now).available_above(self.reserve)
        return min(max(self.used, self.used_before), max(left // _SHARE, _LEASE_LEAST))

    def figures(self, now: int) -> RateLimitHeaders:
        """Return the values for the headers. While leasing is delayed, count only leased tokens."""
        bucket = Bucket(self.full_at, now)
        known = RateLimitHeaders.of(
            bucket if bucket.is_credible else Bucket(now, now),
            lease=self.in_hand(now),
            reserve=self.reserve,
        )
        if not self.is_refused(now):
            return known
        return RateLimitHeaders(min(known.remaining, self.in_hand(now)), known.reset)


class TenantLimiter:
    """Leases tokens from the shared buckets of tenants for this instance.

    `work` calls the buckets. All other code runs in one thread.
    """

    def __init__(self, ports: Callable[[], Ports], work: Work = IN_PLACE) -> None:
        self._ports = ports
        self._work = work
        self._buckets: OrderedDict[BucketUser, _LocalBucket] = OrderedDict()

    def look(self, holder: BucketUser) -> RateLimitHeaders:
        """Return the header values that this instance knows."""
        bucket = self._buckets.get(holder) or _LocalBucket(reserve=holder.reserve)
        return bucket.figures(self._now())

    async def take(self, holder: BucketUser) -> None:
        """Take a token for a request of `holder`.

        Raises `RateLimited` if there is none. If the buckets are unavailable, the request is
        admitted and a line is logged (AUTH-10).
        """
        bucket = self._buckets.get(holder)
        if bucket is None:
            bucket = self._buckets[holder] = _LocalBucket(reserve=holder.reserve)
        self._buckets.move_to_end(holder)
        if len(self._buckets) > _BUCKETS_MAX:
            self._buckets.popitem(last=False)
        bucket.count(self._now())
        async with bucket.turn:
            now = self._now()
            if not bucket.in_hand(now):
                await self._lease(holder, bucket, now)
            bucket.leased -= 1

    async def _lease(self, holder: BucketUser, bucket: _LocalBucket, now: int) -> None:
        if bucket.is_refused(now):
            raise RateLimited(retry_after=_RETRY_AFTER_SECONDS)
        wanted = bucket.tokens_to_lease(now)
        try:
            lease = await self._work(
                partial(allowance.lease, self._ports().buckets, holder, wanted, now=now),
                WorkKind.ADMISSION,
                tenant_id=holder.tenant_id,
            )
        except Unavailable:
            _log.exception(
                "cannot read the rate limit; admitting for one second without it",
                extra=_OPEN,
            )
            bucket.add_tokens(BURST, now)
            return
        if is_of_another_clock(lease.full_at, now):
            _log.error(
                "the rate limit is ahead of this clock; admitting for one second without it",
                extra=_OPEN,
            )
            bucket.add_tokens(BURST, now)
            return
        if lease.refilled:
            _log.error(
                "a rate limit was written by a clock that was ahead; resetting it",
                extra=_OPEN,
            )
        bucket.enter(lease, wanted, now)
        if not lease.granted:
            raise RateLimited(retry_after=_RETRY_AFTER_SECONDS)

    def _now(self) -> int:
        return microseconds(self._ports().now())
