"""The token buckets of the rate limit, shared by all instances (AUTH-6)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shared.model.rate_limit import Bucket


@dataclass(frozen=True, slots=True)
class Lease:
    """The tokens taken, and when the bucket is full, in microseconds since the epoch.

    `refilled` means that the stored time was implausibly late, so the bucket was refilled.
    """

    granted: int
    full_at: int
    refilled: bool = False


def grant(full_at: int, tokens: int, *, now: int, reserve: int, least: int) -> Lease:
    """Return the lease from a bucket that is full at `full_at`; see `TokenBuckets.lease`.

    The bucket must be stored with the new `full_at` if tokens were granted.
    """
    bucket = Bucket(full_at, now)
    refilled = not bucket.is_credible
    if refilled:
        bucket = Bucket(now, now)
    granted = min(tokens, bucket.available_above(reserve))
    if granted < least:
        return Lease(0, bucket.full_at)
    return Lease(granted, bucket.take(granted).full_at, refilled)


class TokenBuckets(Protocol):
    """Named buckets, initially full with `shared.model.rate_limit.BURST` tokens.

    - All instances together never get more tokens than the bucket has.
    - A `full_at` of more than `FULL_AT_MAX` in the future comes from a wrong clock. The bucket then
      counts as full and is overwritten.
    - Taking tokens needs one conditional write and no read. Only a bucket that is full, new, or
      short of tokens costs a second write.
    - Every failure raises `Unavailable`.
    - The buckets can be shared between threads.
    """

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0, least: int = 1) -> Lease:
        """Take up to `tokens` (at least 1) at `now`, in microseconds since the epoch.

        `reserve` tokens stay in the bucket. If fewer than `tokens` are available, all available
        tokens are taken, or none if they are fewer than `least`. Raises `Unavailable`.
        """
        ...


@dataclass(frozen=True, slots=True)
class UsageDelta:
    """A number of uses of an API key, with the last use at `last_used_at`.

    `late` means that another instance may already have written a later use.
    """

    tenant_id: str
    key_id: str
    requests: int
    last_used_at: datetime
    late: bool = False


class UsageCounts(Protocol):
    """The number of uses and the last use of each API key.

    - A count is written in one short attempt without retry, even if the outcome is unknown. A count
      that is too low is better than one that is too high, or a caller that waits.
    - A late count does not replace a later `last_used_at`.
    - The count of a deleted key changes nothing and raises no error.
    - `Unavailable` is raised if the count could not be written. It may still have been written.
    - The counts can be shared between threads.
    """

    def add(self, usage: UsageDelta) -> None:
        """Add to the count. Raises `Unavailable`."""
        ...
