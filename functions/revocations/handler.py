"""Revocations over HTTP (REVOKE-1, CHECK-1)."""

from typing import Annotated

from fastapi import Path, Query, Response

from functions.revocations.propagation_schemas import RevocationPropagation, Wait
from functions.revocations.schemas import (
    BATCH_BODY_MAX,
    CheckRevocations,
    CreateRevocation,
    FollowedRevocation,
    RevocationCheck,
    RevocationId,
    RevocationList,
    RevocationRecord,
    RevocationStatus,
    RevocationStatuses,
)
from shared.errors import NotFound
from shared.operations.api import propagation, revocations
from shared.web.app import create_app, lambda_handler
from shared.web.fields import WarrantId
from shared.web.held import Provisional
from shared.web.paging import Pager, Paging
from shared.web.routes import ApiRequest, router, serves
from shared.web.work import Kind

routes = router("Revocations")


@routes.get("/v1/revocations/check")
@serves(revocations.check, kind=Kind.QUICK)
async def check_revocation(
    here: ApiRequest, warrant_id: Annotated[WarrantId, Query(description="The warrant to check.")]
) -> RevocationCheck:
    """Check whether a warrant is revoked.

    A warrant is revoked if it has a revocation record, or if the key that signed it is revoked. The
    result is always current and does not wait for the next list. An unknown identifier is not
    revoked. If the service cannot determine the result, it returns 503 and never `false`.
    """
    return RevocationCheck.of(here.run(revocations.check, warrant_id=warrant_id))


@routes.post("/v1/revocations/check-batch")
@serves(revocations.check_batch, body_max=BATCH_BODY_MAX)
async def check_revocations(here: ApiRequest, body: CheckRevocations) -> RevocationStatuses:
    """Check whether each of up to 1000 warrants is revoked.

    The results are those of the single check, without the reason. If an identifier is repeated, the
    response has it once.
    """
    verdicts = here.run(revocations.check_batch, warrant_ids=body.warrant_ids)
    return RevocationStatuses(
        results={
            warrant_id: RevocationStatus.of(verdict) for warrant_id, verdict in verdicts.items()
        }
    )


@routes.get("/v1/revocations")
@serves(revocations.page)
async def list_revocations(here: ApiRequest, query: Paging) -> RevocationList:
    """List the revocation records.

    The newest record comes first. Warrants that are revoked because their signing key is revoked
    have no record; the warrants of a key are listed by `GET /v1/keys/{keyId}/warrants`.
    """
    pages = Pager(here.caller, query.cursor, "revocations")
    page = here.run(revocations.page, before=pages.before, limit=query.limit)
    return RevocationList.of(page, pages)


@routes.post(
    "/v1/revocations",
    status_code=201,
    responses={
        200: {
            "model": RevocationRecord,
            "description": "The warrant was revoked already; this is its record",
        }
    },
)
@serves(revocations.create)
async def create_revocation(
    here: ApiRequest, body: CreateRevocation, response: Response
) -> RevocationRecord:
    """Revoke a warrant.

    Checks see the revocation from the next request on; the Signed Revocation List has it from its
    next version on. If the warrant has a revocation record already, the status is 200, the response
    is that record, and nothing changes.
    """
    record, is_new = here.run(
        revocations.create,
        warrant_id=body.warrant_id,
        reason=body.reason,
        warrant_expires_at=body.warrant_expires_at,
    )
    response.status_code = 201 if is_new else 200
    return RevocationRecord.of(record)


@routes.get("/v1/revocations/{id}")
@serves(revocations.get, raises=(NotFound,))
async def get_revocation(
    here: ApiRequest, revocation_id: Annotated[RevocationId, Path(alias="id")]
) -> FollowedRevocation:
    """Get a revocation record, and how far the revocation has got.

    An authorizer that has `feed_sequence` of the feed, or a list of `list_version` or later,
    refuses the warrant.
    """
    record, reach = here.run(revocations.get, revocation_id=revocation_id)
    return FollowedRevocation.following(record, reach)


@routes.get("/v1/revocations/{id}/propagation", response_model=RevocationPropagation)
@serves(propagation.of_revocation, raises=(NotFound,))
async def get_revocation_propagation(
    here: ApiRequest, revocation_id: Annotated[RevocationId, Path(alias="id")], query: Wait
) -> Response:
    """Prove that every registered authorizer refuses the warrant.

    An authorizer is *holding* if it reported the entry of the feed that says so, or a later one. It
    is *closed* if it did not, but its state is older than it accepts unless it has the entry: then
    it refuses every request. `complete` means that no authorizer is *unknown*. With `wait`, the
    service delays a response that is not complete.

    The claim rests on what the authorizers report of themselves, which the service cannot verify:
    their entries, and how old a state they accept. It rests on the clocks of the service, which may
    differ by less than a minute. It covers the registered authorizers only.

    404: there is no such revocation, or it was deleted.
    """
    progress = here.run(propagation.of_revocation, revocation_id=revocation_id)
    body = RevocationPropagation.of(progress).model_dump_json()
    seconds = min(query.wait, here.wait_max)
    # Nothing more follows if the warrant has ended.
    if progress.propagation.is_complete or progress.traced.ended_at or not seconds:
        return Response(body, media_type="application/json")
    return Provisional(body, seconds=seconds, media_type="application/json")


@routes.delete("/v1/revocations/{id}", status_code=204)
@serves(revocations.delete, raises=(NotFound,))
async def delete_revocation(
    here: ApiRequest, revocation_id: Annotated[RevocationId, Path(alias="id")]
) -> None:
    """Delete a revocation, so that the warrant is valid again.

    A warrant whose signing key is revoked stays revoked.
    """
    here.run(revocations.delete, revocation_id=revocation_id)


app = create_app(routes)
handler = lambda_handler(app)
