"""Bodies of the batch of revocations (REVOKE-20)."""

from collections import Counter
from typing import Annotated, Self

from pydantic import Field
from pydantic.json_schema import WithJsonSchema

from shared.errors import InvalidRequest
from shared.model.identifiers import BATCH, REVOCATION
from shared.model.revocation_batches import (
    BATCH_MAX,
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
    field,
    identifier,
    is_of,
    omittable,
    optional,
    sample,
)

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

    # Strict mode would reject the text of an enumeration member.
    action: Annotated[BatchAction, Field(strict=False)] = Field(
        description="`revoke` or `unrevoke`. An unrevoked warrant is valid again."
    )
    warrant_ids: Annotated[list[WarrantId], Field(min_length=1, max_length=BATCH_MAX)] | None = (
        omittable(
            "Identifiers of the warrants. With `unrevoke`, pass either this or `revocation_ids`."
        )
    )
    revocation_ids: (
        Annotated[list[OneRevocation], Field(min_length=1, max_length=BATCH_MAX)] | None
    ) = omittable(
        "Identifiers of the revocations, only with `unrevoke`. If a warrant was unrevoked and "
        "revoked again, it has a new revocation identifier."
    )
    reason: Reason = Field(
        description="Reason. With `unrevoke`, it is recorded only in the audit log."
    )
    warrant_expires_at: MomentIn | None = omittable(
        "Expiry of all these warrants, as for a single revocation. Only with `revoke`."
    )
    batch_id: BatchId | None = omittable(
        "Batch of the call. Choose `svc_bat_` and a ULID, so that you can repeat the call after a "
        "lost response. If omitted, the service creates a batch."
    )
    dry_run: bool = Field(
        default=False,
        description="Change nothing, and return the results that the call would have.",
    )

    def batch(self) -> BatchRequest:
        """Return the batch request. Raises `InvalidRequest` if the fields contradict each other."""
        by_revocation = self.revocation_ids is not None
        revokes = self.action is BatchAction.REVOKE
        if revokes and (self.warrant_ids is None or by_revocation):
            raise InvalidRequest(
                "warrant_ids: is required with revoke, and revocation_ids must be omitted."
            )
        if (self.warrant_ids is not None) == by_revocation:
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

    id: str = field("Identifier from the request: of the warrant or the revocation.")
    outcome: BatchOutcome = field(
        "`revoked`: by this call, or by the same call before. `already_revoked`: by an earlier "
        "call of another batch. `extended`: revoked before, and now until a later expiry or "
        "permanently. `unrevoked`: by this call, or by the same call before. `not_revoked`: there "
        "was no revocation to remove. `failed`: the result is unknown or the write failed; see "
        "`code` and `message`."
    )
    revocation_id: str | None = optional(
        "Identifier of the current or removed revocation of the warrant; absent if there is none."
    )
    warrant_id: str | None = optional(
        "Identifier of the warrant, if `id` is the identifier of a revocation."
    )
    code: str | None = optional(
        "Error code, only if the outcome is `failed`. After `unavailable`, the call can be "
        "repeated."
    )
    message: str | None = optional("Error message for people, only if the outcome is `failed`.")

    @classmethod
    def of(cls, result: BatchResult) -> Self:
        """Return the body for a result."""
        error = result.error
        return cls(
            id=result.id,
            outcome=result.outcome,
            revocation_id=result.revocation_id,
            warrant_id=result.warrant_id,
            code=None if error is None else code_of(error),
            message=None if error is None else message_of(error),
        )


class OutcomeCounts(ResponseBody):
    """The number of identifiers with each outcome."""

    revoked: int = field("Number of revoked warrants.", minimum=0)
    already_revoked: int = field("Number of warrants that were already revoked.", minimum=0)
    extended: int = field(
        "Number of revocations extended to a later expiry, or made permanent.", minimum=0
    )
    unrevoked: int = field("Number of unrevoked warrants.", minimum=0)
    not_revoked: int = field("Number of warrants without a revocation to remove.", minimum=0)
    failed: int = field("Number of failed identifiers.", minimum=0)


class RevocationChanges(ResponseBody):
    """The outcome for each identifier of a call."""

    model_config = example(
        batch_id=sample(BATCH),
        results=[
            {"id": "svc_wrt_laptop-17", "outcome": "revoked", "revocation_id": sample(REVOCATION)},
        ],
        counts=dict.fromkeys(BatchOutcome, 0) | {"revoked": 1},
    )

    batch_id: str = field("Identifier of the batch.", **identifier(BATCH))
    results: list[RevocationChange] = field(
        "One result per identifier, in the order of the request. Repeated identifiers have one "
        "result."
    )
    counts: OutcomeCounts = field("Number of results with each outcome.")

    @classmethod
    def of(cls, results: BatchResults) -> Self:
        """Return the body for the results of a call."""
        counts = Counter(each.outcome for each in results.results)
        return cls(
            batch_id=results.batch_id,
            results=[RevocationChange.of(each) for each in results.results],
            counts=OutcomeCounts(**{each.value: counts[each] for each in BatchOutcome}),
        )
