"""Bodies of the audit log endpoint (AUDIT-2)."""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BaseModel, Field, JsonValue

from shared.model.audit.audit_log import AuditAction
from shared.model.identifiers import API_KEY, AUDIT_ENTRY, PERSON, TENANT
from shared.web.fields import (
    CURSOR,
    MomentIn,
    MomentOut,
    NextCursor,
    RecordBody,
    WarrantId,
    example,
    field,
    identifier,
    omittable,
    sample,
)
from shared.web.paging import PageBody, PageQuery

WORDS_MAX: Final = 200


class AuditFilters(BaseModel):
    """The filters of audit entries. Both times are inclusive."""

    action: AuditAction | None = omittable("Return only entries with this action.")
    actor: str | None = omittable("Return only entries with this `actor`.")
    actor_key_id: str | None = omittable("Return only entries of changes made with this API key.")
    actor_id: str | None = omittable("Return only entries of this person.")
    resource_id: str | None = omittable(
        "Return only entries about this resource, such as a signing key or a revocation."
    )
    warrant_id: WarrantId | None = omittable(
        "Return only entries about this warrant: signed, revoked or unrevoked."
    )
    batch_id: str | None = omittable("Return only entries of this batch.")
    summary_id: str | None = omittable(
        "Return only entries summarized by this entry, which covers one call."
    )
    q: Annotated[str, Field(min_length=1, max_length=WORDS_MAX)] | None = omittable(
        "Return only entries with these words in their values, such as names, identifiers or "
        "reasons. The search ignores case. Each page covers the next 1000 entries, so it may have "
        "fewer than `limit` although more follow."
    )
    from_: MomentIn | None = Field(
        default=None, alias="from", description="Earliest time of an entry, inclusive."
    )
    to: MomentIn | None = omittable("Latest time of an entry, inclusive.")


class AuditQuery(AuditFilters, PageQuery):
    """The query of GET /v1/audit-logs."""


class ExportFormat(StrEnum):
    """The format of an export."""

    NDJSON = "ndjson"
    CSV = "csv"


class ExportQuery(AuditFilters):
    """The query of GET /v1/audit-logs/export."""

    format: ExportFormat = Field(
        default=ExportFormat.NDJSON,
        description="`ndjson`: verifiable lines of JSON. `csv`: a table for people.",
    )
    cursor: str | None = omittable(
        "The `X-Next-Cursor` of the previous part. All other parameters must be the same."
    )


_ENTRY: Final[dict[str, JsonValue]] = {
    "id": sample(AUDIT_ENTRY),
    "timestamp": "2026-11-21T12:00:00Z",
    "actor": "admin@acme.svc",
    "actor_key_id": sample(API_KEY),
    "actor_name": "Anna's laptop",
    "actor_id": sample(PERSON),
    "action": "tenant.update_settings",
    "resource_id": sample(TENANT),
    "result": "success",
    "source_ip": "203.0.113.7",
    "request_id": "306d9a4be2f14c5f8d0c1b7a6e5f4d3c",
    "details": {
        "name": "Acme",
        "changes": {"rotation_grace_seconds": {"old": 86400, "new": 3600}},
    },
}


class AuditEntryBody(RecordBody):
    """One entry of the audit log."""

    model_config = example(**_ENTRY)

    id: str = field("Identifier of the entry.", **identifier(AUDIT_ENTRY))
    timestamp: MomentOut = field("Time of the change.")
    actor: str = field(
        "Identity that made the change: the e-mail of a person, `<service account>@<tenant>.svc`, "
        "or `<API key id>@<tenant>.svc` for a key without a service account. `system+…` is the "
        "service or its operator."
    )
    actor_key_id: str | None = field(
        "Identifier of the API key; null if the change was not made over HTTP, or is older than "
        "this field."
    )
    actor_name: str | None = field(
        "Name of the person, the program or the API key; null if there is none, or if the entry "
        "is older than this field."
    )
    actor_id: str | None = field(
        "Identifier of the person, which does not change with the e-mail; null for other actors.",
        **identifier(PERSON),
    )
    action: AuditAction = field("The action.")
    resource_id: str = field("Identifier of the changed resource.")
    result: str = field(
        "Outcome of the action. Only successful changes are recorded.", const="success"
    )
    source_ip: str | None = field(
        "Source address of the request; null if the change was not made over HTTP."
    )
    request_id: str | None = field(
        "The `X-Request-Id` of the request; null if the change was not made over HTTP."
    )
    details: dict[str, Any] = field("Details of the change. The members depend on the action.")


class AuditEntryList(PageBody):
    """A page of the audit log."""

    model_config = example(audit_logs=[_ENTRY], total=132, cursor=CURSOR)

    audit_logs: list[AuditEntryBody] = field("The entries of this page, newest first.")
    total: int | None = field(
        "Number of entries on all pages together; null if `q` is given.", minimum=0
    )
    cursor: NextCursor
