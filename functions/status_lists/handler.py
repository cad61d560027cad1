"""Token Status Lists over HTTP (TOKEN-5 to TOKEN-8).

Verifiers need no credentials: `PublicLists` serves the signed lists and their keys to everyone.
"""

import json
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from functions.status_lists import operations as status_lists
from functions.status_lists import schemas
from functions.status_lists.records import MEDIA_TYPE, PATH, TTL_SECONDS, StatusListContent
from shared import wiring
from shared.authorizer.formats.addresses import parse_address
from shared.errors import Conflict, InvalidRequest, ListFull, NotFound
from shared.ports import Ports
from shared.web import errors, header_values
from shared.web.app import create_public_app, lambda_handler
from shared.web.conditional import json_response_with_etag, matches
from shared.web.errors import MethodNotAllowed, NotAcceptable, NotSupported
from shared.web.gate import report
from shared.web.routes import ApiRequest, router, serves
from shared.web.work import IN_PLACE, Work, WorkKind

# The most specific range in a request decides (RFC 9110, 12.5.1).
_RANGES: Final = (MEDIA_TYPE, "application/*", "*/*")
_METHODS: Final = ("GET", "HEAD", "OPTIONS")
# Any page may read public data. A conditional request needs a preflight.
_CORS: Final = {"Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}
_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, HEAD",
    "Access-Control-Allow-Headers": "Accept, If-None-Match",
    "Access-Control-Max-Age": "86400",
}

routes = router("Status lists")

Identifier = Annotated[schemas.ListId, Path(alias="id")]


@routes.post(PATH, status_code=201)
@serves(status_lists.create, raises=(Conflict,))
async def create_status_list(
    request: ApiRequest, body: schemas.CreateStatusList
) -> schemas.StatusListBody:
    """Create a Token Status List with 1,048,576 entries of one bit.

    409: the tenant has 100 status lists.
    """
    url = body.url or _own_address(request)
    return schemas.StatusListBody.of(request.run(status_lists.create, name=body.name, url=url))


@routes.get(PATH)
@serves(status_lists.every)
async def list_status_lists(request: ApiRequest) -> schemas.StatusListList:
    """List the status lists, newest first."""
    lists = request.run(status_lists.every)
    return schemas.StatusListList(status_lists=[schemas.StatusListBody.of(each) for each in lists])


@routes.post(f"{PATH}/{{id}}/entries", status_code=201)
@serves(status_lists.allocate, raises=(NotFound, ListFull))
async def allocate_status_entries(
    request: ApiRequest, list_id: Identifier, body: schemas.AllocateStatusEntries
) -> schemas.StatusEntries:
    """Allocate entries for tokens.

    Each entry is allocated only once. The indexes do not reveal the order of allocation. To revoke
    the token with index N, revoke the warrant `svc_wrt_tsl-<id>-<N>`, where `<id>` is the part of
    the list's `id` after `svc_tsl_`.

    409: the code is `quota_exceeded` if the list has fewer free entries.
    """
    return schemas.StatusEntries.of(
        request.run(status_lists.allocate, list_id=list_id, count=body.count)
    )


@routes.post(f"{PATH}/keys/rotate")
@serves(status_lists.rotate, raises=(NotFound,), is_protected=True)
async def rotate_status_key(request: ApiRequest) -> schemas.StatusKey:
    """Rotate the key that signs the status lists, for example after a theft.

    The next request for a list returns a list signed by the new key. A verifier with the previous
    list may refuse it for up to a minute.

    404: there is no status list yet.
    """
    return schemas.StatusKey.of(request.run(status_lists.rotate))


def _own_address(request: ApiRequest) -> str:
    """Return the URL of the service that the caller used. Raises `InvalidRequest`.

    A proxy may have terminated TLS before a request over http. The URL is then unknown, and all
    tokens would permanently contain a wrong one.
    """
    # Lambda's handler removes the header `Host`.
    domain = request.scope.get("aws.event", {}).get("requestContext", {}).get("domainName")
    try:
        if not domain and request.base_url.scheme != "https" and _may_be_public(request):
            raise ValueError("the scheme is unknown")
        return schemas.address(
            f"https://{domain}{wiring.base_path()}" if domain else str(request.base_url)
        )
    except ValueError:
        raise InvalidRequest(
            "url: is required, because the URL of the service cannot be derived from this request."
        ) from None


