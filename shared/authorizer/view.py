"""Data of a check: the revoked warrants, and how long other warrants are CLEAR."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple, Self

from .formats.ids import CompactIds, RevokedIds
from .state import FeedState

# A clock that cannot be set, and a clock that continues while the machine sleeps.
monotonic: Final = time.monotonic
now: Final = time.time

_PAST: Final = float("-inf")


def today() -> datetime:
    """Return the time of the wall clock in UTC."""
    return datetime.fromtimestamp(now(), UTC)


class ClockReading(NamedTuple):
    """A time on two clocks: one cannot be set, the other continues while the machine sleeps."""

    monotonic: float
    wall: float

    @classmethod
    def now(cls) -> Self:
        """Return the current time."""
        return cls(monotonic(), now())

    def minus(self, seconds: float) -> Self:
        """Return the time `seconds` earlier."""
        return type(self)(self.monotonic - seconds, self.wall - seconds)

    @classmethod
    def of_wall(cls, wall: float) -> Self:
        """Return a time saved by another process. A time in the future becomes infinitely old."""
        age = now() - wall
        return cls(monotonic() - age if age >= 0 else _PAST, wall)


NEVER: Final = ClockReading(_PAST, _PAST)
_NONE: Final = RevokedIds(CompactIds.of([]))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state, and how long the warrants outside its revoked set are CLEAR.

    `confirmed` is the time of the last request that confirmed the state. The warrants are CLEAR
    until that time exceeds the staleness limit on either clock, or the feed head expires: until
    `end` on the monotonic clock, and until `wall_end` on the wall clock. `is_trusted` is False if
    the signer of the feed head is not trusted. Views are immutable, so threads can share them.
    """

    state: FeedState | None = None
    revoked: RevokedIds = _NONE
    confirmed: ClockReading = NEVER
    end: float = _PAST
    wall_end: float = _PAST
    is_trusted: bool = False

    @classmethod
    def of(
        cls, state: FeedState, confirmation: ClockReading, seconds: float, *, end: datetime
    ) -> Self:
        """Return the view of `state` for `seconds` after its confirmation.

        It ends earlier if the feed head expires, or at the `end` of the trust document.
        """
        expires_at = min(state.head.expires_at, end)
        wall_end = min(confirmation.wall + seconds, expires_at.timestamp())
        until = confirmation.monotonic + seconds
        return cls(state, state.revoked, confirmation, until, wall_end, is_trusted=True)

    def without_clearance(self) -> Self:
        """Return a view that still revokes, but clears no warrants."""
        return replace(self, end=_PAST, is_trusted=False)

    def is_fresh(self) -> bool:
        """Return whether warrants outside the revoked set are CLEAR now."""
        return monotonic() < self.end and now() < self.wall_end

    def seconds_left(self) -> float:
        """Return for how many seconds `is_fresh` stays true, or 0 if it is false."""
        return max(0.0, min(self.end - monotonic(), self.wall_end - now()))

    def holds(self, sequence: int) -> bool:
        """Return whether the state contains entry `sequence`."""
        return self.state is not None and self.state.sequence >= sequence
