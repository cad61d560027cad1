"""Revocations over HTTP (REVOKE-1, CHECK-1)."""

from dataclasses import replace
from typing import Annotated

from fastapi import Path, Query, Response

from functions.revocations.schemas import (
    CheckQuery,
    CheckRevocations,
    CountsQuery,
    CreateRevocation,
    NamedRevocation,
    RevocationCheck,
    RevocationCounts,
    RevocationList,
    RevocationQuery,
    RevocationStatus,
    RevocationStatuses,
    RevocationWithPublication,
)
from shared.capabilities import INSTALLED
from shared.errors import NotFound
from shared.operations.audit import revocation_counts
from shared.operations.changes import revocations
from shared.web.app import create_app, lambda_handler
from shared.web.bodies import BATCH_BODY_MAX
from shared.web.fields import Reason, RevocationId
from shared.web.paging import CursorCodec
from shared.web.routes import ApiRequest, router, serves
from shared.web.work import WorkKind

routes = router("Revocations")

OneRevocation = Annotated[RevocationId, Path(alias="id")]


@routes.get("/v1/revocations/check")
@serves(revocations.check, kind=WorkKind.QUICK)
async def check_revocation(
    request: ApiRequest, query: Annotated[CheckQuery, Query()]
) -> RevocationCheck:
    """Check whether a warrant, or a token of another issuer, is revoked.

    A warrant is revoked if it has a revocation record, or if the key that signed it is revoked. The
    result is always current and does not wait for the next SRL. An unknown identifier is not
    revoked. If the service cannot determine the result, it returns 503 and never `false`.
    """
    return RevocationCheck.of(request.run(revocations.check, warrant_id=query.one))


@routes.post("/v1/revocations/check-batch")
@serves(revocations.check_batch, body_max=BATCH_BODY_MAX)
async def check_revocations(request: ApiRequest, body: CheckRevocations) -> RevocationStatuses:
    """Check whether each of up to 1000 warrants is revoked.

    The results are the same as for the single check, without the reason. If an identifier is
    repeated, the response contains it once.
    """
    verdicts = request.run(revocations.check_batch, warrant_ids=body.warrant_ids)
    results = {name: RevocationStatus.of(verdict) for name, verdict in verdicts.items()}
    return RevocationStatuses(results=results)


@routes.get("/v1/revocations")
@serves(revocations.page)
async def list_revocations(
    request: ApiRequest, query: Annotated[RevocationQuery, Query()]
) -> RevocationList:
    """List the revocation records.

    The newest record comes first, except with `batch_id` or `warrant_prefix`. If more than one
    filter is given, a record must match all of them. With a filter, a page may have fewer records
    than `limit`, or none, although more follow. In this case, `cursor` is not null. Warrants that
    are revoked because their signing key is revoked have no record. `GET /v1/keys/{keyId}/warrants`
    lists the warrants of a key.
    """
    filters = query.filters()
    listed = query.model_dump_json(exclude={"limit", "cursor", "include"}, exclude_none=True)
    endpoint = "revocations" if listed == "{}" else f"revocations?{listed}"
    pages = CursorCodec(request.caller, query.cursor, endpoint)
    page = request.run(revocations.page, before=pages.position, limit=query.limit, filters=filters)
    if query.include is None:
        unnamed = [replace(each, created_by_name=None) for each in page.entries]
        page = replace(page, entries=unnamed)
    return RevocationList.of(page, pages)


@routes.post(
    "/v1/revocations",
    status_code=201,
    responses={
        200: {
            "model": NamedRevocation,
            "description": "The warrant is already revoked; the response is its revocation record",
        }
    },
)
@serves(revocations.create)
async def create_revocation(
    request: ApiRequest, body: CreateRevocation, response: Response
) -> NamedRevocation:
    """Revoke a warrant.

    Checks see the revocation from the next request on. The Signed Revocation List contains it from
    its next version on. If the warrant already has a revocation record, the status is 200 and the
    response is that record. The record changes only if it has a `warrant_expires_at` and the new
    one is later or omitted. It then gets the new value, and the warrant returns to the SRL if it
    had left it. If another identity created the record, deleting it unrevokes the warrant for you
    too.
    """
    record, is_new = request.run(
        revocations.create,
        warrant_id=body.one,
        reason=body.reason,
        warrant_expires_at=body.warrant_expires_at,
        issuer=body.token.issuer if body.token else None,
        token_value=body.token.value if body.token else None,
    )
    response.status_code = 201 if is_new else 200
    return NamedRevocation.of(record)


@routes.get("/v1/revocations/counts")
@serves(revocation_counts.counts)
async def count_revocations(
    request: ApiRequest, query: Annotated[CountsQuery, Query()]
) -> RevocationCounts:
    """Count created and deleted revocations per day.

    Days are in UTC. A change is counted when its entry is appended to the transparency log, usually
    within ten seconds. Counts of days before `counted_since` are null, because the tenant did not
    exist or the service did not count. `by_key` is the number of warrants with a revoked signing
    key. These warrants have no revocation record, or were revoked before.

    400: `to` is before `from`, or there are more than 92 days, or 31 with `interval=hour`.
    """
    start, end = query.window(request.ports.now())
    counts = request.run(revocation_counts.counts, start=start, end=end, hourly=query.is_hourly)
    return RevocationCounts.from_counts(counts, hourly=query.is_hourly)


@routes.get("/v1/revocations/{id}")
@serves(revocations.get, raises=(NotFound,))
async def get_revocation(
    request: ApiRequest, revocation_id: OneRevocation
) -> RevocationWithPublication:
    """Get a revocation record and its publication status.

    An authorizer refuses the warrant after it has applied the feed entry `feed_sequence`, or an SRL
    of `srl_version` or later.
    """
    record, reach = request.run(revocations.get, revocation_id=revocation_id)
    return RevocationWithPublication.following(record, reach)


@routes.delete("/v1/revocations/{id}", status_code=204)
@serves(revocations.delete, raises=(NotFound,), is_protected=True)
async def delete_revocation(
    request: ApiRequest,
    revocation_id: OneRevocation,
    reason: Annotated[
        Reason | None, Query(description="Reason, recorded in the audit log.")
    ] = None,
) -> None:
    """Delete a revocation.

    The warrant is valid again, unless its signing key is revoked. If the tenant's setting
    `unrevoke_policy` is `own`, keys without the scope `admin` can delete only revocations of their
    own identity that no other identity repeated. Otherwise the status is 403.
    """
    request.run(revocations.delete, revocation_id=revocation_id, reason=reason)


app = create_app(routes, *INSTALLED.routers("revocations"))
handler = lambda_handler(app)
