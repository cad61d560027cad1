"""Changes that were acknowledged and are not in the feed yet, and since when (FEED-12)."""

import logging
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from shared.errors import Corrupt
from shared.model.feed import SOON_SECONDS
from shared.model.lists.schedule import EVERY
from shared.operations.base import tenants
from shared.operations.lists import in_force, marks
from shared.ports import Ports

# The most marks of a partition that are read. Few, because polls wait for it.
_MARKS_MAX: Final = 16

# How long before it is issued a list may have been begun.
_LIST_TAKES: Final = timedelta(minutes=1)

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
        """Return a moment before which every acknowledged change is in the feed, or None.

        `before` is such a moment, as another look gave it; None if there is none.
        """
        if self.is_complete:
            return min(self.oldest_at or self.at, self.at)
        return None if is_ahead(before, self.at) else before


def look(ports: Ports, tenant_id: str) -> Look:
    """Look at the marks of a tenant. Raises `Corrupt`, `Unavailable`.

    Read the feed afterwards: a change that has lost its mark meanwhile is in it then. A standby
    does not have all marks: what is older than the list in force has arrived with it.
    """
    now = ports.now()
    if not ports.is_in_charge():
        return Look(now, in_force.head(ports, tenant_id).issued_at - _LIST_TAKES, is_complete=True)
    (on_warrants, are_all), on_signers = ports.gather(
        lambda: marks.set_on_warrants(ports, tenant_id, limit=_MARKS_MAX),
        lambda: marks.set_on_signers(ports, tenant_id, limit=_MARKS_MAX),
    )
    moments = [each.set_at for each in on_warrants.values()]
    moments += [each.set_at for each in on_signers]
    known = [each for each in moments if each is not None and not is_ahead(each, now)]
    is_complete = are_all and len(on_signers) < _MARKS_MAX and len(known) == len(moments)
    return Look(now, min(known, default=None), is_complete)


# A change that is older is late: as old as clients of the feed let a state become by default.
_LATE_AFTER: Final = timedelta(seconds=30)

_log = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """How many tenants have a change that is late, and how old the oldest is of all tenants.

    A tenant for which that cannot be known is late.
    """

    late: int
    oldest_seconds: int


def of_all(ports: Ports) -> Waiting:
    """Look at all tenants with a mark. Raises `Unavailable`, for no tenant alone."""
    late, oldest = 0, timedelta(0)
    for tenant_id in marks.all_marked(ports):
        try:
            waited = waits(ports, tenant_id)
            oldest = max(oldest, waited)
            late += is_late(ports, tenant_id, waited)
        except Corrupt:
            _log.exception("it is not known what waits in the feed of %s", tenant_id)
            late += 1
    return Waiting(late, int(oldest.total_seconds()))


def waits(ports: Ports, tenant_id: str) -> timedelta:
    """Return for how long the oldest change waits, of those that a look reads.

    Raises `Corrupt`, `Unavailable`.
    """
    found = look(ports, tenant_id)
    return max(found.at - (found.oldest_at or found.at), timedelta(0))


def is_late(ports: Ports, tenant_id: str, waited: timedelta) -> bool:
    """Return whether a change of a tenant has waited for too long. Raises `Corrupt`.

    It may wait for the window of the tenant. A long one may end only with the schedule's next run
    (FEED-5).
    """
    if waited <= _LATE_AFTER:
        return False
    window = tenants.settings(ports, tenant_id).feed_window
    if window > timedelta(seconds=SOON_SECONDS):
        window += EVERY
    return waited > _LATE_AFTER + window


def is_ahead(moment: datetime | None, now: datetime) -> bool:
    """Return whether a clock was wrong, so that `moment` proves nothing at `now`."""
    return moment is not None and moment > now + _AHEAD_MAX
