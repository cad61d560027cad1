"""Token buckets of unauthenticated clients by source address (AUTH-9).

Functions that load no web framework use this too.
"""

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from threading import Lock
from typing import Final

from shared.errors import RateLimited
from shared.model.rate_limit import (
    BURST,
    INTERVAL,
    RATE_PER_SECOND,
    Bucket,
    RateLimitHeaders,
    microseconds,
)

# Limits the memory. The least recently used bucket is dropped first.
_BUCKETS_MAX: Final = 10_000
_RETRY_AFTER_SECONDS: Final = 1


class AnonymousLimiter:
    """Thread-safe buckets in the memory of this instance, one per source address.

    Each request takes `cost` tokens.
    """

    def __init__(self, now: Callable[[], datetime], *, cost: int = 1) -> None:
        self._now, self._cost = now, cost
        self._full_at: OrderedDict[str, int] = OrderedDict()
        self._turn = Lock()

    def look(self, address: str) -> RateLimitHeaders:
        """Return the values for the headers, without taking a token."""
        return RateLimitHeaders.of(self._bucket(address))

    def take(self, address: str) -> None:
        """Take the tokens of a request. Raises `RateLimited` if there are too few."""
        with self._turn:
            bucket = self._bucket(address)
            has_enough = bucket.tokens >= self._cost
            left = bucket.take(self._cost) if has_enough else bucket
            self._full_at[address] = left.full_at
            self._full_at.move_to_end(address)
            if len(self._full_at) > _BUCKETS_MAX:
                self._full_at.popitem(last=False)
        if not has_enough:
            raise RateLimited(retry_after=_RETRY_AFTER_SECONDS)

    def _bucket(self, address: str) -> Bucket:
        now = microseconds(self._now())
        # If the clock stepped back, the bucket is at most empty.
        return Bucket(min(self._full_at.get(address, now), now + BURST * INTERVAL), now)


def headers(figures: RateLimitHeaders) -> list[tuple[bytes, bytes]]:
    """Return the headers for the bucket of the request (AUTH-7)."""
    return [
        (b"x-ratelimit-limit", b"%d" % RATE_PER_SECOND),
        (b"x-ratelimit-remaining", b"%d" % figures.remaining),
        (b"x-ratelimit-reset", b"%d" % figures.reset),
    ]
