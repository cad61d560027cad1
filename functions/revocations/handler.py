"""Revocations over HTTP (service.md 4.3)."""

from fastapi import Response

from functions.revocations.schemas import (
    BATCH_BODY_MAX,
    BatchResult,
    BatchResults,
    CheckBatch,
    CheckResult,
    CreateRevocation,
    RevocationList,
    RevocationRecord,
)
from shared.errors import NotFound
from shared.operations import revocations
from shared.web import paging
from shared.web.app import create_app, lambda_handler
from shared.web.fields import WarrantId
from shared.web.paging import Paging
from shared.web.routes import Here, router, serves

routes = router()


@routes.get("/v1/revocations/check")
@serves(revocations.check)
async def check_revocation(here: Here, warrant_id: WarrantId) -> CheckResult:
    """Say whether a warrant is revoked now."""
    return CheckResult.of(revocations.check(here.ports, here.caller, warrant_id=warrant_id))


@routes.post("/v1/revocations/check-batch")
@serves(revocations.check_batch, body_max=BATCH_BODY_MAX)
async def check_revocations(here: Here, body: CheckBatch) -> BatchResults:
    """Say of up to 1000 warrants whether each is revoked now."""
    verdicts = revocations.check_batch(here.ports, here.caller, warrant_ids=body.warrant_ids)
    return BatchResults(
        results={warrant_id: BatchResult.of(verdict) for warrant_id, verdict in verdicts.items()}
    )


@routes.get("/v1/revocations")
@serves(revocations.page)
async def list_revocations(here: Here, query: Paging) -> RevocationList:
    """List the tenant's revocation records, newest first."""
    before = paging.decode(query.cursor, here.caller, endpoint="revocations")
    page = revocations.page(here.ports, here.caller, before=before, limit=query.limit)
    cursor = paging.encode(page.next_before, here.caller, endpoint="revocations")
    return RevocationList.of(page, cursor=cursor)


@routes.post(
    "/v1/revocations",
    status_code=201,
    responses={200: {"model": RevocationRecord, "description": "Revoked already"}},
)
@serves(revocations.create)
async def create_revocation(
    here: Here, body: CreateRevocation, response: Response
) -> RevocationRecord:
    """Revoke a warrant; one that is revoked already answers 200 with its first record."""
    record, is_new = revocations.create(
        here.ports,
        here.caller,
        warrant_id=body.warrant_id,
        reason=body.reason,
        warrant_expires_at=body.warrant_expires_at,
    )
    response.status_code = 201 if is_new else 200
    return RevocationRecord.of(record)


@routes.delete("/v1/revocations/{id}", status_code=204)
@serves(revocations.delete, raises=(NotFound,))
async def delete_revocation(here: Here, id: str) -> None:  # noqa: A002 (the contract's name)
    """Take a revocation back; the warrant holds again."""
    revocations.delete(here.ports, here.caller, revocation_id=id)


app = create_app(routes)
handler = lambda_handler(app)
