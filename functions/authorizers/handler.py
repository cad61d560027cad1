"""The registry of authorizers over HTTP (FLEET-1)."""

from typing import Annotated

from fastapi import Path, Response

from functions.authorizers import compat, native
from functions.authorizers.registration import REGISTERED_BEFORE, registered
from functions.authorizers.schemas import (
    Authorizer,
    AuthorizerId,
    AuthorizerList,
    HeartbeatTaken,
    RegisterAuthorizer,
    RegisteredAuthorizer,
    Report,
    ReportsTaken,
    SendReports,
)
from shared.errors import NotFound
from shared.model.rate_limit import Purpose
from shared.operations.api import authorizers
from shared.web.app import create_app, lambda_handler
from shared.web.paging import Pager, Paging
from shared.web.routes import ApiRequest, router, serves

routes = router("Authorizers")

Identifier = Annotated[AuthorizerId, Path(alias="id")]


@routes.post("/v1/authorizers/register", status_code=201, responses=REGISTERED_BEFORE)
@serves(authorizers.register, purpose=Purpose.HEARTBEATS)
async def register_authorizer(
    here: ApiRequest, body: RegisterAuthorizer, response: Response
) -> RegisteredAuthorizer:
    """Register an authorizer, so that the service knows who must hold each revocation.

    If the same caller registered one of this `name` and `public_key` before, the response is 200
    with the same `id`. Unknown fields of the body are ignored.

    429: the rate limit is exceeded, or the tenant has 20,000 authorizers.
    """
    return registered(here, body.description(), response)


@routes.post("/v1/authorizers/{id}/heartbeat")
@serves(authorizers.heartbeat, raises=(NotFound,), purpose=Purpose.HEARTBEATS)
async def send_heartbeat(
    here: ApiRequest, authorizer_id: Identifier, body: Report
) -> HeartbeatTaken:
    """Report what an authorizer holds, and that it is running.

    Report once after each advance, after a random time of up to `spread_seconds`, and at the latest
    after `report_after_seconds`. An authorizer that did not report for 30 days is registered again
    by its heartbeat. Unknown fields of the body are ignored.

    404: another caller registered the authorizer, or an administrator removed it.
    """
    taken = here.run(authorizers.heartbeat, authorizer_id=authorizer_id, beat=body.beat())
    return HeartbeatTaken.of(taken)


@routes.post("/v1/authorizers/reports")
@serves(authorizers.report, purpose=Purpose.HEARTBEATS)
async def send_reports(here: ApiRequest, body: SendReports) -> ReportsTaken:
    """Report what the authorizers behind a relay hold.

    The relay registers each with its own API key, and reports for up to 100 of them at once, as
    each would report itself. The response has one result for each; the others are not affected by
    one that cannot be taken. Unknown fields of the body are ignored.
    """
    beats = body.beats()
    return ReportsTaken.of(beats, here.run(authorizers.report, relay=body.relay, beats=beats))


@routes.get("/v1/authorizers")
@serves(authorizers.page)
async def list_authorizers(here: ApiRequest, query: Paging) -> AuthorizerList:
    """List the authorizers, newest first.

    Authorizers that did not report for 30 days are not listed. `total` may still count them.
    """
    pages = Pager(here.caller, query.cursor, "authorizers")
    page = here.run(authorizers.page, before=pages.before, limit=query.limit)
    return AuthorizerList.of(page, pages)


@routes.get("/v1/authorizers/{id}")
@serves(authorizers.get, raises=(NotFound,))
async def get_authorizer(here: ApiRequest, authorizer_id: Identifier) -> Authorizer:
    """Get one authorizer, with what it reported last."""
    return Authorizer.of(here.run(authorizers.get, authorizer_id=authorizer_id))


@routes.delete("/v1/authorizers/{id}", status_code=204)
@serves(authorizers.remove, raises=(NotFound,))
async def remove_authorizer(here: ApiRequest, authorizer_id: Identifier) -> None:
    """Remove an authorizer that does not run any more.

    It does not count any more as one that must hold a revocation. For 30 days its heartbeats are
    refused with 404. Removing it does not stop it from enforcing warrants, nor from registering
    again; revoke its API key for that.
    """
    here.run(authorizers.remove, authorizer_id=authorizer_id)


app = create_app(native.routes, routes, compat.routes)
handler = lambda_handler(app)
