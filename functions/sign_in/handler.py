"""Sign-ins over HTTP, without a key: the providers of a tenant, and sessions (IDENTITY-7).

`POST /v1/token` is for clients of OAuth: its body is a form, and its errors are those of RFC 6749.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from shared import logs, wiring
from shared.errors import InvalidRequest, Unavailable
from shared.model.identities.claims import SignInFault, SignInRefused
from shared.model.identities.providers import IdentityProvider
from shared.operations.identities import sign_in
from shared.operations.identities.admission import Stranger
from shared.operations.identities.sessions import Begun
from shared.ports import Ports
from shared.web import bodies
from shared.web.app import lambda_handler
from shared.web.errors import MethodNotAllowed
from shared.web.gate import Keyless, keyless, report
from shared.web.strangers import AnonymousLimiter
from shared.web.work import IN_PLACE, Work, WorkKind

PROVIDERS: Final = "/v1/sign-in"
TOKEN: Final = "/v1/token"  # noqa: S105 (a path)
# A token of 16 KiB, and the other parameters.
_BODY_MAX: Final = 24 * 1024
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 (a name)
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

_log = logging.getLogger(__name__)


class SignIn:
    """An ASGI application for both paths. It needs to be behind `Keyless`."""

    def __init__(self, ports: Callable[[], Ports], work: Work = IN_PLACE) -> None:
        self._ports, self._work = ports, work

    @staticmethod
    def serves(scope: Scope) -> bool:
        """Whether the path of a request is one of these."""
        return scope.get("path") in (PROVIDERS, TOKEN)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Raises errors of the API, such as `MethodNotAllowed`."""
        request = Request(scope, receive)
        if scope["path"] == PROVIDERS:
            if request.method not in ("GET", "HEAD"):
                raise MethodNotAllowed(["GET", "HEAD"])
            call = partial(_providers, self._ports, request)
        else:
            if request.method != "POST":
                raise MethodNotAllowed(["POST"])
            raw = await bodies.read(request, limit=_BODY_MAX)
            call = partial(_token, self._ports, request, raw)
        answer = await self._work(call, WorkKind.USUAL, tenant_id="")
        await answer(scope, receive, send)


def _providers(ports: Callable[[], Ports], request: Request) -> Response:
    """Return who can vouch for people of the tenant that the query names."""
    query = request.query_params
    if [*query.keys()] != ["tenant"] or len(query.multi_items()) != 1:
        raise InvalidRequest("query: name the tenant once, as in ?tenant=acme, and nothing else.")
    found = sign_in.offered(ports(), query["tenant"])
    return JSONResponse({"identity_providers": [_shown(each) for each in found]})


def _shown(provider: IdentityProvider) -> dict[str, Any]:
    return {name: getattr(provider, name) for name in _SHOWN}


def _token(ports: Callable[[], Ports], request: Request, raw: bytes) -> Response:
    """Return a session, or an error of RFC 6749."""
    stranger = Stranger(request.scope["source_ip"], request.scope["request_id"])
    try:
        begun = sign_in.redeem(ports(), stranger, _form(request, raw))
    except SignInRefused as refused:
        _count(refused.fault.value)
        status = 403 if refused.fault is SignInFault.DENIED else 400
        return _error(status, refused.fault.value, str(refused))
    except Unavailable as error:
        report(error, stranger.request_id or "")
        _count(error.code)
        answer = _error(503, "temporarily_unavailable", "Try again after the time in Retry-After.")
        answer.headers["Retry-After"] = str(error.retry_after)
        return answer
    _count("ok")
    return JSONResponse(_granted(begun, ports()), headers={"Cache-Control": "no-store"})


def _granted(begun: Begun, ports: Ports) -> dict[str, Any]:
    left = begun.session.expires_at - ports.now()
    return {
        "access_token": begun.secret,
        "issued_token_type": _ACCESS_TOKEN,
        "token_type": "Bearer",
        "expires_in": max(0, int(left.total_seconds())),
        "scope": " ".join(begun.role.scopes),
    }


def _form(request: Request, raw: bytes) -> dict[str, str]:
    """Return the parameters of a body. Raises `SignInRefused`."""
    try:
        return bodies.form(request, raw)
    except InvalidRequest as error:
        raise SignInRefused(SignInFault.INVALID_REQUEST, str(error)) from None


def _error(status: int, code: str, description: str) -> Response:
    body = {"error": code, "error_description": description}
    return JSONResponse(body, status, headers={"Cache-Control": "no-store"})


def _count(outcome: str) -> None:
    _log.info("sign-in", extra=logs.fields(metrics={"SignIns": 1}, by={"Outcome": outcome}))


app = keyless(
    SignIn(wiring.from_environment),
    Keyless(AnonymousLimiter(wiring.now), wiring.trusted_proxies, {"Cache-Control": "no-store"}),
)
handler = lambda_handler(app)
