"""The registry of authorizers over HTTP (FLEET-1)."""

from typing import Annotated

from fastapi import Path, Query, Response

from functions.authorizers import bodies, registering, schemas, statuses
from functions.authorizers import operations as authorizers
from functions.authorizers.registrations import count_registered
from shared.capabilities import INSTALLED
from shared.errors import AuthorizerLimit, Conflict, Gone, NotFound
from shared.model.identifiers import API_KEY
from shared.model.rate_limit import BucketPurpose
from shared.web.app import create_app, lambda_handler
from shared.web.conditional import condition, json_response_with_etag
from shared.web.costs import EndpointCost, charges
from shared.web.fields import sample
from shared.web.routes import ApiRequest, router, serves
from shared.web.stored import header

routes = router("Authorizers")

Identifier = Annotated[bodies.AuthorizerId, Path(alias="id")]
Owner = Annotated[
    str,
    Query(
        description="Identifier of an API key, or the `owner` of an authorizer.",
        json_schema_extra={"examples": [sample(API_KEY), "checkout@acme.svc"]},
    ),
]


@routes.post("/v1/authorizers/register", status_code=201, responses=bodies.REGISTERED_BEFORE)
@serves(registering.register, raises=(Conflict, AuthorizerLimit), purpose=BucketPurpose.HEARTBEATS)
async def register_authorizer(
    request: ApiRequest, body: schemas.RegisterAuthorizer, response: Response
) -> bodies.RegisteredAuthorizer:
    """Register an authorizer.

    The service expects registered authorizers to enforce every revocation. If the same caller
    already registered this `name`, the response is 200 with the same `id`. The proved key is bound
    to the name. From then on, only reports signed by this key are accepted. Unknown fields of the
    body are ignored.

    409: the name belongs to an authorizer with another key. The message explains what to do.

    429: the rate limit is exceeded, or the caller has as many authorizers as the setting
    `max_authorizers` allows, or the tenant has 20,000.
    """
    return bodies.register(request, response, body.description(), body.statement())


@routes.post("/v1/authorizers/{id}/heartbeat")
@serves(authorizers.heartbeat, raises=(Conflict, NotFound), purpose=BucketPurpose.HEARTBEATS)
async def send_heartbeat(
    request: ApiRequest, authorizer_id: Identifier, body: schemas.ReportBody
) -> schemas.HeartbeatResponse:
    """Report the state of a running authorizer.

    Report once after each advance, after a random time of up to `jitter_seconds`, and at the latest
    after `report_after_seconds`. Unknown fields of the body are ignored.

    404: the caller has not registered the authorizer, or it was removed, or it did not report for
    more than 30 days and the maximum number of authorizers is reached. Register it again.

    409: the report is not signed by the key of the authorizer, or is not newer than the last one.
    The message explains what to do.
    """
    taken = request.run(authorizers.heartbeat, authorizer_id=authorizer_id, beat=body.beat())
    return schemas.HeartbeatResponse.of(taken)


@routes.post("/v1/authorizers/reports")
@serves(authorizers.report, purpose=BucketPurpose.HEARTBEATS)
@charges(EndpointCost(entries=("reports",)))
async def send_reports(request: ApiRequest, body: schemas.SendReports) -> schemas.ReportsResponse:
    """Report the states of the authorizers behind a relay.

    The relay registers each authorizer with its own API key, and forwards up to 100 of their
    reports at once, unchanged. The response has one result for each report. A rejected report does
    not affect the others. Unknown fields of the body are ignored.
    """
    beats = body.beats()
    return schemas.ReportsResponse.of_reports(
        beats, request.run(authorizers.report, relay=body.relay, beats=beats)
    )


@routes.get("/v1/authorizers")
@serves(authorizers.page, raises=(Gone,))
@charges(EndpointCost(records=count_registered, records_for="changed_since"))
async def list_authorizers(
    request: ApiRequest, query: Annotated[schemas.AuthorizerQuery, Query()]
) -> schemas.AuthorizerList:
    """List the authorizers, newest first.

    Authorizers that did not report for 30 days are not listed. `total` may still include them.

    With `include=enforcement`, each authorizer has its state for the newest feed entry, and the
    response has a `changed_since`. Pass the value of the first page in a later call to get only the
    authorizers that have changed.

    410: `changed_since` is older than an hour. Read all authorizers.
    """
    pages = query.pages(request.caller)
    if query.include is None:
        page = request.run(authorizers.page, before=pages.position, limit=query.limit)
        return schemas.AuthorizerList.of(page, pages)
    since = query.read_cursor(request.caller)
    judged = request.run(statuses.page, cursor=since, before=pages.position, limit=query.limit)
    return schemas.AuthorizerList.from_statuses(judged, pages, query.tokens(request.caller))


@routes.get(
    "/v1/authorizers/summary",
    response_model=schemas.FleetSummaryBody,
    responses={
        200: {
            "headers": {
                "ETag": header(
                    "Identifies this version of the summary. Send it in `If-None-Match`."
                )
            }
        },
        304: {"description": "The summary has not changed"},
    },
    openapi_extra=condition("The `ETag` of the last response."),
)
@serves(statuses.summary)
@charges(EndpointCost(records=count_registered))
async def get_authorizer_summary(request: ApiRequest) -> Response:
    """Count the authorizers by state for the newest feed entry.

    The states are the same as in the proof of propagation.
    """
    body = schemas.FleetSummaryBody.of(request.run(statuses.summary)).model_dump_json()
    return json_response_with_etag(request, body.encode())


@routes.get("/v1/authorizers/{id}")
@serves(authorizers.get, raises=(NotFound,))
async def get_authorizer(request: ApiRequest, authorizer_id: Identifier) -> schemas.AuthorizerBody:
    """Get an authorizer with its last report."""
    return schemas.AuthorizerBody.of(request.run(authorizers.get, authorizer_id=authorizer_id))


@routes.delete("/v1/authorizers/{id}", status_code=204)
@serves(authorizers.remove, raises=(NotFound,))
async def remove_authorizer(request: ApiRequest, authorizer_id: Identifier) -> None:
    """Remove an authorizer.

    Remove authorizers that no longer run. The service no longer expects them to enforce
    revocations, and rejects their heartbeats with 404. A removed authorizer can still enforce
    warrants and register again; revoke its API key to prevent that. A key without the scope `admin`
    can only remove authorizers that its owner registered.
    """
    request.run(authorizers.remove, authorizer_id=authorizer_id)


@routes.delete("/v1/authorizers", status_code=204)
@serves(authorizers.remove_of_owner, raises=(NotFound,))
@charges(EndpointCost(flat=100))
async def remove_authorizers_of_owner(request: ApiRequest, owner: Owner) -> None:
    """Remove all authorizers of an owner, for example of a stolen API key.

    Each request removes up to 2,000 authorizers.

    404: the owner is another identity, and the caller does not have the scope `admin`.

    429: the rate limit is exceeded, or some authorizers remain; repeat the request.
    """
    request.run(authorizers.remove_of_owner, owner=owner)


app = create_app(routes, *INSTALLED.routers("authorizers"))
handler = lambda_handler(app)
