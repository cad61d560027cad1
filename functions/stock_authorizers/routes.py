"""Requests of an unmodified `tenuo` authorizer, and its signer (NATIVE-1, NATIVE-2, NATIVE-6)."""

from functools import partial
from typing import Annotated, Any, Final

from fastapi import Path, Response
from pydantic import Field

from functions.authorizers import bodies, registering
from functions.authorizers import operations as authorizers
from functions.stock_authorizers import operations, schemas
from functions.stock_authorizers.records import AGE_MAX
from shared.errors import AuthorizerLimit, Conflict, NotFound
from shared.model.lists.head import CACHE_CONTROL
from shared.model.rate_limit import BucketPurpose
from shared.web import stored
from shared.web.costs import EndpointCost, charges
from shared.web.freshness import AGE, FRESHNESS
from shared.web.routes import ApiRequest, router, serves
from shared.web.work import WorkKind

_ROOT: Final = "/compat/tenuo/v1"
# A batch has up to 100 events with their chains of warrants, and more after a fault.
_EVENTS_BYTES_MAX: Final = 4 * 1024 * 1024
_EVENTS_MAX: Final = 10_000

routes = router("Stock authorizers")
signer_routes = router("Authorizers")

_EXAMPLE: Final = {"signature": "mYsK…", "signing_payload": "pWEx…"}
Events = Annotated[
    list[schemas.StockEvent],
    Field(max_length=_EVENTS_MAX, json_schema_extra={"examples": [[_EXAMPLE]]}),
]
Identifier = Annotated[bodies.AuthorizerId, Path(alias="id")]

_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"headers": AGE},
    307: stored.redirect("native list", AGE),
}


@signer_routes.get("/v1/authorizers/native-signer")
@serves(operations.signer)
async def get_native_signer(request: ApiRequest) -> schemas.NativeKey:
    """Get the key that signs native lists for unmodified `tenuo` authorizers.

    Each tenant has one key. It is created with the first request, and never replaced.
    """
    return schemas.NativeKey.of(request.run(operations.signer))


@routes.post(f"{_ROOT}/authorizers/register", status_code=201, responses=bodies.REGISTERED_BEFORE)
@serves(registering.register, raises=(Conflict, AuthorizerLimit), purpose=BucketPurpose.HEARTBEATS)
async def register_stock_authorizer(
    request: ApiRequest, body: schemas.RegisterStockAuthorizer, response: Response
) -> bodies.RegisteredAuthorizer:
    """Register a stock authorizer.

    This is the same as `POST /v1/authorizers/register`, except that values that do not fit are
    omitted.

    409: an authorizer has proved another key for this name.

    429: the rate limit is exceeded, or the caller or tenant has reached its maximum number of
    authorizers.
    """
    return bodies.register(request, response, body.description())


@routes.post(f"{_ROOT}/authorizers/{{id}}/heartbeat")
@serves(authorizers.heartbeat, raises=(Conflict, NotFound), purpose=BucketPurpose.HEARTBEATS)
async def send_stock_heartbeat(
    request: ApiRequest, authorizer_id: Identifier, body: bodies.StockReport
) -> schemas.StockHeartbeatResponse:
    """Report the version of the native list that a stock authorizer uses.

    If the caller has not registered the authorizer, or it was removed, the status is also 200, but
    the report is not stored.

    404: the identifier is malformed.

    409: the authorizer has proved a key, so only signed reports are accepted.
    """
    taken = request.run(
        authorizers.heartbeat, authorizer_id=authorizer_id, beat=body.beat(), is_stock=True
    )
    return schemas.StockHeartbeatResponse.of(taken)


@routes.post(f"{_ROOT}/authorizers/{{id}}/events", status_code=202)
@serves(
    operations.count_events,
    body_max=_EVENTS_BYTES_MAX,
    raises=(NotFound,),
    purpose=BucketPurpose.HEARTBEATS,
)
@charges(EndpointCost(entries=("",), a_token=10))
async def count_stock_events(
    request: ApiRequest,
    authorizer_id: Identifier,
    body: Events,
) -> schemas.CountedEvents:
    """Count the signed events of a stock authorizer.

    Each signature is verified with the registered key of the authorizer. The service counts the
    events and does not store them.

    404: another caller registered the authorizer.
    """
    signed = [each.to_signed_event() for each in body]
    counted = request.run(operations.count_events, authorizer_id=authorizer_id, events=signed)
    return schemas.CountedEvents.of(counted)


@routes.get(
    f"{_ROOT}/revocations/srl/signed", response_model=schemas.NativeSrl, responses=_RESPONSES
)
@serves(operations.current, kind=WorkKind.PUBLICATION, purpose=BucketPurpose.FEED)
async def get_native_srl(request: ApiRequest) -> Response:
    """Get the native list of revocations for stock authorizers.

    The list covers the whole feed. Conditional requests are ignored, because a stock authorizer
    treats 304 as a failure. The status is 503 if the service cannot determine the revocations, or
    if a change was not published for 30 seconds.
    """
    fresh = FRESHNESS.look(request)
    form, newest = request.run(operations.read_cached) or request.make(operations.current)
    headers = {"Cache-Control": CACHE_CONTROL, **fresh.age(newest, most=AGE_MAX)}
    return stored.stored_body_response(
        request,
        form,
        headers,
        body=partial(request.run, operations.body, of=form),
        file=partial(request.run, operations.file, of=form),
    )
