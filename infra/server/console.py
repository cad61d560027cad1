"""The console on one machine: its files, and the session that a one-time code opens."""

import json
import logging
import os
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from functools import cache, partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from functions.console.files import SECURITY, Files, is_page
from infra import private_files
from shared.errors import InvalidRequest, NotFound, RescindError
from shared.model import times
from shared.operations.access.api_key_creation import Created
from shared.operations.operator import console_codes, onboarding
from shared.ports import Ports
from shared.web import bodies, errors
from shared.web.errors import MethodNotAllowed, Unauthorized, UnsupportedMediaType
from shared.web.work import Work, WorkKind

# Worker processes read these variables. The second is set if codes are taken.
VARIABLE: Final = "RESCIND_CONSOLE"
CODES_VARIABLE: Final = "RESCIND_CONSOLE_CODES"

SESSION: Final = "/console/session"
_SESSION_LIFETIME: Final = timedelta(hours=12)
_BODY_MAX: Final = 1024
_HTTP_PORT: Final = 80
_OWN_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")

_log = logging.getLogger("rescind")


class ConsoleMode(StrEnum):
    """Whether the console is served. `reload` reads the files anew for each request."""

    ON = "on"
    OFF = "off"
    RELOAD = "reload"


class Console:
    """The ASGI application of the console, with the `choice` of the server's environment.

    It mints keys with `ports`, in a thread of `work`.
    """

    def __init__(self, ports: Callable[[], Ports], work: Work) -> None:
        self._ports, self._work = ports, work
        self._choice = ConsoleMode(os.environ.get(VARIABLE, ConsoleMode.ON))
        self._files: Callable[[], Files] = Files
        if self._choice is not ConsoleMode.RELOAD:
            self._files = cache(Files)
            self._files()

    def serves(self, scope: Scope) -> bool:
        """Return whether a request is for the console, not for the API."""
        if self._choice is ConsoleMode.OFF or scope["type"] != "http":
            return False
        # Each request of the API is asked this: only that for `/` needs a header.
        if scope["path"] != "/":
            return is_page(scope["path"], accept="")
        if scope["method"] not in {"GET", "HEAD"}:
            return False
        return is_page("/", _header(Request(scope), "accept"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a file of the console, to anybody, or open a session."""
        request = Request(scope, receive)
        is_session = scope["path"] == SESSION
        answer = await self._session(request) if is_session else self._file(request)
        await answer(scope, receive, send)

    def _file(self, request: Request) -> Response:
        asked = {name: _header(request, name) for name in ("if-none-match", "accept-encoding")}
        answer = self._files().answer(request.method, request.scope["path"], asked)
        return Response(answer.body, answer.status, answer.headers)

    async def _session(self, request: Request) -> Response:
        """`POST /console/session`: exchange a one-time code for an admin key of a few hours."""
        try:
            answer = _shown(await self._open(request))
        except RescindError as error:
            answer = errors.response(error)
        answer.headers.update(SECURITY)
        answer.headers["Cache-Control"] = "no-store"
        return answer

    async def _open(self, request: Request) -> Created:
        if not os.environ.get(CODES_VARIABLE) or not _is_own(request):
            raise NotFound("No session can be opened here.")
        if request.method != "POST":
            raise MethodNotAllowed(["POST"])
        code = await _code(request)
        exchange = partial(_exchange, self._ports(), code)
        return await self._work(exchange, WorkKind.USUAL, tenant_id="")


def _exchange(ports: Ports, code: str) -> Created:
    """Return a new key for a code, which cannot be used again, also if this fails."""
    tenant = console_codes.spend(ports, code)
    if tenant is None:
        _log.warning("a one-time code for the console was refused")
        raise Unauthorized(
            "The code is wrong, was used, or is too old. For another one, run: rescind console"
        )
    now = ports.now()
    return onboarding.mint_admin_key(
        ports,
        handle=tenant,
        name=f"console, {now:%Y-%m-%d}",
        user=private_files.name(),
        expires_at=times.whole(now + _SESSION_LIFETIME),
        is_session=True,
    )


def _is_own(request: Request) -> bool:
    """Return whether a page of this server sent the request, under a name of this machine alone.

    A name that another site's owner points at this machine is not one of them.
    """
    server = request.scope.get("server")
    port = server[1] if server else None
    names = {f"{name}:{port}" for name in _OWN_NAMES}
    names |= set(_OWN_NAMES) if port == _HTTP_PORT else set()
    hosts, origins = request.headers.getlist("host"), request.headers.getlist("origin")
    return len(hosts) == 1 and hosts[0] in names and origins == [f"http://{hosts[0]}"]


async def _code(request: Request) -> str:
    value = bodies.parse(request, await bodies.read(request, limit=_BODY_MAX)).value
    match value:
        case None:
            raise UnsupportedMediaType("Content-Type: a body must be sent as application/json.")
        case {"code": str(code), **more} if not more:
            return code
        case _:
            raise InvalidRequest("body: must be an object with the member code, which is text.")


def _shown(created: Created) -> Response:
    end = created.api_key.expires_at
    body = {"key": created.secret, "expires_at": times.text(end) if end else None}
    return Response(json.dumps(body), 201, media_type="application/json")


def _header(request: Request, name: str) -> str:
    return ",".join(request.headers.getlist(name))
