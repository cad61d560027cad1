"""Bodies of the endpoints of protected acts and approvals (APPROVAL-1)."""

from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, JsonValue

from shared.model.identifiers import APPROVAL, PERSON
from shared.model.identities.approvals import (
    RESTORE_ABOVE_MAX,
    Act,
    Approval,
    ApprovalStatus,
    protectable,
)
from shared.web.fields import (
    CURSOR,
    MomentOut,
    NextCursor,
    RecordBody,
    RequestBody,
    ResponseBody,
    example,
    identifier,
    sample,
    shown,
)
from shared.web.paging import PageQuery

_ACTS: Final[dict[str, JsonValue]] = {
    "acts": ["revocations.restore_others", "admin_keys.create"],
    "restore_above": 20,
}
_APPROVAL: Final[dict[str, JsonValue]] = {
    "id": sample(APPROVAL),
    "act": "admin_keys.create",
    "subject": "api key",
    "count": 1,
    "remaining": 1,
    "reason": "For the new pipeline, ticket 4711",
    "details": {"name": "deploy", "changes": {"scopes": {"old": None, "new": ["admin"]}}},
    "request": {"method": "POST", "path": "/v1/api-keys", "sha256": "9f86d0" + "0" * 58},
    "record_version": 0,
    "status": "approved",
    "requested_by": "alice@acme.com",
    "requested_by_id": sample(PERSON),
    "decided_by": "bob@acme.com",
    "decided_by_id": sample(PERSON),
    "decided_at": "2026-11-21T12:05:00Z",
    "created_at": "2026-11-21T12:00:00Z",
    "expires_at": "2026-11-21T13:05:00Z",
}
_WHICH: Final = (
    "The acts that need an approval: `revocations.restore_others` (that another person, identity "
    "or API key made or repeated), `list_signers.force`, `tenant.remove`, `admin_keys.create`, "
    "`settings.weaken`, `signing_keys.revoke_root`, `status_signer.rotate`."
)
_ABOVE: Final = (
    "How many revocations may be taken back without an approval in any hour; null for any number."
)

ApprovalId = Annotated[str, shown("Identifier of the approval.", **identifier(APPROVAL))]
ProtectedAct = Annotated[Act, Field(strict=False), AfterValidator(protectable)]


class SetProtectedActs(RequestBody):
    """The acts that are to need an approval, in place of those before."""

    model_config = example(**_ACTS)

    acts: list[ProtectedAct] = Field(max_length=len(Act), description=_WHICH)
    restore_above: Annotated[int, Field(ge=0, le=RESTORE_ABOVE_MAX)] | None = Field(
        description=_ABOVE
    )


class ProtectedActsBody(RecordBody):
    """The acts that need an approval by another person."""

    model_config = example(**_ACTS)

    acts: tuple[Act, ...] = shown(_WHICH)
    restore_above: int | None = shown(_ABOVE)


class ApprovalQuery(PageQuery):
    """Which approvals are listed."""

    status: ApprovalStatus | None = Field(
        default=None, description="Return only approvals with this status."
    )


class BoundRequest(ResponseBody):
    """The one request that an approval is for."""

    method: str = shown("Its method.")
    path: str = shown("Its path.")
    sha256: str = shown("The SHA-256 of its body, in hex.")


class ApprovalBody(RecordBody):
    """An approval, or a request for one that a person has to decide on."""

    model_config = example(**_APPROVAL)

    id: ApprovalId
    act: Act = shown("What is to be done.")
    subject: str = shown("What it is done to.")
    count: int = shown("How often it may be done.")
    remaining: int = shown("How often it may still be done.")
    reason: str = shown("Why, by the person who asked.")
    details: dict[str, Any] = shown("The difference that it makes, as in the audit log.")
    request: BoundRequest | None = shown("The request that it is for; null for revocations.")
    record_version: int = shown("The version of the record that was compared; 0 if it is new.")
    status: ApprovalStatus = shown(
        "The decision; `used` if nothing remains, `expired` if it cannot be decided or used now."
    )
    requested_by: str = shown("Who asked.")
    requested_by_id: str | None = shown(
        "The person who asked; null for the operator.", **identifier(PERSON)
    )
    decided_by: str | None = shown("Who decided; null if nobody did.")
    decided_by_id: str | None = shown(
        "The person who decided; null for the operator.", **identifier(PERSON)
    )
    decided_at: MomentOut | None = shown("When it was decided.")
    created_at: MomentOut = shown("When it was asked for.")
    expires_at: MomentOut = shown("The end of the wait for a decision, or of the use.")


class ApprovalList(ResponseBody):
    """A page of approvals."""

    model_config = example(approvals=[_APPROVAL], cursor=CURSOR)

    approvals: list[ApprovalBody] = shown("The approvals, newest first.")
    cursor: NextCursor

    @classmethod
    def of(cls, found: list[Approval], cursor: str | None) -> Self:
        """Return the body for a page."""
        return cls(approvals=[ApprovalBody.of(each) for each in found], cursor=cursor)
