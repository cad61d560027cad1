"""Bodies of the revocation endpoints (service.md 2.3 and 4.3)."""

from typing import Annotated, Final, Self

from pydantic import Field

from shared.model.revocations import Revocation, Verdict
from shared.operations.paging import Page
from shared.web.fields import (
    MomentIn,
    MomentOut,
    Reason,
    RecordBody,
    RequestBody,
    ResponseBody,
    WarrantId,
    example,
)

BATCH_MAX: Final = 1000
BATCH_BODY_MAX: Final = 1024 * 1024


class CreateRevocation(RequestBody):
    """The body of POST /v1/revocations.

    `warrant_expires_at` is when the warrant itself ends; it may lie in the past. One list lifetime
    after it the warrant leaves the list, so give it only if verifiers refuse the warrant from then
    on. It is recorded with a new revocation; one that exists keeps its own.
    """

    model_config = example(warrant_id="svc_wrt_laptop-17", reason="laptop stolen")

    warrant_id: WarrantId
    reason: Reason
    warrant_expires_at: MomentIn | None = None


class CheckBatch(RequestBody):
    """The body of POST /v1/revocations/check-batch."""

    model_config = example(warrant_ids=["svc_wrt_laptop-17", "svc_wrt_laptop-18"])

    warrant_ids: Annotated[list[WarrantId], Field(min_length=1, max_length=BATCH_MAX)]


class RevocationRecord(RecordBody):
    """A revocation record."""

    id: str
    warrant_id: str
    reason: str
    created_at: MomentOut
    created_by: str


class RevocationList(ResponseBody):
    """A page of revocation records."""

    revocations: list[RevocationRecord]
    total: int
    cursor: str | None

    @classmethod
    def of(cls, page: Page[Revocation], *, cursor: str | None) -> Self:
        """The page, with the cursor to the next."""
        records = [RevocationRecord.of(record) for record in page.entries]
        return cls(revocations=records, total=page.total, cursor=cursor)


class CheckResult(ResponseBody):
    """Whether one warrant is revoked; when and why only if it is."""

    warrant_id: str
    revoked: bool
    revoked_at: MomentOut | None = None
    reason: str | None = None

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """The verdict."""
        if not verdict.revoked:
            return cls(warrant_id=verdict.warrant_id, revoked=False)
        return cls(
            warrant_id=verdict.warrant_id,
            revoked=True,
            revoked_at=verdict.revoked_at,
            reason=verdict.reason,
        )


class BatchResult(ResponseBody):
    """Whether one warrant of a batch is revoked, and when."""

    revoked: bool
    revoked_at: MomentOut | None = None

    @classmethod
    def of(cls, verdict: Verdict) -> Self:
        """The verdict."""
        if not verdict.revoked:
            return cls(revoked=False)
        return cls(revoked=True, revoked_at=verdict.revoked_at)


class BatchResults(ResponseBody):
    """The verdict on each warrant of a batch."""

    results: dict[str, BatchResult]
