"""The audit log over HTTP (AUDIT-4)."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from fastapi import Query

from functions.audit_log.schemas import AuditEntryList, AuditQuery
from shared.errors import InvalidRequest
from shared.model import times
from shared.model.audit_log import Filters
from shared.operations.api import audit_log
from shared.operations.api.audit_log import Position
from shared.web import paging
from shared.web.app import create_app, lambda_handler
from shared.web.paging import Pager
from shared.web.routes import ApiRequest, router, serves

_WINDOW: Final = timedelta(days=7)
# No entry is older. Earlier times, less the window, might be before the year 1.
_EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)

routes = router("Audit log")


@routes.get("/v1/audit-logs")
@serves(audit_log.page)
async def list_audit_log(here: ApiRequest, query: Annotated[AuditQuery, Query()]) -> AuditEntryList:
    """List the entries of the audit log.

    Every change writes one entry; reads write none. The newest entry comes first. If more than one
    filter is given, an entry must match all of them. Without `from` the list begins 7 days before
    `to`, and without `to` it ends now.
    """
    filters = _filters(here, query)
    pages = Pager(
        here.caller,
        query.cursor,
        "audit-logs?" + query.model_dump_json(exclude={"limit", "cursor"}),
    )
    page = here.run(
        audit_log.page, filters=filters, before=_position(pages.before), limit=query.limit
    )
    return AuditEntryList.of(page, pages)


def _position(text: str | None) -> Position | None:
    try:
        return None if text is None else Position.parse(text)
    except ValueError:
        raise paging.refused() from None


def _filters(here: ApiRequest, query: AuditQuery) -> Filters:
    end = query.to or times.whole(here.ports.now())
    start = query.from_ or (end - _WINDOW if end >= _EARLIEST else end)
    if start > end:
        raise InvalidRequest("from: must not be later than to.")
    return Filters(
        start,
        end,
        action=query.action,
        actor=query.actor,
        actor_key_id=query.actor_key_id,
        resource_id=query.resource_id,
        warrant_id=query.warrant_id,
    )


app = create_app(routes)
handler = lambda_handler(app)
