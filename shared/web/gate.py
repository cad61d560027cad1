"""What every request passes before any route is looked for, and every response on its way out.

In: who calls, then the rate limit (decisions 1, order of checks), so that a stranger learns
nothing about routes or bodies. Out: the headers of every response, and the one place where an
error becomes a response.
"""

import logging
import time
import traceback
import uuid
from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.errors import (
    InvalidApiKey,
    InvalidSettings,
    NotFound,
    RequestError,
    Unauthorized,
    Unavailable,
)
from shared.model.rate_limit import RATE_PER_SECOND, Figures
from shared.ports import Ports
from shared.web import errors, rate_limit
from shared.web.authentication import authenticate, source_address
from shared.web.rate_limit import StrangerLimiter, TenantLimiter
from shared.web.routes import Call
from shared.web.usage import UsageCounter

_log = logging.getLogger(__name__)


class Gate:
    """ASGI middleware; `ports` is asked at each request, so nothing is built before the first."""

    def __init__(self, app: ASGIApp, ports: Callable[[], Ports]) -> None:
        self._app = app
        self._ports = ports
        self._tenants = TenantLimiter(ports)
        self._strangers = StrangerLimiter(lambda: ports().now())
        self._usage = UsageCounter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(send)
        try:
            call = self._admit(Request(scope), exchange)
            if "\n" in scope["path"]:
                # Starlette's patterns would match up to a line break at the end.
                raise NotFound("There is no such endpoint.")
            scope.setdefault("state", {})["call"] = call
            await self._app(scope, receive, exchange.send)
        except Exception as error:
            _report(error, exchange.request_id)
            if exchange.started:
                raise
            await errors.response(error)(scope, receive, exchange.send)

    def _admit(self, request: Request, exchange: "_Exchange") -> Call:
        ports = self._ports()
        address = source_address(request)
        exchange.figures = self._strangers.look(address)
        try:
            caller = authenticate(ports, request, request_id=exchange.request_id)
        except (Unauthorized, InvalidApiKey):
            exchange.figures = self._strangers.take(address)
            raise
        try:
            self._tenants.take(caller.tenant_id)
        finally:
            exchange.figures = self._tenants.look(caller.tenant_id)
        self._usage.count(ports, caller)
        return Call(ports, caller)


class _Exchange:
    """One response on its way out, and what its headers have to say."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.request_id = uuid.uuid4().hex
        # A full bucket, until it is known which one the request draws on.
        self.figures = Figures(RATE_PER_SECOND, int(time.time()))
        self.started = False

    async def send(self, message: Message) -> None:
        """Send on, with the headers of every response (decisions 1, headers)."""
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.request_id
            headers.setdefault("Cache-Control", "no-store")
            headers.update(rate_limit.headers(self.figures))
        await self._send(message)


def _report(error: Exception, request_id: str) -> None:
    """Log what an operator has to know. A bug's own text may hold a secret, so it stays out."""
    if isinstance(error, RequestError):
        return
    if isinstance(error, Unavailable):
        cause = type(error.__cause__).__name__ if error.__cause__ else "none"
        _log.error("request %s: unavailable: %s (cause: %s)", request_id, error, cause)
        return
    if isinstance(error, InvalidSettings):
        _log.critical("request %s: the settings are wrong: %s", request_id, error)
        return
    frames = "".join(traceback.format_tb(error.__traceback__))
    _log.critical("request %s: %s at\n%s", request_id, type(error).__name__, frames)
