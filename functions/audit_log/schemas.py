"""Bodies of the audit log endpoint (decisions 3, audit log)."""

from typing import Any, Self

from pydantic import Field

from shared.model.audit_log import Action, Entry
from shared.operations.paging import Page
from shared.web.fields import MomentIn, MomentOut, RecordBody, ResponseBody, WarrantId
from shared.web.paging import PageQuery


class AuditQuery(PageQuery):
    """The query of GET /v1/audit-logs; both times are included."""

    action: Action | None = None
    actor: str | None = None
    actor_key_id: str | None = None
    resource_id: str | None = None
    warrant_id: WarrantId | None = None
    from_: MomentIn | None = Field(default=None, alias="from")
    to: MomentIn | None = None


class AuditEntry(RecordBody):
    """One entry of the audit log."""

    id: str
    timestamp: MomentOut
    actor: str
    actor_key_id: str | None
    action: Action
    resource_id: str
    result: str
    source_ip: str | None
    request_id: str | None
    details: dict[str, Any]


class AuditLog(ResponseBody):
    """A page of the audit log."""

    audit_logs: list[AuditEntry]
    total: int
    cursor: str | None

    @classmethod
    def of(cls, page: Page[Entry], *, cursor: str | None) -> Self:
        """The page, with the cursor to the next."""
        entries = [AuditEntry.of(entry) for entry in page.entries]
        return cls(audit_logs=entries, total=page.total, cursor=cursor)
