"""The backlog: acknowledged changes that the feed or the current SRL does not contain yet.

The feed reports since when they wait (FEED-12). The SRL also reports their number (SRL-21).
"""

import logging
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from shared.errors import DataCorrupt
from shared.model import feed as model
from shared.model.feed import SOON_SECONDS, FeedHead, StoredEntry
from shared.model.lists.head import SrlHead
from shared.model.lists.schedule import EVERY
from shared.operations.base import tenants
from shared.operations.lists import in_force, marks
from shared.ports import Ports

# The most marks read from a partition. It is small, because polls wait for this read.
_MARKS_MAX: Final = 16

# The longest time between the start of building an SRL and its issue time.
_LIST_TAKES: Final = timedelta(minutes=1)

# How far the time of a mark may be ahead of this clock.
_AHEAD_MAX: Final = timedelta(seconds=1)

# The most marks of a partition, and the most feed entries, that are counted. Callers request the
# count every few seconds.
_COUNTED_MAX: Final = 100
_ENTRIES_MAX: Final = 1_000

# An older change is late. By default, feed clients become stale at the same age.
_LATE_AFTER: Final = timedelta(seconds=30)

_log = logging.getLogger(__name__)


class BacklogSnapshot(NamedTuple):
    """The marks of a tenant that its feed has not published, as read `at` a time.

    `oldest_at` is the time of the oldest change with a mark that was read, or None. If
    `is_complete` is false, a mark that was not read or has no known time may be older.
    """

    at: datetime
    oldest_at: datetime | None
    is_complete: bool

    def complete_until(self, end: datetime | None) -> datetime | None:
        """Return a time, or None; the feed contains every change acknowledged before it.

        `end` is the corresponding time from another snapshot, or None.
        """
        if self.is_complete:
            return min(self.oldest_at or self.at, self.at)
        return None if is_clock_ahead(end, self.at) else end


def read_backlog(ports: Ports, tenant_id: str) -> BacklogSnapshot:
    """Read the marks of a tenant. Raises `DataCorrupt`, `Unavailable`.

    Read the feed after this call. It then contains every change that has lost its mark since. A
    standby does not have all marks, but changes older than its current SRL have arrived with that
    SRL.
    """
    now = ports.now()
    if not ports.is_in_charge():
        return BacklogSnapshot(
            now, in_force.read_srl_head(ports, tenant_id).issued_at - _LIST_TAKES, is_complete=True
        )
    (on_warrants, are_all), on_signers = ports.gather(
        lambda: marks.read_warrant_marks(ports, tenant_id, limit=_MARKS_MAX),
        lambda: marks.read_signer_marks(ports, tenant_id, limit=_MARKS_MAX),
    )
    moments = [each.set_at for each in on_warrants.values()]
    moments += [each.set_at for each in on_signers]
    known = [each for each in moments if each is not None and not is_clock_ahead(each, now)]
    is_complete = are_all and len(on_signers) < _MARKS_MAX and len(known) == len(moments)
    return BacklogSnapshot(now, min(known, default=None), is_complete)


class BacklogSummary(NamedTuple):
    """How many tenants have a late change, and the age of the oldest change of all tenants.

    A tenant with an unknown backlog counts as late.
    """

    late: int
    oldest_seconds: int


def summarize_backlog(ports: Ports) -> BacklogSummary:
    """Read the backlog of all tenants with a mark.

    Damage in the data of one tenant does not raise an error. Raises `Unavailable`.
    """
    late, oldest = 0, timedelta(0)
    for tenant_id in marks.read_marked_tenants(ports):
        try:
            waited = backlog_age(ports, tenant_id)
            oldest = max(oldest, waited)
            late += is_late(ports, tenant_id, waited)
        except DataCorrupt:
            _log.exception("cannot read the backlog of tenant %s", tenant_id)
            late += 1
    return BacklogSummary(late, int(oldest.total_seconds()))


def backlog_age(ports: Ports, tenant_id: str) -> timedelta:
    """Return the age of the oldest waiting change among the marks that are read.

    Raises `DataCorrupt`, `Unavailable`.
    """
    found = read_backlog(ports, tenant_id)
    return max(found.at - (found.oldest_at or found.at), timedelta(0))


def is_late(ports: Ports, tenant_id: str, wait: timedelta) -> bool:
    """Return whether a change of a tenant has waited too long. Raises `DataCorrupt`.

    A change may wait for the tenant's publication window. A long window may end only with the next
    scheduler run (FEED-5).
    """
    if wait <= _LATE_AFTER:
        return False
    window = tenants.settings(ports, tenant_id).feed_window
    if window > timedelta(seconds=SOON_SECONDS):
        window += EVERY
    return wait > _LATE_AFTER + window


def is_clock_ahead(moment: datetime | None, now: datetime) -> bool:
    """Return whether a clock was wrong, so `moment` proves nothing at `now`."""
    return moment is not None and moment > now + _AHEAD_MAX


class UnlistedChanges(NamedTuple):
    """How many warrants were revoked or unrevoked since the SRL was built.

    There may be more if `is_truncated` is true. `oldest_at` is the time of the first waiting
    change, or None if no change waits or the time is unknown.
    """

    warrants: int
    is_truncated: bool
    oldest_at: datetime | None


def read_unlisted_changes(
    ports: Ports, tenant_id: str
) -> tuple[SrlHead, FeedHead | None, UnlistedChanges]:
    """Return the SRL head, the feed head, and the pending changes of the SRL.

    Changes during this read may be missing. Earlier changes are included. Raises `DataCorrupt`,
    `Unavailable`.
    """
    # Read before the feed: it then contains every warrant that has lost its mark since.
    (warrant_marks, are_all_marks), signer_marks = ports.gather(
        lambda: marks.read_warrant_marks(ports, tenant_id, limit=_COUNTED_MAX),
        lambda: marks.read_signer_marks(ports, tenant_id, limit=_COUNTED_MAX),
    )
    newest, head = ports.gather(
        lambda: in_force.read_feed_head(ports, tenant_id),
        lambda: in_force.read_srl_head(ports, tenant_id),
    )
    stored, count = list[StoredEntry](), 0
    if newest is not None:
        # The count starts from this SRL, regardless of the base that the feed head names. An SRL
        # that does not follow from the feed does not state a sequence that it covers.
        covered = newest.base.sequence if head.sequence is None else head.sequence
        count = max(newest.sequence - covered, 0)
        if count:
            rows = ports.store.query(
                model.feed_partition(tenant_id),
                after=model.entry_sk(covered),
                before=model.entry_sk(newest.sequence + 1),
                limit=_ENTRIES_MAX,
            )
            stored = list(StoredEntry.from_rows(rows))
    entries = [each.decode()[0] for each in stored]
    warrants = {each.sk for each in warrant_marks}
    warrants.update(*(each.revoked for each in entries), *(each.removed for each in entries))
    # A discontinuity names no warrants, and a mark on signers does not name their warrants.
    names_all = not signer_marks and not any(each.is_break for each in entries)
    is_truncated = not (are_all_marks and len(stored) == count and names_all)
    moments = [each.set_at for each in warrant_marks.values()]
    moments += [*(each.set_at for each in signer_marks), *(each.issued_at for each in stored[:1])]
    oldest_at = min((each for each in moments if each is not None), default=None)
    changes = UnlistedChanges(max(len(warrants), int(is_truncated)), is_truncated, oldest_at)
    return head, newest, changes
