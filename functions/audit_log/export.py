"""The export of the audit log, and the query filters (AUDIT-4, LOG-20 to LOG-23)."""

import csv
import io
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

from fastapi import Query, Response

from functions.audit_log.schemas import AuditFilters, ExportFormat, ExportQuery
from shared.errors import InvalidRequest
from shared.model import times
from shared.model.audit.audit_log import EntryFilters
from shared.operations.audit import audit_log
from shared.operations.audit.audit_log import AuditPosition, ExportLine
from shared.web import paging
from shared.web.paging import CursorCodec
from shared.web.routes import ApiRequest, router, serves
from shared.web.stored import header

_WINDOW: Final = timedelta(days=7)
# No entry is older. Subtracting the window from an earlier time could reach a year before 1.
_EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)

NEXT_CURSOR: Final = "X-Next-Cursor"

_MEDIA_TYPE: Final = {
    ExportFormat.NDJSON: "application/x-ndjson",
    ExportFormat.CSV: "text/csv; charset=utf-8",
}
_COLUMNS: Final = (
    "id",
    "timestamp",
    "actor",
    "actor_key_id",
    "actor_name",
    "actor_id",
    "action",
    "resource_id",
    "result",
    "source_ip",
    "request_id",
    "details",
)
# Spreadsheet programs interpret a cell that begins with one of these characters as a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "One part of the export",
        "headers": {
            NEXT_CURSOR: header("The `cursor` of the next part. Absent from the last part.")
        },
        "content": {
            "application/x-ndjson": {"schema": {"type": "string"}},
            "text/csv": {"schema": {"type": "string"}},
        },
    }
}

routes = router("Audit log")


def a_week_before(end: datetime) -> datetime:
    """Return the default `from` of a list of entries."""
    return end - _WINDOW if end >= _EARLIEST else end


def earliest(end: datetime) -> datetime:
    """Return the default `from` of an export."""
    return min(end, _EARLIEST)


def filters_of(
    request: ApiRequest, query: AuditFilters, *, start: Callable[[datetime], datetime]
) -> EntryFilters:
    """Return the filters of a query. `start` returns the default `from` for an end.

    Raises `InvalidRequest` if the window ends before it begins.
    """
    end = query.to or times.truncate_to_second(request.ports.now())
    begin = query.from_ or start(end)
    if begin > end:
        raise InvalidRequest("from: must not be later than to.")
    return EntryFilters(
        begin,
        end,
        action=query.action,
        actor=query.actor,
        actor_id=query.actor_id,
        actor_key_id=query.actor_key_id,
        resource_id=query.resource_id,
        warrant_id=query.warrant_id,
        batch_id=query.batch_id,
        summary_id=query.summary_id,
        words=tuple((query.q or "").casefold().split()),
    )


def position_of(text: str | None) -> AuditPosition | None:
    """Return the position in a cursor. Raises `InvalidRequest` if it is invalid."""
    try:
        return None if text is None else AuditPosition.parse(text)
    except ValueError:
        raise paging.invalid_cursor_error() from None


@routes.get("/v1/audit-logs/export", response_class=Response, responses=_RESPONSES)
@serves(audit_log.part)
async def export_audit_log(request: ApiRequest, query: Annotated[ExportQuery, Query()]) -> Response:
    """Export the audit log.

    The oldest entry comes first. Each part has at most about 2 MiB. Without `from` the export
    begins with the oldest entry, and without `to` it ends now. If the response has the header
    `X-Next-Cursor`, pass it as `cursor` to get the next part.

    In `ndjson` each line except the last is `{"entry":…}` with an entry in its stored form: names
    sorted, no spaces. The last line of a part is `{"next":…}` with the cursor. The last line of the
    whole export is `{"checkpoint":…}`, which shows that the export is complete. In `csv` the first
    part begins with the names of the columns; `details` is JSON.
    """
    filters = filters_of(request, query, start=earliest)
    pages = CursorCodec(
        request.caller,
        query.cursor,
        "audit-logs/export?" + query.model_dump_json(exclude={"cursor"}),
    )
    part = request.run(audit_log.part, filters=filters, after=position_of(pages.position))
    following = pages.cursor_after(part.next_after)
    if query.format is ExportFormat.CSV:
        body = _csv(part.lines, is_first=query.cursor is None).encode()
    else:
        last = {"next": following} if following else {"checkpoint": part.checkpoint}
        body = (
            b"".join(b'{"entry":%b}\n' % each.text for each in part.lines)
            + json.dumps(last).encode()
            + b"\n"
        )
    headers = {"Cache-Control": "no-store"} | ({NEXT_CURSOR: following} if following else {})
    return Response(body, headers=headers, media_type=_MEDIA_TYPE[query.format])


def _csv(lines: Iterable[ExportLine], *, is_first: bool) -> str:
    file = io.StringIO()
    rows = csv.writer(file)
    if is_first:
        rows.writerow(_COLUMNS)
    for entry, _ in lines:
        written = entry.to_item() | {
            "timestamp": times.format_utc(entry.timestamp),
            "details": json.dumps(entry.details, ensure_ascii=False, sort_keys=True),
        }
        values = (written.get(name) for name in _COLUMNS)
        cells = ["" if value is None else str(value) for value in values]
        rows.writerow([f"'{each}" if each.startswith(_FORMULA) else each for each in cells])
    return file.getvalue()
