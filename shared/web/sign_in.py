"""Sign-ins and logouts over HTTP, without an API key (IDENTITY-7, TOKEN-12).

All `POST` requests are forms, and their errors follow RFC 6749. On AWS, codes and logouts have a
separate function, because they may wait for an identity provider.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from shared import logs
from shared.authorizer.formats.addresses import find_subscriber
from shared.errors import InvalidRequest, RateLimited, Unavailable
from shared.model.identities.claims import OAuthErrorCode, SignInRefused
from shared.model.rate_limit import RATE_PER_SECOND
from shared.operations.changes import back_channel_logout
from shared.operations.changes.back_channel_logout import LogoutAttempt
from shared.operations.identities import sign_in
from shared.operations.identities.admission import UnauthenticatedClient
from shared.operations.identities.sessions import StartedSession
from shared.operations.identities.sign_in import SignInAttempt
from shared.ports import Ports
from shared.web import bodies
from shared.web.errors import MethodNotAllowed
from shared.web.gate import report
from shared.web.strangers import AnonymousLimiter
from shared.web.work import IN_PLACE, Turns, Work, WorkKind

PROVIDERS: Final = "/v1/sign-in"
CODE: Final = "/v1/sign-in/code"
LOGOUT: Final = "/v1/logout/"
TOKEN: Final = "/v1/token"  # noqa: S105 (a path)
# A token of 16 KiB, and the other parameters.
_BODY_MAX: Final = 24 * 1024
_SHOWN: Final = (
    "id",
    "name",
    "issuer",
    "client_id",
    "cli_client_id",
    "authorization_endpoint",
    "device_authorization_endpoint",
    "token_endpoint",
)

# Limits per source address: five requests to identity providers per second, a burst of ten, and two
# at the same time.
_ASKING_COST: Final = RATE_PER_SECOND // 5
_IN_FLIGHT: Final = 2
_ASKING_WAITING: Final = 8
# The IPv6 prefix length of one Internet subscriber, which may use all addresses in the prefix.
_SITE_BITS: Final = 48

_log = logging.getLogger(__name__)


class SignIn:
    """An ASGI application for the sign-in paths. It must be behind `PublicMiddleware`."""

    def __init__(self, ports: Callable[[], Ports], work: Work = IN_PLACE) -> None:
        self._ports, self._work = ports, work
        self._asking = AnonymousLimiter(lambda: ports().now(), cost=_ASKING_COST)
        self._in_flight: WeakValueDictionary[str, Turns] = WeakValueDictionary()

    @staticmethod
    def serves(scope: Scope) -> bool:
        """Return whether the application serves the path of a request."""
        path = scope.get("path", "")
        return path in (PROVIDERS, CODE, TOKEN) or path.startswith(LOGOUT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Raises errors of the API, for example `MethodNotAllowed`."""
        request = Request(scope, receive)
        if scope["path"] == PROVIDERS:
            if request.method not in ("GET", "HEAD"):
                raise MethodNotAllowed(["GET", "HEAD"])
            call = partial(_providers, self._ports, request)
            answer = await self._work(call, WorkKind.QUICK, tenant_id="")
        else:
            if request.method != "POST":
                raise MethodNotAllowed(["POST"])
            raw = await bodies.read_body(request, limit=_BODY_MAX)
            answer = await self._token(request, raw)
        await answer(scope, receive, send)

    async def _token(self, request: Request, raw: bytes) -> Response:
        """Return a session, an empty response for a logout, or an RFC 6749 error."""
        metric = "Logouts" if request.scope["path"].startswith(LOGOUT) else "SignIns"
        try:
            begun = await self._redeem(request, raw)
        except SignInRefused as refused:
            _count(metric, refused.fault.value)
            if metric == "Logouts":
                return _error(400, OAuthErrorCode.INVALID_REQUEST.value, str(refused))
            status = 403 if refused.fault is OAuthErrorCode.DENIED else 400
            return _error(status, refused.fault.value, str(refused))
        except (RateLimited, Unavailable) as error:
            report(error, request.scope["request_id"])
            _count(metric, error.code)
            message = "Try again after the time in Retry-After."
            status = 429 if isinstance(error, RateLimited) else 503
            answer = _error(status, "temporarily_unavailable", message)
            answer.headers["Retry-After"] = str(error.retry_after)
            return answer
        _count(metric, "ok")
        headers = {"Cache-Control": "no-store"}
        if begun is None:
            return Response(headers=headers)
        left = begun.session.expires_at - self._ports().now()
        body = {
            "access_token": begun.secret,
            "issued_token_type": sign_in.ACCESS_TOKEN,
            "token_type": "Bearer",
            "expires_in": max(0, int(left.total_seconds())),
            "scope": " ".join(begun.role.scopes),
        }
        return JSONResponse(body, headers=headers)

    async def _redeem(self, request: Request, raw: bytes) -> StartedSession | None:
        """Return a session; None after a logout.

        The limits apply only if the server of an identity provider is called.
        """
        stranger = UnauthenticatedClient(request.scope["source_ip"], request.scope["request_id"])
        prepare = partial(_prepare, self._ports, request, raw)
        attempt = await self._work(prepare, WorkKind.QUICK, tenant_id="")
        redeem: Callable[[], StartedSession | None]
        if isinstance(attempt, LogoutAttempt):
            redeem = partial(back_channel_logout.end, self._ports(), stranger, attempt)
        else:
            redeem = partial(sign_in.exchange_token, self._ports(), stranger, attempt)
        if not attempt.asks_provider:
            return await self._work(redeem, WorkKind.USUAL, tenant_id="")
        source = find_subscriber(stranger.source_ip or "", ipv6_bits=_SITE_BITS)
        self._asking.take(source)
        # Anyone can forge these tokens, so they must not delay codes.
        kind = WorkKind.SIGN_IN if request.scope["path"] == CODE else WorkKind.KEYS
        turns = self._in_flight.setdefault(source, Turns(_IN_FLIGHT, _ASKING_WAITING))
        async with turns:
            return await self._work(redeem, kind, tenant_id=attempt.tenant_id)


