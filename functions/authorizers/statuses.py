"""The state of the fleet for the newest entry: a summary, or the rows that changed (FLEET-28)."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, Self

from functions.authorizers import propagation, unregistered
from functions.authorizers import records as model
from functions.authorizers import registrations as rules
from functions.authorizers.enforcement import (
    VISIBLE_AFTER,
    AuthorizerStatus,
    EnforcementState,
    FleetSummary,
    judge,
    next_closing,
)
from functions.authorizers.enforcement import summary as summary_of
from functions.authorizers.records import Authorizer
from shared.errors import Gone
from shared.model import times
from shared.model.callers import Caller, Scope
from shared.model.feed import FeedHead, PublishedEntry
from shared.operations.base.operation import operation
from shared.operations.base.paging import count
from shared.operations.lists import in_force, reach
from shared.ports import Ports

# The most removed registrations that one response names.
_REMOVED_MAX: Final = 5_000
_GONE: Final = (
    "changed_since: changes from before that time are no longer available; read all authorizers."
)


@dataclass(frozen=True, slots=True)
class ListingCursor:
    """When authorizers were read, and the newest sequence then. A new entry changes every row.

    `sequence` is -1 if there was no entry.
    """

    read_at: datetime
    sequence: int

    def __str__(self) -> str:
        return f"{int(self.read_at.timestamp())}/{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the result of `str`."""
        seconds, _, sequence = text.partition("/")
        return cls(datetime.fromtimestamp(int(seconds), UTC), int(sequence))

    @property
    def visible_from(self) -> datetime:
        """A time before which every write was visible when the authorizers were read."""
        return self.read_at - VISIBLE_AFTER


@dataclass(slots=True)
class StatusPage:
    """A page of authorizers, each assessed for the `newest` entry.

    `token` is the time of the first page, and `removed` are removed authorizers.
    """

    token: ListingCursor
    newest: PublishedEntry | None
    total: int = 0
    judged: list[AuthorizerStatus] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    next_before: str | None = None
    next_change_at: datetime | None = None


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def summary(ports: Ports, caller: Caller) -> FleetSummary:
    """Return a summary of all authorizers for the newest entry. Raises `Unavailable`."""
    now = ports.now()
    # Read the authorizers first. Their reports then precede this read of the feed.
    registered = list(propagation.registrations(ports, caller.tenant_id))
    newest = _latest(in_force.read_feed_head(ports, caller.tenant_id))
    fleet = summary_of(registered, newest, now)
    clients = unregistered.read(ports, caller.tenant_id, registered)
    return replace(fleet, unregistered=clients)


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page(
    ports: Ports, caller: Caller, *, cursor: ListingCursor | None, before: str | None, limit: int
) -> StatusPage:
    """Return a page of the authorizers that changed since, or of all, newest first (FLEET-29).

    `before` carries the token of the first page. Raises `Gone` if the changes are no longer known;
    `DataCorrupt`, `Unavailable`.
    """
    now, tenant_id = ports.now(), caller.tenant_id
    if cursor is not None and not now - model.CHANGES_KEPT < cursor.read_at <= now + VISIBLE_AFTER:
        raise Gone(_GONE)
    head = in_force.read_feed_head(ports, tenant_id)
    sequence = -1 if head is None else head.sequence
    first, _, last = (before or "").partition("#")
    token = ListingCursor(times.truncate_to_second(now), sequence)
    if first:
        token = ListingCursor.parse(first)
    status_page = StatusPage(token, _latest(head))
    status_page.total = count(ports, model.registered_address(tenant_id))
    if cursor is not None and not before:
        status_page.removed = _removed_since(ports, tenant_id, cursor, now)
    everything = cursor is None or cursor.sequence != sequence
    partition = model.authorizers(tenant_id)
    rows = ports.store.query(partition, before=last or None, newest_first=True)
    for each in Authorizer.from_rows(rows):
        if each.is_expired(now):
            if cursor is not None and each.expires_at > cursor.visible_from:
                status_page.removed.append(each.id)
            continue
        judged = judge(each, status_page.newest, now)
        closings = (status_page.next_change_at, next_closing([judged]))
        status_page.next_change_at = min(filter(None, closings), default=None)
        if not (everything or _has_changed(judged, cursor)):
            continue
        if len(status_page.judged) == limit:
            status_page.next_before = f"{token}#{status_page.judged[-1].authorizer.id}"
            break
        status_page.judged.append(judged)
    reporters = (each.authorizer for each in status_page.judged)
    if any(not each.equivocation and (each.sequence or 0) > sequence for each in reporters):
        # They have an entry that was published after the read of the feed head.
        status_page.newest = _latest(in_force.read_feed_head(ports, tenant_id))
        status_page.judged = [
            judge(each.authorizer, status_page.newest, now) for each in status_page.judged
        ]
    return status_page


def _has_changed(status: AuthorizerStatus, cursor: ListingCursor | None) -> bool:
    """Return whether an authorizer was stored, or began to fail closed, since the cursor."""
    if cursor is None or status.authorizer.stored >= cursor.visible_from.timestamp():
        return True
    is_closed, closed_at = status.enforcement is EnforcementState.FAIL_CLOSED, status.fail_closed_at
    return is_closed and closed_at is not None and closed_at > cursor.read_at


def _removed_since(ports: Ports, tenant_id: str, since: ListingCursor, now: datetime) -> list[str]:
    """Return the authorizers removed since then that are not registered again."""
    rows = ports.store.query(
        model.removed_partition(tenant_id),
        after=model.removed_sk(since.visible_from),
        limit=_REMOVED_MAX + 1,
    )
    noted = [row.sk.partition("#")[2] for row in rows]
    if len(noted) > _REMOVED_MAX:
        raise Gone(_GONE)
    again = rules.registered_by_id(ports, tenant_id, noted) if noted else {}
    return [each for each in noted if each not in again or again[each].is_expired(now)]


def _latest(head: FeedHead | None) -> PublishedEntry | None:
    return None if head is None else reach.latest_entry(head)
