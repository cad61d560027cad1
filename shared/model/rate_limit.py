"""A token bucket kept as one moment: the generic cell rate algorithm (AUTH-6).

`full_at` is when the bucket will be full again; each token taken puts it off by one interval.
Moments are in microseconds since the epoch.
"""

from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Final, NamedTuple

RATE_PER_SECOND: Final = 1000
BURST: Final = 2000
# The tokens that only admin keys may take, so that no other key keeps the administrator from
# revoking it (AUTH-8).
RESERVE: Final = BURST // 10

SECOND: Final = 1_000_000
INTERVAL: Final = SECOND // RATE_PER_SECOND

# A bucket is full within two seconds. One that is full later than this was written under a clock
# that was ahead, and is filled anew.
FULL_AT_MAX: Final = 15 * 60 * SECOND
# A bucket that is full later than this was written by a clock that does not agree with this one.
_FILLED_WITHIN: Final = 10 * SECOND

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """A moment in microseconds since the epoch."""
    return (moment - _EPOCH) // _MICROSECOND


def is_of_another_clock(full_at: int, now: int) -> bool:
    """Whether no clock that agrees with this one can have written the bucket full at `full_at`.

    Then it says nothing about what was taken from it, and nobody may be refused by it.
    """
    return full_at > now + _FILLED_WITHIN


class Bucket(NamedTuple):
    """A bucket at a moment."""

    full_at: int
    now: int

    @property
    def tokens(self) -> int:
        """The tokens left, from 0 to `BURST`."""
        return max(0, BURST - ceil(max(0, self.full_at - self.now) / INTERVAL))

    @property
    def is_credible(self) -> bool:
        """Whether a clock that agrees with this one can have written it."""
        return self.full_at <= self.now + FULL_AT_MAX

    def above(self, reserve: int) -> int:
        """The tokens left beside `reserve` tokens that must stay."""
        return max(0, self.tokens - reserve)

    def take(self, tokens: int) -> "Bucket":
        """The bucket with that many tokens less; there must be as many."""
        return Bucket(max(self.full_at, self.now) + tokens * INTERVAL, self.now)


class Figures(NamedTuple):
    """What the headers of a response say of the rate limit (AUTH-7)."""

    remaining: int
    reset: int

    @classmethod
    def of(cls, bucket: Bucket, *, leased: int = 0, reserve: int = 0) -> "Figures":
        """The figures of a bucket of which `leased` tokens are in hand, and `reserve` must stay."""
        remaining = min(bucket.above(reserve) + leased, RATE_PER_SECOND)
        return cls(remaining, ceil(max(bucket.full_at, bucket.now) / SECOND))
