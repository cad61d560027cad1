"""A token bucket stored as one time: the generic cell rate algorithm (AUTH-6).

`full_at` is the time when the bucket will be full again. Each token taken moves it later by one
interval. Times are in microseconds since the epoch.
"""

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import ceil
from typing import Final, NamedTuple

from shared.model.callers import Caller

RATE_PER_SECOND: Final = 1000
BURST: Final = 2000
# Tokens reserved for admin keys. Otherwise another key could prevent the administrator from
# revoking it (AUTH-8).
RESERVE: Final = BURST // 10
# Below this level, each non-admin key has a separate share (AUTH-15).
HALF: Final = BURST // 2

SECOND: Final = 1_000_000
INTERVAL: Final = SECOND // RATE_PER_SECOND

# A bucket is full within two seconds. A `full_at` later than this was written by a clock that was
# ahead, and the bucket is refilled.
FULL_AT_MAX: Final = 15 * 60 * SECOND
# A `full_at` later than this was written by a clock that disagrees with this one.
_FILLED_WITHIN: Final = 10 * SECOND

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """Return a time in microseconds since the epoch."""
    return (moment - _EPOCH) // _MICROSECOND


def is_of_another_clock(full_at: int, now: int) -> bool:
    """Return whether `full_at` was written by a clock that disagrees with this one.

    Such a value does not show how many tokens were taken, so it must not cause a rejection.
    """
    return full_at > now + _FILLED_WITHIN


class BucketPurpose(StrEnum):
    """The use of the tokens of a bucket. A tenant has a bucket for each purpose."""

    REQUESTS = ""
    # Polls of the feed, by authorizers that never stop polling (AUTH-11).
    FEED = "#feed"
    # Registrations and heartbeats of authorizers (AUTH-12).
    HEARTBEATS = "#heartbeats"
    # SRLs published early (SRL-14).
    PUBLICATIONS = "#publications"

    def bucket(self, tenant_id: str) -> str:
        """Return the name of the tenant's bucket for this purpose."""
        return f"{tenant_id}{self.value}"


class BucketUser(NamedTuple):
    """A consumer of tokens of a tenant's bucket. `key_id` is None for all admin keys together.

    For a session, `key_id` is the person or the account that owns it.
    """

    tenant_id: str
    purpose: BucketPurpose
    key_id: str | None

    @classmethod
    def of(cls, caller: Caller, purpose: BucketPurpose) -> "BucketUser":
        """Return the bucket user for a caller."""
        return cls(caller.tenant_id, purpose, None if caller.is_admin else caller.holder_id)

    @property
    def reserve(self) -> int:
        """The tokens that this user must leave in the bucket (AUTH-8)."""
        return 0 if self.key_id is None else RESERVE

    @property
    def bucket(self) -> str:
        """The name of the tenant's bucket."""
        return self.purpose.bucket(self.tenant_id)

    @property
    def own_bucket(self) -> str:
        """The name of the key's separate bucket, which admin keys do not have."""
        return f"{self.bucket}#{self.key_id}"


class Bucket(NamedTuple):
    """The state of a bucket at the time `now`."""

    full_at: int
    now: int

    @property
    def tokens(self) -> int:
        """The tokens left, from 0 to `BURST`."""
        return max(0, BURST - ceil(max(0, self.full_at - self.now) / INTERVAL))

    @property
    def is_credible(self) -> bool:
        """Whether `full_at` is credible: at most `FULL_AT_MAX` ahead."""
        return self.full_at <= self.now + FULL_AT_MAX

    def available_above(self, reserve: int) -> int:
        """Return the number of tokens left, without the `reserve`."""
        return max(0, self.tokens - reserve)

    def take(self, tokens: int) -> "Bucket":
        """Return the bucket without `tokens` tokens. It must have that many."""
        return Bucket(max(self.full_at, self.now) + tokens * INTERVAL, self.now)


class RateLimitHeaders(NamedTuple):
    """The values of the rate limit headers of a response (AUTH-7)."""

    remaining: int
    reset: int

    @classmethod
    def of(cls, bucket: Bucket, *, lease: int = 0, reserve: int = 0) -> "RateLimitHeaders":
        """Return the values for a bucket with `lease` tokens in hand and a `reserve`."""
        remaining = min(bucket.available_above(reserve) + lease, RATE_PER_SECOND)
        return cls(remaining, ceil(max(bucket.full_at, bucket.now) / SECOND))
