"""Where the rate limit of each tenant is kept, for all instances together."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Lease:
    """What a bucket gave, and when it is full again, in microseconds since the epoch.

    `refilled` says that the bucket was ahead of every credible clock, and was filled anew.
    """

    granted: int
    full_at: int
    refilled: bool = False


class TokenBuckets(Protocol):
    """One bucket a name, each `shared.model.rate_limit.BURST` tokens deep and full at first.

    - All instances together never get more tokens than there are.
    - A bucket that is full more than `FULL_AT_MAX` from now was written under a wrong clock: it is
      taken for a full one, and overwritten.
    - Tokens are taken in one conditional write, without a read before it; only a bucket that is
      full, new, or short of tokens costs a second one.
    - Whatever cannot be answered is `Unavailable`.
    - Safe to share between threads.
    """

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0) -> Lease:
        """Take up to `tokens` (at least 1) at `now`, in microseconds since the epoch.

        `reserve` tokens stay in the bucket. Grants all that are asked for if there are as many,
        else all there are, else none. Raises `Unavailable`.
        """
        ...
