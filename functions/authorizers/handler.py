"""The registry of authorizers over HTTP (FLEET-1)."""

from typing import Annotated

from fastapi import Path, Query, Response

from functions.authorizers import compat, native
from functions.authorizers.registration import REGISTERED_BEFORE, registered
from functions.authorizers.schemas import (
    AuthorizerBody,
    AuthorizerId,
    AuthorizerList,
    HeartbeatTaken,
    RegisterAuthorizer,
    RegisteredAuthorizer,
    ReportBody,
    ReportsTaken,
    SendReports,
)
from shared.errors import NotFound
from shared.model.identifiers import API_KEY
from shared.model.rate_limit import Purpose
from shared.operations.fleet import authorizers
from shared.web.app import create_app, lambda_handler
from shared.web.fields import identifier
from shared.web.paging import Pager, Paging
from shared.web.routes import ApiRequest, router, serves

routes = router("Authorizers")

Identifier = Annotated[AuthorizerId, Path(alias="id")]
OwnerKey = Annotated[
    str, Query(description="Identifier of the API key.", json_schema_extra=identifier(API_KEY))
]


@routes.post("/v1/authorizers/register", status_code=201, responses=REGISTERED_BEFORE)
@serves(authorizers.register, purpose=Purpose.HEARTBEATS)
async def register_authorizer(
    here: ApiRequest, body: RegisterAuthorizer, response: Response
) -> RegisteredAuthorizer:
    """Register an authorizer, so that the service knows who must hold each revocation.

    If the same caller registered one of this `name` and `public_key` before, the response is 200
    with the same `id`. Unknown fields of the body are ignored.

    409: the API key has registered as many authorizers as the setting `authorizers_max` allows.

    429: the rate limit is exceeded, or the tenant has 20,000 authorizers.
    """
    return registered(here, body.description(), response)


@routes.post("/v1/authorizers/{id}/heartbeat")
@serves(authorizers.heartbeat, raises=(NotFound,), purpose=Purpose.HEARTBEATS)
async def send_heartbeat(
    here: ApiRequest, authorizer_id: Identifier, body: ReportBody
) -> HeartbeatTaken:
    """Report what an authorizer holds, and that it is running.

    Report once after each advance, after a random time of up to `spread_seconds`, and at the latest
    after `report_after_seconds`. Unknown fields of the body are ignored.

    404: the caller has not registered the authorizer, or it was removed, or it did not report for
    more than 30 days. Register it again.
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
async def get_authorizer(here: ApiRequest, authorizer_id: Identifier) -> AuthorizerBody:
    """Get one authorizer, with what it reported last."""
    return AuthorizerBody.of(here.run(authorizers.get, authorizer_id=authorizer_id))


@routes.delete("/v1/authorizers/{id}", status_code=204)
@serves(authorizers.remove, raises=(NotFound,))
async def remove_authorizer(here: ApiRequest, authorizer_id: Identifier) -> None:
    """Remove an authorizer that does not run any more.

    It does not count any more as one that must hold a revocation, and its heartbeats are refused
    with 404. Removing it does not stop it from enforcing warrants, nor from registering again;
    revoke its API key for that. A key without the scope `admin` removes what its owner registered.
    """
    here.run(authorizers.remove, authorizer_id=authorizer_id)


@routes.delete("/v1/authorizers", status_code=204)
@serves(authorizers.remove_of_key, raises=(NotFound,))
async def remove_authorizers_of_key(here: ApiRequest, owner: OwnerKey) -> None:
    """Remove all authorizers that an API key registered, such as a stolen one.

    Each request removes up to 2,000.

    404: the caller has not the scope `admin`, and names another key than its own.

    429: the rate limit is exceeded, or some authorizers are left; repeat the request.
    """
    here.run(authorizers.remove_of_key, key_id=owner)


app = create_app(native.routes, routes, compat.routes)
handler = lambda_handler(app)
