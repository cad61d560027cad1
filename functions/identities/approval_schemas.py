"""Bodies of the endpoints of protected actions and approvals (APPROVAL-1)."""

from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, JsonValue

from shared.model.identifiers import APPROVAL, PERSON
from shared.model.identities.approvals import (
    UNREVOKE_THRESHOLD_MAX,
    Approval,
    ApprovalStatus,
    ProtectedAction,
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
    field,
    identifier,
    omittable,
    sample,
)
from shared.web.paging import PageQuery

_ACTS: Final[dict[str, JsonValue]] = {
    "actions": ["revocations.unrevoke_others", "admin_keys.create"],
    "unrevoke_threshold": 20,
}
_APPROVAL: Final[dict[str, JsonValue]] = {
    "id": sample(APPROVAL),
    "action": "admin_keys.create",
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
    "Actions that need an approval: `revocations.unrevoke_others` (made or repeated by another "
    "person, identity or API key), `srl_signers.force_activate`, `tenant.remove`, "
    "`admin_keys.create`, `settings.weaken`, `signing_keys.revoke_root`, `status_signer.rotate`."
)
_ABOVE: Final = (
    "Number of warrants that may be unrevoked per hour without an approval; null for no limit."
)

ApprovalId = Annotated[str, field("Identifier of the approval.", **identifier(APPROVAL))]
ProtectableAction = Annotated[ProtectedAction, Field(strict=False), AfterValidator(protectable)]


class UpdateProtectedActions(RequestBody):
    """The actions that will need an approval. They replace the previous ones."""

    model_config = example(**_ACTS)

    actions: list[ProtectableAction] = Field(max_length=len(ProtectedAction), description=_WHICH)
    unrevoke_threshold: Annotated[int, Field(ge=0, le=UNREVOKE_THRESHOLD_MAX)] | None = Field(
        description=_ABOVE
    )


class ProtectedActionsBody(RecordBody):
    """The actions that need an approval by another person."""

    model_config = example(**_ACTS)

    actions: tuple[ProtectedAction, ...] = field(_WHICH)
    unrevoke_threshold: int | None = field(_ABOVE)


class ApprovalQuery(PageQuery):
    """The filters of a list of approvals."""

    status: ApprovalStatus | None = omittable("Return only approvals with this status.")


class BoundRequest(ResponseBody):
    """The one request that an approval is for."""

    method: str = field("HTTP method.")
    path: str = field("Path of the request.")
    sha256: str = field("SHA-256 of the body, in hexadecimal.")


class ApprovalBody(RecordBody):
    """An approval, or a request that a person has to approve or reject."""

    model_config = example(**_APPROVAL)

    id: ApprovalId
    action: ProtectedAction = field("The protected action.")
    subject: str = field("The resource that the action affects.")
    count: int = field("Number of times that the action may be performed.")
    remaining: int = field("Number of remaining uses.")
    reason: str = field("Reason from the requester.")
    details: dict[str, Any] = field("The difference that the action makes, as in the audit log.")
    request: BoundRequest | None = field(
        "The only request that may use the approval; null for revocations."
    )
    record_version: int = field(
        "Version of the record that the approval was compared with; 0 if the record is new."
    )
    status: ApprovalStatus = field(
        "Status of the approval. `used`: no uses remain. `expired`: it can no longer be decided "
        "or used."
    )
    requested_by: str = field("Identity of the requester.")
    requested_by_id: str | None = field(
        "Identifier of the person who requested it; null for the operator.", **identifier(PERSON)
    )
    decided_by: str | None = field("Identity that decided; null if undecided.")
    decided_by_id: str | None = field(
        "Identifier of the person who decided; null for the operator, or if undecided.",
        **identifier(PERSON),
    )
    decided_at: MomentOut | None = field("Time of the decision; null if undecided.")
    created_at: MomentOut = field("Time of the request.")
    expires_at: MomentOut = field(
        "Time until which the approval can be decided, or used once it is approved."
    )


class ApprovalList(ResponseBody):
    """A page of approvals."""

    model_config = example(approvals=[_APPROVAL], cursor=CURSOR)

    approvals: list[ApprovalBody] = field("The approvals, newest first.")
    cursor: NextCursor

    @classmethod
    def of(cls, approvals: list[Approval], cursor: str | None) -> Self:
        """Return the body for a page."""
        return cls(approvals=[ApprovalBody.of(each) for each in approvals], cursor=cursor)
