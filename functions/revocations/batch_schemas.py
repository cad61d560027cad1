"""Bodies of the batch of revocations (REVOKE-20)."""

from collections import Counter
from typing import Annotated, Self

from pydantic import Field
from pydantic.json_schema import WithJsonSchema

from functions.revocations.schemas import BATCH_MAX
from shared.errors import InvalidRequest
from shared.model.identifiers import BATCH, REVOCATION
from shared.model.revocation_batches import (
    BatchAction,
    BatchOutcome,
    BatchRequest,
    BatchResult,
    BatchResults,
)
from shared.web.errors import code_of, message_of
from shared.web.fields import (
    MomentIn,
    Reason,
    RequestBody,
    ResponseBody,
    WarrantId,
    example,
    identifier,
    is_of,
    optional,
    response_field,
    sample,
)

# Strict mode would reject the text of an enumeration member.
OneAction = Annotated[BatchAction, Field(strict=False)]
BatchId = Annotated[str, is_of(BATCH), WithJsonSchema({"type": "string", **identifier(BATCH)})]
OneRevocation = Annotated[
    str, is_of(REVOCATION), WithJsonSchema({"type": "string", **identifier(REVOCATION)})
]


class BatchRevocations(RequestBody):
    """The warrants to revoke, or the revocations to delete."""

    model_config = example(
        action="revoke",
        warrant_ids=["svc_wrt_laptop-17", "svc_wrt_laptop-18"],
        reason="laptops stolen",
        batch_id=sample(BATCH),
    )

    action: OneAction = Field(
        description="`revoke` or `unrevoke`. An unrevoked warrant is valid again."
    )
    warrant_ids: Annotated[list[WarrantId], Field(min_length=1, max_length=BATCH_MAX)] | None = (
        Field(
            default=None,
            description="The identifiers of the warrants. With `unrevoke`, pass either these or "
            "`revocation_ids`.",
        )
    )
    revocation_ids: (
        Annotated[list[OneRevocation], Field(min_length=1, max_length=BATCH_MAX)] | None
    ) = Field(
        default=None,
        description="The identifiers of the revocations, with `unrevoke` only. A warrant that was "
        "taken back and revoked again has another one.",
    )
    reason: Reason = Field(description="Why. With `unrevoke` it is in the audit log only.")
    warrant_expires_at: MomentIn | None = Field(
        default=None,
        description="When all of the warrants themselves end, as for a single revocation. With "
        "`revoke` only.",
    )
    batch_id: BatchId | None = Field(
        default=None,
        description="The batch that the call belongs to. Choose `svc_bat_` and a ULID, so that you "
        "can repeat a call whose answer was lost. If it is omitted, the call begins a batch.",
    )
    dry_run: bool = Field(
        default=False,
        description="If true, nothing is changed. The results are what the call would do.",
    )

    def batch(self) -> BatchRequest:
        """Return the batch request. Raises `InvalidRequest` if the fields contradict each other."""
        by_revocation = self.revocation_ids is not None
        revokes = self.action is BatchAction.REVOKE
        given = self.warrant_ids, self.revocation_ids
        if revokes and (self.warrant_ids is None or by_revocation):
            raise InvalidRequest("warrant_ids: is required with revoke, without revocation_ids.")
        if given.count(None) != 1:
            raise InvalidRequest("body: pass either warrant_ids or revocation_ids.")
        if not revokes and self.warrant_expires_at is not None:
            raise InvalidRequest("warrant_expires_at: must be omitted with unrevoke.")
        ids = tuple(dict.fromkeys(self.warrant_ids or self.revocation_ids or []))
        return BatchRequest(
            self.action,
            ids,
            self.reason,
            by_revocation,
            self.batch_id,
            self.warrant_expires_at,
            self.dry_run,
        )


class RevocationChange(ResponseBody):
    """The outcome for one identifier of a batch."""

    model_config = example(
        id="svc_wrt_laptop-17", outcome="revoked", revocation_id=sample(REVOCATION)
    )

    id: str = response_field("The identifier of the warrant or of the revocation, as it was given.")
    outcome: BatchOutcome = response_field(
        "`revoked`: by this call, or by an equal one before. `already_revoked`: before, by a call "
        "that was not of this batch. `extended`: before, and by this call to a later end, or for "
        "good. `unrevoked`: by this call, or by an equal one before. "
        "`not_revoked`: there was nothing to take back. `failed`: nothing is known to be done; "
        "`code` and `message` say why."
    )
    revocation_id: str | None = optional(
        "Identifier of the revocation that the warrant has, or had; absent if there is none."
    )
    warrant_id: str | None = optional("The warrant, if `id` is that of a revocation of it.")
    code: str | None = optional("The error code, if it failed; `unavailable` may be repeated.")
    message: str | None = optional("What is wrong, for people.")

    @classmethod
    def of(cls, result: BatchResult) -> Self:
        """Return the body for a result."""
        failed = result.error
        return cls(
            id=result.id,
            outcome=result.outcome,
            revocation_id=result.revocation_id,
            warrant_id=result.warrant_id,
            code=None if failed is None else code_of(failed),
            message=None if failed is None else message_of(failed),
        )


class OutcomeCounts(ResponseBody):
    """The number of identifiers with each outcome."""

    revoked: int = response_field("Revoked.", minimum=0)
    already_revoked: int = response_field("Revoked before.", minimum=0)
    extended: int = response_field(
        "Revoked before, and now until a later end, or for good.", minimum=0
    )
    unrevoked: int = response_field("Unrevoked.", minimum=0)
    not_revoked: int = response_field("Not revoked, so there was nothing to take back.", minimum=0)
    failed: int = response_field("Failed.", minimum=0)


class RevocationChanges(ResponseBody):
    """The outcome for each identifier of a call."""

    model_config = example(
        batch_id=sample(BATCH),
        results=[
            {"id": "svc_wrt_laptop-17", "outcome": "revoked", "revocation_id": sample(REVOCATION)},
        ],
        counts={
            "revoked": 1,
            "already_revoked": 0,
            "extended": 0,
            "unrevoked": 0,
            "not_revoked": 0,
            "failed": 0,
        },
    )

    batch_id: str = response_field("Identifier of the batch.", **identifier(BATCH))
    results: list[RevocationChange] = response_field(
        "A result for each identifier, in the order in which they were given; once if it was "
        "repeated."
    )
    counts: OutcomeCounts = response_field("The number of results with each outcome.")

    @classmethod
    def of(cls, results: BatchResults) -> Self:
        """Return the body for the results of a call."""
        counts = Counter(each.outcome for each in results.results)
        return cls(
            batch_id=results.batch_id,
            results=[RevocationChange.of(each) for each in results.results],
            counts=OutcomeCounts(**{each.value: counts[each] for each in BatchOutcome}),
        )
