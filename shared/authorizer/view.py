"""The data of a check: the revoked warrants, and until when the others are CLEAR."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple, Self

from .formats.ids import CompactIds, RevokedIds
from .state import FeedState

# The clock that nobody sets, and the one that goes on while a machine sleeps.
monotonic: Final = time.monotonic
now: Final = time.time

_PAST: Final = float("-inf")


def today() -> datetime:
    """Return what the second clock says, in UTC."""
    return datetime.fromtimestamp(now(), UTC)


class ClockReading(NamedTuple):
    """A time by two clocks: one that nobody sets, and one that goes on while a machine sleeps."""

    monotonic: float
    wall: float

    @classmethod
    def now(cls) -> Self:
        """Return the present time."""
        return cls(monotonic(), now())

    def minus(self, seconds: float) -> Self:
        """Return the time that was `seconds` earlier."""
        return type(self)(self.monotonic - seconds, self.wall - seconds)

    @classmethod
    def of_wall(cls, wall: float) -> Self:
        """Return the time of another process; for one in the future, a time that never was."""
        age = now() - wall
        return cls(monotonic() - age if age >= 0 else _PAST, wall)


NEVER: Final = ClockReading(_PAST, _PAST)
_NONE: Final = RevokedIds(CompactIds.of([]))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A state, and until when the warrants that it does not revoke are CLEAR.

    `confirmed` is when the service was asked last and confirmed the state. The warrants are CLEAR
    until that is too long ago by one of the clocks, or the head expires: until `end` by the clock
    that nobody sets, and until `wall_end` by the other. `is_trusted` is False if the signer of the
    head does not count any more. A view never changes, so threads can share it.
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
        """Return the view of `state` for `seconds` after it was confirmed.

        It ends sooner if the head expires, or at the `end` of the trust document.
        """
        expires_at = min(state.head.expires_at, end)
        wall_end = min(confirmation.wall + seconds, expires_at.timestamp())
        until = confirmation.monotonic + seconds
        return cls(state, state.revoked, confirmation, until, wall_end, is_trusted=True)

    def without_clearance(self) -> Self:
        """Return a view that still revokes, and clears nothing."""
        return replace(self, end=_PAST, is_trusted=False)

    def is_fresh(self) -> bool:
        """Return whether the warrants that it does not revoke are CLEAR now."""
        return monotonic() < self.end and now() < self.wall_end

    def seconds_left(self) -> float:
        """Return for how many seconds `is_fresh` stays true; 0 if it is false."""
        return max(0.0, min(self.end - monotonic(), self.wall_end - now()))

    def holds(self, sequence: int) -> bool:
        """Return whether the state has entry `sequence`."""
        return self.state is not None and self.state.sequence >= sequence