def _may_be_public(request: ApiRequest) -> bool:
    """Return whether the host of a request has several labels, and is not this machine."""
    host = request.base_url.hostname or ""
    address_of_host = parse_address(host)
    return not address_of_host.is_loopback if address_of_host else "." in host


class PublicLists:
    """An ASGI application for signed lists and their keys.

    It must be behind `PublicMiddleware`.
    """

    def __init__(self, ports: Callable[[], Ports], work: Work = IN_PLACE) -> None:
        self._ports, self._work = ports, work

    @staticmethod
    def serves(scope: Scope) -> bool:
        """Return whether the path of a request names a list or the keys."""
        folder, _, name = str(scope.get("path", "")).rpartition("/")
        return folder == PATH and name != ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except Exception as error:  # noqa: BLE001 (any page may read the answer to it, too)
            report(error, scope["request_id"])
            answer = errors.response(error)
        answer.headers.update(_CORS)
        await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=HTTPStatus.NO_CONTENT, headers=_PREFLIGHT)
        if request.method not in _METHODS:
            raise MethodNotAllowed(_METHODS)
        if request.scope["path"] == f"{PATH}/jwks.json":
            return await self._work(partial(self._keys, request), WorkKind.QUICK, tenant_id="")
        if "time" in request.query_params:
            # The draft requires 501 if the list of another time is requested, but not available.
            raise NotSupported(
                "time: is not supported, because only the current list is available; omit the "
                "parameter."
            )
        if request.url.query:
            raise InvalidRequest("query: must be empty, because a status list has no parameters.")
        weights = header_values.weights(",".join(request.headers.getlist("accept")) or "*/*")
        if not next((weights[each] for each in _RANGES if each in weights), 0.0):
            raise NotAcceptable(f"Accept: must allow {MEDIA_TYPE}, the only type of a status list.")
        list_id = request.scope["path"].rpartition("/")[2]
        look_up = partial(self._cached_response, request, list_id)
        response = await self._work(look_up, WorkKind.QUICK, tenant_id="")
        if response is None:
            # One publication at a time limits unauthenticated clients to one processor.
            make = partial(self._work.publish, status_lists.make, self._ports(), list_id)
            content, token = await self._work(make, WorkKind.PUBLICATION, tenant_id="")
            response = self._signed_response(content, token)
        return response

    def _cached_response(self, request: Request, list_id: str) -> Response | None:
        """Return the response with a cached list, or None if there is none."""
        ports = self._ports()
        content = status_lists.look(ports, list_id)
        if matches(request, etag=content.etag):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=self._headers(content))
        token = status_lists.read_cached(ports, content)
        return None if token is None else self._signed_response(content, token)

    def _signed_response(self, of: StatusListContent, token: bytes) -> Response:
        return Response(token, headers=self._headers(of), media_type=MEDIA_TYPE)

    def _headers(self, of: StatusListContent) -> dict[str, str]:
        seconds = min(TTL_SECONDS, of.seconds_left(self._ports().now()))
        return {
            "ETag": of.etag,
            "Cache-Control": f"public, max-age={seconds}",
            "Vary": "Accept",
        }

    def _keys(self, request: Request) -> Response:
        query = request.query_params
        if [*query.keys()] != ["list"] or len(query.multi_items()) != 1:
            raise InvalidRequest(
                "query: must name one list, as in ?list=svc_tsl_…, and nothing else."
            )
        signer = status_lists.signer_of(self._ports(), query["list"])
        answer = json_response_with_etag(request, json.dumps({"keys": [signer.jwk()]}).encode())
        answer.headers["Cache-Control"] = f"public, max-age={TTL_SECONDS}"
        return answer


app = create_public_app(PublicLists(wiring.from_environment), routes)
handler = lambda_handler(app)
