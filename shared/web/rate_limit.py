"""The rate limit of this instance: a bucket per tenant, and one per address without a valid key."""

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Final

from shared.errors import RateLimited
from shared.model.rate_limit import RATE_PER_SECOND, Bucket

# Bounds the memory that strangers can take; the bucket longest unused is forgotten first.
_BUCKETS_MAX: Final = 10_000
_RETRY_AFTER_SECONDS: Final = 1


class Limiter:
    """Buckets in memory, found by tenant or by source address."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._full_at: OrderedDict[str, int] = OrderedDict()

    def take(self, name: str) -> Bucket:
        """Take a token from the bucket of `name`. Raises `RateLimited` where it has none."""
        taken = self.look(name).take()
        if taken is None:
            raise RateLimited(retry_after=_RETRY_AFTER_SECONDS)
        self._full_at[name] = taken.full_at
        self._full_at.move_to_end(name)
        if len(self._full_at) > _BUCKETS_MAX:
            self._full_at.popitem(last=False)
        return taken

    def look(self, name: str) -> Bucket:
        """The bucket of `name` as it stands."""
        now = int(self._now().timestamp() * 1_000_000)
        return Bucket(self._full_at.get(name, now), now)


def headers(bucket: Bucket) -> dict[str, str]:
    """What every response says of the bucket that its request drew on (service.md 8)."""
    return {
        "X-RateLimit-Limit": str(RATE_PER_SECOND),
        "X-RateLimit-Remaining": str(bucket.remaining),
        "X-RateLimit-Reset": str(bucket.reset),
    }
