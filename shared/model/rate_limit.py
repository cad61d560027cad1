"""A token bucket kept as one moment: the generic cell rate algorithm (decisions 2, rate limit).

`full_at` is when the bucket will be full again; each token taken puts it off by one interval.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

RATE_PER_SECOND: Final = 1000
BURST: Final = 2000

_SECOND: Final = 1_000_000
_INTERVAL: Final = _SECOND // RATE_PER_SECOND


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket at a moment; times are in microseconds since the epoch."""

    full_at: int
    now: int

    @property
    def tokens(self) -> int:
        """The tokens left, from 0 to `BURST`."""
        return BURST - ceil((max(self.full_at, self.now) - self.now) / _INTERVAL)

    def take(self) -> "Bucket | None":
        """The bucket with one token less, or None where there is none left."""
        if self.tokens < 1:
            return None
        return Bucket(max(self.full_at, self.now) + _INTERVAL, self.now)

    @property
    def remaining(self) -> int:
        """What X-RateLimit-Remaining says: tokens left, never more than the limit."""
        return min(self.tokens, RATE_PER_SECOND)

    @property
    def reset(self) -> int:
        """What X-RateLimit-Reset says: the Unix second at which the bucket is full again."""
        return ceil(max(self.full_at, self.now) / _SECOND)