def _prepare(
    ports: Callable[[], Ports], request: Request, raw: bytes
) -> SignInAttempt | LogoutAttempt:
    """Check a request.

    Raises `SignInRefused`, also for a cross-site request (Fetch Metadata).
    """
    try:
        if request.headers.get("sec-fetch-site") == "cross-site":
            raise InvalidRequest("Another site sent this request; sign in on a page of this one.")
        path, form = request.scope["path"], bodies.form(request, raw)
    except InvalidRequest as error:
        raise SignInRefused(OAuthErrorCode.INVALID_REQUEST, str(error)) from None
    if path.startswith(LOGOUT):
        return back_channel_logout.prepare(ports(), path.removeprefix(LOGOUT), form)
    return (sign_in.prepare_code if path == CODE else sign_in.prepare)(ports(), form)


def _providers(ports: Callable[[], Ports], request: Request) -> Response:
    """Return the sign-in providers of the tenant in the query."""
    query = request.query_params
    if [*query.keys()] != ["tenant"] or len(query.multi_items()) != 1:
        raise InvalidRequest("query: name the tenant once, as in ?tenant=acme, and nothing else.")
    found = sign_in.list_sign_in_providers(ports(), query["tenant"])
    shown = [{name: getattr(each, name) for name in _SHOWN} for each in found]
    return JSONResponse({"identity_providers": shown})


def _error(status: int, code: str, description: str) -> Response:
    body = {"error": code, "error_description": description}
    return JSONResponse(body, status, headers={"Cache-Control": "no-store"})


def _count(metric: str, outcome: str) -> None:
    _log.info("sign-in", extra=logs.fields(metrics={metric: 1}, by={"Outcome": outcome}))
