"""What was acknowledged and is not in the feed yet, and since when (FEED-12)."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from shared.operations.srl import marks
from shared.ports import Ports

# The most marks of a partition that are read. Few, because polls wait for it.
_MARKS_MAX: Final = 16

# How far a mark may be ahead of this clock.
_AHEAD_MAX: Final = timedelta(seconds=1)


class Look(NamedTuple):
    """The marks of a tenant that its feed has yet to handle, as a look that began `at` found them.

    `oldest_at` is when the oldest change was made of the marks that were read; None without one. If
    `is_complete` is false, a mark that was not read, or whose time is not known, may be older.
    """

    at: datetime
    oldest_at: datetime | None
    is_complete: bool

    def since(self, before: datetime | None) -> datetime | None:
        """Return a moment before which all that was acknowledged is in the feed, or None.

        `before` is such a moment, as another look gave it; None if there is none.
        """
        if self.is_complete:
            return min(self.oldest_at or self.at, self.at)
        return None if is_ahead(before, self.at) else before


def look(ports: Ports, tenant_id: str) -> Look:
    """Look at the marks of a tenant. Raises `Corrupt`, `Unavailable`.

    Read the feed afterwards: a change that has lost its mark meanwhile is in it then.
    """
    now = ports.now()
    (on_warrants, are_all), on_signers = ports.gather(
        lambda: marks.set_on_warrants(ports, tenant_id, limit=_MARKS_MAX),
        lambda: marks.set_on_signers(ports, tenant_id, limit=_MARKS_MAX),
    )
    moments = [each.set_at for each in on_warrants.values()]
    moments += [each.set_at for each in on_signers]
    known = [each for each in moments if each is not None and not is_ahead(each, now)]
    is_complete = are_all and len(on_signers) < _MARKS_MAX and len(known) == len(moments)
    return Look(now, min(known, default=None), is_complete)


def is_ahead(moment: datetime | None, now: datetime) -> bool:
    """Return whether a clock was wrong, so that `moment` proves nothing at `now`."""
    return moment is not None and moment > now + _AHEAD_MAX
