"""The token buckets of the rate limit, shared by all instances (AUTH-6)."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Lease:
    """The tokens that were taken, and when the bucket is full, in microseconds since the epoch.

    `refilled`: the stored value was later than any credible clock, and the bucket was filled again.
    """

    granted: int
    full_at: int
    refilled: bool = False


class TokenBuckets(Protocol):
    """A bucket for each name, full at first with `shared.model.rate_limit.BURST` tokens.

    - All instances together never get more tokens than the bucket has.
    - A bucket whose `full_at` is more than `FULL_AT_MAX` ahead was written by a wrong clock: it
      counts as full, and is overwritten.
    - Tokens are taken with one conditional write, without a read. Only a bucket that is full, new,
      or short of tokens costs a second write.
    - Every failure raises `Unavailable`.
    - It is safe to share between threads.
    """

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0, least: int = 1) -> Lease:
        """Take up to `tokens` (at least 1) at `now`, in microseconds since the epoch.

        `reserve` tokens stay in the bucket. If there are fewer than `tokens`, all that are there
        are taken, but none if they are fewer than `least`. Raises `Unavailable`.
        """
        ...
