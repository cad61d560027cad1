"""The registry of authorizers over HTTP (FLEET-1)."""

from typing import Annotated

from fastapi import Path, Response

from functions.authorizers.schemas import (
    AuthorizerId,
    HeartbeatTaken,
    RegisterAuthorizer,
    RegisteredAuthorizer,
    Report,
)
from shared.errors import NotFound
from shared.model.rate_limit import Purpose
from shared.operations.api import authorizers
from shared.web.app import create_app, lambda_handler
from shared.web.routes import ApiRequest, router, serves

routes = router("Authorizers")

Identifier = Annotated[AuthorizerId, Path(alias="id")]


@routes.post(
    "/v1/authorizers/register",
    status_code=201,
    responses={
        200: {
            "model": RegisteredAuthorizer,
            "description": "The caller registered it already; this is its identifier",
        }
    },
)
@serves(authorizers.register, purpose=Purpose.HEARTBEATS)
async def register_authorizer(
    here: ApiRequest, body: RegisterAuthorizer, response: Response
) -> RegisteredAuthorizer:
    """Register an authorizer, so that the service knows who must hold each revocation.

    If the same caller registered one of this `name` and `public_key` before, the response is 200
    with the same `id`. Unknown fields of the body are ignored.

    429: the rate limit is exceeded, or the tenant has 20,000 authorizers.
    """
    made = here.run(authorizers.register, described=body.description())
    response.status_code = 201 if made.is_new else 200
    return RegisteredAuthorizer.of(made)


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


app = create_app(routes)
handler = lambda_handler(app)
