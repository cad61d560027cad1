"""A token bucket kept as one moment: the generic cell rate algorithm (decisions 2, rate limit).

`full_at` is when the bucket will be full again; each token taken puts it off by one interval.
Moments are in microseconds since the epoch.
"""

from math import ceil
from typing import Final, NamedTuple

RATE_PER_SECOND: Final = 1000
BURST: Final = 2000

SECOND: Final = 1_000_000
INTERVAL: Final = SECOND // RATE_PER_SECOND


class Bucket(NamedTuple):
    """A bucket at a moment."""

    full_at: int
    now: int

    @property
    def tokens(self) -> int:
        """The tokens left, from 0 to `BURST`."""
        return max(0, BURST - ceil(max(0, self.full_at - self.now) / INTERVAL))

    def take(self, tokens: int) -> "Bucket":
        """The bucket with that many tokens less; there must be as many."""
        return Bucket(max(self.full_at, self.now) + tokens * INTERVAL, self.now)


class Figures(NamedTuple):
    """What the headers of a response say of the rate limit (service.md 8)."""

    remaining: int
    reset: int

    @classmethod
    def of(cls, bucket: Bucket, *, leased: int = 0) -> "Figures":
        """The figures of a bucket, of which `leased` tokens are in hand already."""
        remaining = min(bucket.tokens + leased, RATE_PER_SECOND)
        return cls(remaining, ceil(max(bucket.full_at, bucket.now) / SECOND))
