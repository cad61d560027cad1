"""Where the rate limit of each tenant is kept, for all instances together."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Lease:
    """What a bucket gave, and when it is full again, in microseconds since the epoch."""

    granted: int
    full_at: int


class TokenBuckets(Protocol):
    """One bucket a name, each `shared.model.rate_limit.BURST` tokens deep and full at first.

    - All instances together never get more tokens than there are.
    - Tokens are taken in one conditional write, without a read before it; only a bucket that is
      full, new, or short of tokens costs a second one.
    - Whatever cannot be answered is `Unavailable`.
    - Safe to share between threads.
    """

    def lease(self, name: str, tokens: int, *, now: int) -> Lease:
        """Take up to `tokens` (at least 1) at `now`, in microseconds since the epoch.

        All of them where there are as many, else all there are, else none. Raises `Unavailable`.
        """
        ...
