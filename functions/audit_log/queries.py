"""Filters of the queries of the audit log (AUDIT-4, LOG-20)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from functions.audit_log.schemas import AuditFilters
from shared.errors import InvalidRequest
from shared.model import times
from shared.model.audit.audit_log import EntryFilters
from shared.operations.audit.audit_log import AuditPosition
from shared.web import paging
from shared.web.routes import ApiRequest

_WINDOW: Final = timedelta(days=7)
# No entry is older. Earlier times, less the window, might be before the year 1.
_EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)


def a_week_before(end: datetime) -> datetime:
    """Return the default `from` of a list of entries."""
    return end - _WINDOW if end >= _EARLIEST else end


def earliest(end: datetime) -> datetime:
    """Return the default `from` of an export."""
    return min(end, _EARLIEST)


def filters_of(
    here: ApiRequest, query: AuditFilters, *, start: Callable[[datetime], datetime]
) -> EntryFilters:
    """Return the filters of a query; `start` returns the default of `from` for an end.

    Raises `InvalidRequest` if the window ends before it begins.
    """
    end = query.to or times.whole(here.ports.now())
    begin = query.from_ or start(end)
    if begin > end:
        raise InvalidRequest("from: must not be later than to.")
    return EntryFilters(
        begin,
        end,
        action=query.action,
        actor=query.actor,
        actor_key_id=query.actor_key_id,
        resource_id=query.resource_id,
        warrant_id=query.warrant_id,
        batch_id=query.batch_id,
        summary_id=query.summary_id,
    )


def position_of(text: str | None) -> AuditPosition | None:
    """Return the position in a cursor. Raises `InvalidRequest` if it is none."""
    try:
        return None if text is None else AuditPosition.parse(text)
    except ValueError:
        raise paging.refused() from None
