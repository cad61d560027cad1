"""The token buckets of the rate limit, shared by all instances (AUTH-6)."""

from dataclasses import dataclass
from datetime import datetime
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

        `reserve` tokens stay in the bucket. If there are fewer than `tokens`, the rest is taken,
        but nothing if it is less than `least`. Raises `Unavailable`.
        """
        ...


@dataclass(frozen=True, slots=True)
class UsageDelta:
    """A number of uses of an API key, the last of them at `last_used_at`.

    `late`: another instance may have written a later use already.
    """

    tenant_id: str
    key_id: str
    requests: int
    last_used_at: datetime
    late: bool = False


class UsageCounts(Protocol):
    """How often each API key was used, and when it was last used.

    - A count is written in one short attempt. If its outcome is unknown, the attempt is not
      repeated: a count that is too low is better than one that is too high, or a caller who waits.
    - A late count does not replace a later `last_used_at`.
    - The count of a deleted key changes nothing and raises nothing.
    - `Unavailable` is raised if a count could not be written; it may have been counted
      nevertheless.
    - It is safe to share between threads.
    """

    def add(self, usage: UsageDelta) -> None:
        """Add to the count. Raises `Unavailable`."""
        ...
