"""Bodies of the service account endpoints (ACCOUNT-1)."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, JsonValue

from shared.model import text
from shared.model.identifiers import SERVICE_ACCOUNT
from shared.model.service_accounts import AccountStatus
from shared.web.fields import (
    CURSOR,
    MomentOut,
    NextCursor,
    Reason,
    RecordBody,
    RequestBody,
    Total,
    example,
    field,
    identifier,
    omittable,
    sample,
)
from shared.web.paging import PageBody

_PATTERN: Final[dict[str, JsonValue]] = {"pattern": f"^{text.LABEL_PATTERN}$"}
_ACCOUNT: Final[dict[str, JsonValue]] = {
    "id": sample(SERVICE_ACCOUNT),
    "name": "billing",
    "email": "billing@acme.svc",
    "description": "Signs invoices",
    "status": "active",
    "created_at": "2026-11-21T12:00:00Z",
}

ServiceAccountId = Annotated[
    str, field("Identifier of the service account.", **identifier(SERVICE_ACCOUNT))
]
AccountName = Annotated[str, AfterValidator(text.label), Field(json_schema_extra=_PATTERN)]


class CreateServiceAccount(RequestBody):
    """The service account to create."""

    model_config = example(name="billing", description="Signs invoices")

    name: AccountName = Field(
        description="Name of the account. It must never have been used in the tenant before."
    )
    description: Reason | None = omittable(
        "Purpose of the account, in one or more lines. Leading and trailing white space is removed."
    )


class ServiceAccountBody(RecordBody):
    """A service account."""

    model_config = example(**_ACCOUNT)

    id: ServiceAccountId
    name: str = field("Name of the account.", **_PATTERN)
    email: str = field(
        "Name of the account in the audit log and in revocation records: `<name>@<tenant>.svc`. "
        "It receives no mail."
    )
    description: str | None = field("Purpose of the account; null if not given.")
    status: AccountStatus = field(
        "Status of the account. API keys of a disabled account are rejected."
    )
    created_at: MomentOut = field("Time of creation.")


class ServiceAccountList(PageBody):
    """A page of service accounts."""

    model_config = example(service_accounts=[_ACCOUNT], total=132, cursor=CURSOR)

    service_accounts: list[ServiceAccountBody] = field("The accounts of this page, newest first.")
    total: Total
    cursor: NextCursor
