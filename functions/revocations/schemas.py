"""Bodies of the revocation endpoints (REVOKE-1, CHECK-4)."""

from typing import Annotated, Final, Self

from pydantic import Field, JsonValue

from shared.model.identifiers import REVOCATION
from shared.model.revocations import Revocation
from shared.operations.srl.reach import Reach
from shared.web.fields import (
    CURSOR,
    MomentIn,
    MomentOut,
    NextCursor,
    Reason,
    RecordBody,
    RequestBody,
    ResponseBody,
    SignedWarrantId,
    Total,
    WarrantId,
    example,
    identifier,
    optional,
    sample,
    shown,
)
from shared.web.paging import PageBody

BATCH_MAX: Final = 1000
BATCH_BODY_MAX: Final = 1024 * 1024


class CreateRevocation(RequestBody):
    """The warrant to revoke."""

    model_config = example(warrant_id="svc_wrt_laptop-17", reason="laptop stolen")

    warrant_id: WarrantId = Field(description="The warrant to revoke. The service may not know it.")
    reason: Reason = Field(
        description="Why it is revoked, in one or more lines. Leading and trailing white space is "
        "removed."
    )
    warrant_expires_at: MomentIn | None = Field(
        default=None,
        description="When the warrant itself ends; it may be in the past. The warrant is removed "
        "from the Signed Revocation List one list lifetime after this moment, so pass it only if "
        "verifiers refuse the warrant from then on. If the service signed the warrant with an "
        "`expires_at`, "
        "the two must be equal.",
    )


class CheckRevocations(RequestBody):
    """The warrants to check."""

    model_config = example(warrant_ids=["svc_wrt_laptop-17", "svc_wrt_laptop-18"])

    warrant_ids: Annotated[list[WarrantId], Field(min_length=1, max_length=BATCH_MAX)] = Field(
        description="The identifiers of the warrants."
    )


_RECORD: Final[dict[str, JsonValue]] = {
    "id": sample(REVOCATION),
    "warrant_id": "svc_wrt_laptop-17",
    "reason": "laptop stolen",
    "created_at": "2026-11-21T12:00:00Z",
    "created_by": "admin@acme.svc",
}
RevocationId = Annotated[str, shown("Identifier of the revocation.", **identifier(REVOCATION))]


class RevocationRecord(RecordBody):
    """The record of a revocation."""

    model_config = example(**_RECORD)

    id: RevocationId
    warrant_id: SignedWarrantId
    reason: str = shown("Why the warrant was revoked.")
    created_at: MomentOut = shown("When the warrant was revoked.")
    created_by: str = shown(
        "Who revoked it: `<service account>@<tenant>.svc`, or `<API key id>@<tenant>.svc` for a "
        "key without an account."
    )


class FollowedRevocation(RevocationRecord):
    """The record of a revocation, and from when on authorizers refuse the warrant."""

    model_config = example(**_RECORD, feed_sequence=61, list_version=44)

    feed_sequence: int | None = shown(
        "The first entry of the feed that says so; null if there is none yet. If more than 1000 "
        "entries followed, a later one."
    )
    list_version: int | None = shown(
        "The first list that says so, of those whose heads are kept; null if there is none yet."
    )

    @classmethod
    def following(cls, record: Revocation, reach: Reach) -> Self:
        """Return the body for a record and how far it has got."""
        fields = {name: getattr(record, name) for name in RevocationRecord.model_fields}
        return cls(**fields, **reach._asdict())


class RevocationList(PageBody):
    """A page of revocation records."""

    model_config = example(revocations=[_RECORD], total=132, cursor=CURSOR)

    revocations: list[RevocationRecord] = shown("The records of this page, newest first.")
    total: Total
    cursor: NextCursor


class RevocationCheck(RecordBody):
    """Whether a warrant is revoked; if it is, when and why."""

    model_config = example(
        warrant_id="svc_wrt_laptop-17",
        revoked=True,
        revoked_at="2026-11-21T12:00:00Z",
        reason="laptop stolen",
    )

    warrant_id: SignedWarrantId
    revoked: bool = shown("Whether the warrant is revoked now.")
    revoked_at: MomentOut | None = optional(
        "When the warrant, or the key that signed it, was revoked; only if it is revoked."
    )
    reason: str | None = optional("Why it was revoked; only if it is revoked.")


class RevocationStatus(RecordBody):
    """Whether one warrant of a batch is revoked, and when."""

    model_config = example(revoked=True, revoked_at="2026-11-21T12:00:00Z")

    revoked: bool = shown("Whether the warrant is revoked now.")
    revoked_at: MomentOut | None = optional(
        "When the warrant, or the key that signed it, was revoked; only if it is revoked."
    )


class RevocationStatuses(ResponseBody):
    """Whether each warrant of a batch is revoked."""

    model_config = example(
        results={
            "svc_wrt_laptop-17": {"revoked": True, "revoked_at": "2026-11-21T12:00:00Z"},
            "svc_wrt_laptop-18": {"revoked": False},
        }
    )

    results: dict[str, RevocationStatus] = shown("The result for each identifier that was given.")
