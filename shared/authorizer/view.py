"""What a check looks at: the revoked warrants, and until when the others are CLEAR."""

from dataclasses import dataclass, replace
from time import monotonic
from time import time as now
from typing import Final, NamedTuple, Self

from .ids import RevokedIds
from .state import State

_PAST: Final = float("-inf")


class Moment(NamedTuple):
    """A time by two clocks: one that nobody sets, and one that goes on while a machine sleeps."""

    monotonic: float
    wall: float

    @classmethod
    def now(cls) -> Self:
        """Return the present time."""
        return cls(monotonic(), now())

    def before(self, seconds: float) -> Self:
        """Return the time that was `seconds` earlier."""
        return type(self)(self.monotonic - seconds, self.wall - seconds)

    @classmethod
    def of_wall(cls, wall: float) -> Self:
        """Return the time of another process; for one in the future, a time that never was."""
        age = now() - wall
        return cls(monotonic() - age if age >= 0 else _PAST, wall)


NEVER: Final = Moment(_PAST, _PAST)
_NONE: Final = RevokedIds(frozenset())


@dataclass(frozen=True, slots=True)
class View:
    """A state, and until when the warrants that it does not revoke are CLEAR.

    `confirmed` is when the service was asked last and confirmed the state, and `end` when that is
    too long ago, or the head expires: whichever clock gets there first. `is_trusted` is False if
    the signer of the head was revoked. A view never changes, so threads can share it.
    """

    state: State | None = None
    revoked: RevokedIds = _NONE
    confirmed: Moment = NEVER
    end: Moment = NEVER
    is_trusted: bool = False

    @classmethod
    def of(cls, state: State, confirmed: Moment, seconds: float) -> Self:
        """Return the view of `state` for `seconds` after it was confirmed, or until it expires."""
        wall = min(confirmed.wall + seconds, state.head.expires_at.timestamp())
        end = Moment(confirmed.monotonic + seconds, wall)
        return cls(state, state.revoked, confirmed, end, is_trusted=True)

    def distrusted(self) -> Self:
        """Return a view that still revokes, and clears nothing."""
        return replace(self, end=NEVER, is_trusted=False)

    def is_fresh(self) -> bool:
        """Return whether the warrants that it does not revoke are CLEAR now."""
        end = self.end
        return monotonic() < end[0] and now() < end[1]

    def holds(self, sequence: int) -> bool:
        """Return whether the state has entry `sequence`."""
        return self.state is not None and self.state.sequence >= sequence
