"""What every request passes before any route is looked for, and every response on its way out.

In: who calls, then the rate limit (decisions 1, order of checks), so that a stranger learns
nothing about routes or bodies. Out: the headers of every response, and the one place where an
error becomes a response.
"""

import logging
import traceback
import uuid
from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.errors import InvalidApiKey, RequestError, Unauthorized, Unavailable
from shared.model.rate_limit import Bucket
from shared.ports import Ports
from shared.web import errors, rate_limit
from shared.web.authentication import authenticate, source_address
from shared.web.rate_limit import Limiter
from shared.web.routes import Call

_log = logging.getLogger(__name__)


class Gate:
    """ASGI middleware; `ports` is asked at each request, so nothing is built before the first."""

    def __init__(self, app: ASGIApp, ports: Callable[[], Ports]) -> None:
        self._app = app
        self._ports = ports
        self._limiter = Limiter(lambda: ports().now())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(send)
        try:
            call = self._admit(Request(scope), exchange)
            scope.setdefault("state", {})["call"] = call
            await self._app(scope, receive, exchange.send)
        except Exception as error:
            _report(error, exchange.request_id)
            if exchange.started:
                raise
            await errors.response(error)(scope, receive, exchange.send)

    def _admit(self, request: Request, exchange: "_Exchange") -> Call:
        ports = self._ports()
        stranger = f"address {source_address(request)}"
        exchange.bucket = self._limiter.look(stranger)
        try:
            caller = authenticate(ports, request, request_id=exchange.request_id)
        except (Unauthorized, InvalidApiKey):
            exchange.bucket = self._limiter.take(stranger)
            raise
        exchange.bucket = self._limiter.look(caller.tenant_id)
        exchange.bucket = self._limiter.take(caller.tenant_id)
        return Call(ports, caller)


class _Exchange:
    """One response on its way out, and what its headers have to say."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.request_id = uuid.uuid4().hex
        self.bucket: Bucket | None = None
        self.started = False

    async def send(self, message: Message) -> None:
        """Send on, with the headers of every response (decisions 1, headers)."""
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.request_id
            headers.setdefault("Cache-Control", "no-store")
            headers.update(rate_limit.headers(self.bucket) if self.bucket else {})
        await self._send(message)


def _report(error: Exception, request_id: str) -> None:
    """Log what an operator has to know. A bug's own text may hold a secret, so it stays out."""
    if isinstance(error, RequestError):
        return
    if isinstance(error, Unavailable):
        cause = type(error.__cause__).__name__ if error.__cause__ else "none"
        _log.error("request %s: unavailable: %s (cause: %s)", request_id, error, cause)
        return
    frames = "".join(traceback.format_tb(error.__traceback__))
    _log.critical("request %s: %s at\n%s", request_id, type(error).__name__, frames)
