"""Introspection of tokens of other issuers (RFC 7662, TOKEN-4).

Its callers are OAuth clients: the API key may be the password of Basic authentication, the body is
a form, and errors follow RFC 6749. The gate and the limits are the same as for the API.
"""

import base64
import json
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.errors import InvalidRequest
from shared.operations.identities import introspection
from shared.web import bodies
from shared.web.app import create_app, lambda_handler
from shared.web.errors import MethodNotAllowed
from shared.web.routes import Context
from shared.web.work import WorkKind

PATH: Final = "/v1/oauth/introspect"
# A token of 16 KiB, and the other parameters.
_BODY_MAX: Final = 24 * 1024
_INVALID_CLIENT: Final = "invalid_client"
_CODES: Final = {
    HTTPStatus.UNAUTHORIZED: _INVALID_CLIENT,
    HTTPStatus.FORBIDDEN: "insufficient_scope",
    HTTPStatus.TOO_MANY_REQUESTS: "temporarily_unavailable",
    HTTPStatus.SERVICE_UNAVAILABLE: "temporarily_unavailable",
    HTTPStatus.INTERNAL_SERVER_ERROR: "server_error",
}


async def introspect_token(scope: Scope, receive: Receive, send: Send) -> None:
    """Return whether a token is active.

    Raises errors of the API, for example `MethodNotAllowed`.
    """
    call: Context = scope["call"]
    scope["endpoint"] = introspect_token  # for the log
    request = Request(scope, receive)
    if request.method != "POST":
        raise MethodNotAllowed(["POST"])
    introspection.introspect.authorize(call.ports, call.caller)
    raw = await bodies.read_body(request, limit=_BODY_MAX)

    def check_token() -> Response:
        token = bodies.form(request, raw).get("token")
        if not token:
            raise InvalidRequest("token: is required.")
        claims = introspection.introspect(call.ports, call.caller, token=token)
        return JSONResponse({"active": False} if claims is None else {"active": True, **claims})

    response = await call.work(check_token, WorkKind.QUICK, tenant_id=call.caller.tenant_id)
    await response(scope, receive, send)


class _Endpoint:
    """Adapts the function to an ASGI application for a route."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await introspect_token(scope, receive, send)


routes = APIRouter(routes=[Route(PATH, _Endpoint())])


class OAuth:
    """ASGI middleware before the gate: OAuth credentials and errors on `PATH`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope.get("path") == PATH:
            scope, send = _with_bearer(scope), _OAuthErrors(send)
        await self._app(scope, receive, send)


def _with_bearer(scope: Scope) -> Scope:
    """Return the request with the Basic password as a Bearer token (RFC 6749, 2.3.1)."""
    values = Headers(scope=scope).getlist("authorization")
    scheme, _, encoded = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    if scheme.lower() != "basic":
        return scope
    try:
        secret = base64.b64decode(encoded.strip(), validate=True).partition(b":")[2]
    except ValueError:
        secret = b""
    # Some clients form-encode the password, as required by RFC 6749.
    secret = unquote_to_bytes(secret)
    headers = [each for each in scope["headers"] if each[0].lower() != b"authorization"]
    return {**scope, "headers": [*headers, (b"authorization", b"Bearer " + secret)]}


class _OAuthErrors:
    """Forwards responses, with API errors in the format of RFC 6749, 5.2."""

    def __init__(self, send: Send) -> None:
        self._send, self._body = send, b""
        # The start of an error, which waits for its body.
        self._start: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
            self._start = message
            return
        if self._start is None:
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if message.get("more_body"):
            return
        code = _CODES.get(self._start["status"], "invalid_request")
        headers, body = MutableHeaders(scope=self._start), b""
        if self._body:
            error: dict[str, Any] = json.loads(self._body)["error"]
            body = json.dumps({"error": code, "error_description": error["message"]}).encode()
            headers["Content-Length"] = str(len(body))
        else:
            # For HEAD, a server may omit the length (RFC 9110, 9.3.2).
            del headers["Content-Length"]
        if code == _INVALID_CLIENT:
            headers["WWW-Authenticate"] = 'Basic realm="rescind", Bearer'
        await self._send(self._start)
        await self._send({"type": "http.response.body", "body": body})


app = OAuth(create_app(routes))
handler = lambda_handler(app)
