"""Changes that were acknowledged and are not in the feed, or not in the list in force, yet.

Readers of the feed learn since when they wait (FEED-12), those of the list also how many (SRL-21).
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from shared.errors import DataCorrupt
from shared.model import feed as model
from shared.model.feed import SOON_SECONDS, FeedHead, StoredEntry
from shared.model.lists.head import SrlHead
from shared.model.lists.schedule import EVERY, OutboxMark, SignerOutboxMark
from shared.operations.base import tenants
from shared.operations.lists import in_force, marks
from shared.ports import Ports

# The most marks of a partition that are read. Few, because polls wait for it.
_MARKS_MAX: Final = 16

# How long before it is issued a list may have been begun.
_LIST_TAKES: Final = timedelta(minutes=1)

# How far a mark may be ahead of this clock.
_AHEAD_MAX: Final = timedelta(seconds=1)

# The most marks of a partition, and the most entries of the feed, that are counted: a caller asks
# every few seconds.
_COUNTED_MAX: Final = 100
_ENTRIES_MAX: Final = 1_000

# A change that is older is late: as old as clients of the feed let a state become by default.
_LATE_AFTER: Final = timedelta(seconds=30)

_log = logging.getLogger(__name__)


class BacklogSnapshot(NamedTuple):
    """The marks of a tenant that its feed has yet to handle, as a look that began `at` found them.

    `oldest_at` is when the oldest change was made of the marks that were read; None without one. If
    `is_complete` is false, a mark that was not read, or whose time is not known, may be older.
    """

    at: datetime
    oldest_at: datetime | None
    is_complete: bool

    def complete_until(self, end: datetime | None) -> datetime | None:
        """Return a moment before which every acknowledged change is in the feed, or None.

        `end` is such a moment, as another look gave it; None if there is none.
        """
        if self.is_complete:
            return min(self.oldest_at or self.at, self.at)
        return None if is_clock_ahead(end, self.at) else end


def read_backlog(ports: Ports, tenant_id: str) -> BacklogSnapshot:
    """Look at the marks of a tenant. Raises `DataCorrupt`, `Unavailable`.

    Read the feed afterwards: a change that has lost its mark meanwhile is in it then. A standby
    does not have all marks: what is older than the list in force has arrived with it.
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
    """How many tenants have a change that is late, and how old the oldest is of all tenants.

    A tenant for which that cannot be known is late.
    """

    late: int
    oldest_seconds: int


def summarize_backlog(ports: Ports) -> BacklogSummary:
    """Look at all tenants with a mark. Raises `Unavailable`, for no tenant alone."""
    late, oldest = 0, timedelta(0)
    for tenant_id in marks.read_marked_tenants(ports):
        try:
            waited = backlog_age(ports, tenant_id)
            oldest = max(oldest, waited)
            late += is_late(ports, tenant_id, waited)
        except DataCorrupt:
            _log.exception("it is not known what waits in the feed of %s", tenant_id)
            late += 1
    return BacklogSummary(late, int(oldest.total_seconds()))


def backlog_age(ports: Ports, tenant_id: str) -> timedelta:
    """Return for how long the oldest change waits, of those that a look reads.

    Raises `DataCorrupt`, `Unavailable`.
    """
    found = read_backlog(ports, tenant_id)
    return max(found.at - (found.oldest_at or found.at), timedelta(0))


def is_late(ports: Ports, tenant_id: str, wait: timedelta) -> bool:
    """Return whether a change of a tenant has waited for too long. Raises `DataCorrupt`.

    It may wait for the window of the tenant. A long one may end only with the schedule's next run
    (FEED-5).
    """
    if wait <= _LATE_AFTER:
        return False
    window = tenants.settings(ports, tenant_id).feed_window
    if window > timedelta(seconds=SOON_SECONDS):
        window += EVERY
    return wait > _LATE_AFTER + window


def is_clock_ahead(moment: datetime | None, now: datetime) -> bool:
    """Return whether a clock was wrong, so that `moment` proves nothing at `now`."""
    return moment is not None and moment > now + _AHEAD_MAX


class UnlistedChanges(NamedTuple):
    """How many warrants were revoked, or are not revoked any more, since the list was made.

    If `is_truncated` is true there may be more. `oldest_at` is since when the first of them waits,
    None if none waits or if that is not known.
    """

    warrants: int
    is_truncated: bool
    oldest_at: datetime | None


def read_unlisted_changes(
    ports: Ports, tenant_id: str
) -> tuple[SrlHead, FeedHead | None, UnlistedChanges]:
    """Return the heads of the list in force and of the feed, and what that list lacks.

    Changes during this read may be missing; earlier ones are not. Raises `DataCorrupt`,
    `Unavailable`.
    """
    # Before the feed: a warrant that has lost its mark meanwhile is in the feed then.
    (marked, are_all), of_signers = ports.gather(
        lambda: marks.read_warrant_marks(ports, tenant_id, limit=_COUNTED_MAX),
        lambda: marks.read_signer_marks(ports, tenant_id, limit=_COUNTED_MAX),
    )
    newest, head = ports.gather(
        lambda: in_force.read_feed_head(ports, tenant_id),
        lambda: in_force.read_srl_head(ports, tenant_id),
    )
    unlisted, are_all_read = _read_unlisted_entries(ports, tenant_id, newest, head)
    told = [each.decode()[0] for each in unlisted]
    warrants = {each.sk for each in marked}.union(
        *(each.revoked for each in told), *(each.removed for each in told)
    )
    # A break names no warrants, and a mark on signers does not say what they signed.
    names_all = not of_signers and not any(each.is_break for each in told)
    is_truncated = not (are_all and are_all_read and names_all)
    count = max(len(warrants), int(is_truncated))
    oldest = _oldest_change_time([*marked.values(), *of_signers], unlisted)
    return head, newest, UnlistedChanges(count, is_truncated, oldest)


def _read_unlisted_entries(
    ports: Ports, tenant_id: str, newest: FeedHead | None, head: SrlHead
) -> tuple[list[StoredEntry], bool]:
    """Return the entries that the list does not cover, and whether these are all.

    They are counted from the list that is shown, whichever the head of the feed names.
    """
    if newest is None:
        return [], True
    # A list that does not follow from the feed does not say what it covers.
    covered = newest.base.sequence if head.sequence is None else head.sequence
    wanted = max(newest.sequence - covered, 0)
    if not wanted:
        return [], True
    rows = ports.store.query(
        model.feed_partition(tenant_id),
        after=model.entry_sk(covered),
        before=model.entry_sk(newest.sequence + 1),
        limit=_ENTRIES_MAX,
    )
    found = [StoredEntry.from_item(row.item) for row in rows]
    return found, len(found) == wanted


def _oldest_change_time(
    marked: Sequence[OutboxMark | SignerOutboxMark], unlisted_entries: Sequence[StoredEntry]
) -> datetime | None:
    """Return since when the first change waits: its mark or its entry has the moment."""
    moments = [each.set_at for each in marked if each.set_at is not None]
    return min([*moments, *(each.issued_at for each in unlisted_entries[:1])], default=None)
