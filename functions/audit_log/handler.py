"""The audit log over HTTP (AUDIT-4)."""

from typing import Annotated

from fastapi import Query

from functions.audit_log import export
from functions.audit_log.export import a_week_before, filters_of, position_of
from functions.audit_log.schemas import AuditEntryList, AuditQuery
from shared.capabilities import INSTALLED
from shared.operations.audit import audit_log
from shared.web.app import create_app, lambda_handler
from shared.web.paging import CursorCodec
from shared.web.routes import ApiRequest, router, serves

routes = router("Audit log")


@routes.get("/v1/audit-logs")
@serves(audit_log.page)
async def list_audit_log(
    request: ApiRequest, query: Annotated[AuditQuery, Query()]
) -> AuditEntryList:
    """List the entries of the audit log.

    Every change writes one entry; reads write none. The newest entry comes first. If more than one
    filter is given, an entry must match all of them. Without `from` the list begins 7 days before
    `to`, and without `to` it ends now. A page of very long entries may have fewer than `limit`,
    although more follow. In this case, `cursor` is not null.
    """
    filters = filters_of(request, query, start=a_week_before)
    pages = CursorCodec(
        request.caller,
        query.cursor,
        "audit-logs?" + query.model_dump_json(exclude={"limit", "cursor"}),
    )
    page = request.run(
        audit_log.page, filters=filters, before=position_of(pages.position), limit=query.limit
    )
    return AuditEntryList.of(page, pages)


app = create_app(export.routes, *INSTALLED.routers("audit_log"), routes)
handler = lambda_handler(app)
