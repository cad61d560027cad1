"""The gate handles each request before routing, and each response before it is sent.

It authenticates the caller, then applies the rate limit (API-6). Unauthenticated callers therefore
learn no routes or body formats. It adds the headers of every response, and only the gate turns
errors into responses. A request that needs no credentials takes a token of its source address
instead (AUTH-9).
"""

import logging
import re
import secrets
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared import logs
from shared.authorizer.formats.addresses import find_subscriber, parse_address
from shared.errors import InvalidRequest, InvalidSettings, NotFound, RequestError, Unavailable
from shared.model.callers import Caller
from shared.model.outbound import Network
from shared.model.rate_limit import RATE_PER_SECOND, BucketPurpose, BucketUser, RateLimitHeaders
from shared.ports import Ports
from shared.web import errors, strangers
from shared.web.authentication import UsageCounter, authenticate
from shared.web.rate_limit import TenantLimiter
from shared.web.routes import Context
from shared.web.stored import HEAD
from shared.web.strangers import AnonymousLimiter
from shared.web.work import IN_PLACE, Work, WorkKind

_log = logging.getLogger(__name__)

_UNAVAILABLE: Final = logs.fields(metrics={"RequestsUnavailable": 1})
_REFUSED: Final = {401: "Rejected401", 403: "Rejected403", 429: "Rejected429"}
_HOP: Final = re.compile(r"\[([0-9A-Fa-f:.]+)\](?::[0-9]{1,5})?|([0-9.]+):[0-9]{1,5}")
_CRASHED: Final = logs.fields(metrics={"RequestsFailed": 1})


def source_address(request: Request, trusted_networks: Sequence[Network]) -> str:
    """Return the source address of the request, or "unknown" if the server has none.

    X-Forwarded-For is read from its right end, because each proxy appends the address of its peer.
    An entry is used only if the address to its right is in a `trusted_networks` network. The result
    is the last address that is not trusted. Text that is not an address ends the search, and the
    result is the proxy that sent it, so callers' text is never logged. Some proxies add a port.
    """
    peer = request.client.host if request.client else "unknown"
    current = parse_address(peer)
    if current is None:
        return peer
    hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    while hops and any(current in network for network in trusted_networks):
        before = parse_address(_without_port(hops.pop().strip()))
        if before is None:
            break
        current = before
    return str(current)


def _without_port(hop: str) -> str:
    """Return the address of `address:port`, `[address]` or `[address]:port`; else the text."""
    found = _HOP.fullmatch(hop)
    return next(filter(None, found.groups())) if found else hop


class ApiMiddleware:
    """ASGI middleware. It calls `ports` per request, so creation is deferred to the first.

    `trusted_proxies` returns the networks with a trusted X-Forwarded-For header. `work` runs code
    that may block. `purpose` returns the tenant bucket that a request takes its token from.
    `anonymous` has the buckets of unauthenticated clients, if they are shared with other
    applications.
    """

    def __init__(
        self,
        app: ASGIApp,
        ports: Callable[[], Ports],
        trusted_proxies: Callable[[], Sequence[Network]] = tuple,
        work: Work = IN_PLACE,
        purpose: Callable[[Scope], BucketPurpose] = lambda _: BucketPurpose.REQUESTS,
        anonymous: AnonymousLimiter | None = None,
    ) -> None:
        self._app = app
        self._ports = ports
        self._trusted_proxies = trusted_proxies
        self._work = work
        self._purpose = purpose
        self._tenants = TenantLimiter(ports, work)
        self._anonymous = anonymous or AnonymousLimiter(lambda: ports().now())
        self._usage = UsageCounter(work)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            # RFC 9110, 9.3.2: like GET, without the body (API-2).
            scope, send = {**scope, "method": "GET", HEAD: True}, _without_body(send)
        exchange, call = _Exchange(send), None
        try:
            call = await self._admit(Request(scope), exchange)
            if _is_ambiguous(scope):
                raise NotFound("There is no such endpoint.")
            scope["call"] = call
            await self._app(scope, receive, exchange.send)
        except ClientDisconnect as error:
            # The caller disconnected, which is not a failure of the service. No response is needed.
            exchange.error = error
        except Exception as error:
            exchange.error = error
            report(error, exchange.request_id)
            if exchange.status is not None:  # the headers have been sent
                raise
            await errors.response(error)(scope, receive, exchange.send)
        finally:
            exchange.log(scope)
            if call is not None:
                # After the response, to keep the caller from waiting for it.
                await self._usage.count(call.ports, call.caller)

    def release(self) -> None:
        """Answer the long polls, because the server stops."""
        self._work.release()

    def stop(self) -> None:
        """Wait for the work in progress, and write the unwritten usage counts."""
        self._work.stop()
        self._usage.flush(self._ports)

    async def _admit(self, request: Request, exchange: "_Exchange") -> Context:
        address = source_address(request, self._trusted_proxies())
        exchange.source_ip = address

        def identify() -> tuple[Ports, Caller]:
            ports = self._ports()
            exchange.figures = partial(self._anonymous.look, find_subscriber(address))
            return ports, authenticate(
                ports,
                request,
                source_ip=address,
                request_id=exchange.request_id,
                refusing=partial(self._anonymous.take, find_subscriber(address)),
            )

        ports, caller = await self._work(identify, WorkKind.QUICK, tenant_id="")
        exchange.caller = caller
        # An ambiguous path is rejected and reaches no endpoint.
        scope = request.scope
        purpose = BucketPurpose.REQUESTS if _is_ambiguous(scope) else self._purpose(scope)
        holder = BucketUser.of(caller, purpose)
        exchange.figures = partial(self._tenants.look, holder)
        await self._tenants.take(holder)
        return Context(ports, caller, self._work)


def headers_of_every_response(
    request_id: str, figures: RateLimitHeaders
) -> list[tuple[bytes, bytes]]:
    """Return the headers that every response has, with any status (API-8)."""
    return [
        (b"x-request-id", request_id.encode()),
        # Browsers must not treat JSON as a script or a page.
        (b"x-content-type-options", b"nosniff"),
        *strangers.headers(figures),
    ]


def unreadable(message: str) -> Response:
    """Return the 400 for an unreadable request that never reached the gate (API-8)."""
    answer = errors.response(InvalidRequest(message))
    figures = RateLimitHeaders(RATE_PER_SECOND, int(time.time()))
    more = headers_of_every_response(secrets.token_hex(8), figures)
    answer.raw_headers += [*more, (b"cache-control", b"no-store")]
    return answer


def _is_ambiguous(scope: Scope) -> bool:
    """Return whether a proxy and the router may interpret the path differently.

    The router uses the decoded path, but a proxy does not split at an encoded slash. Starlette's
    patterns accept a final line break.
    """
    return "\n" in scope["path"] or b"%2f" in (scope.get("raw_path") or b"").lower()


class _Exchange:
    """A response being sent, with the data for its headers and its log line."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.request_id = secrets.token_hex(8)
        # A full bucket, until the bucket of the request is known.
        self.figures: Callable[[], RateLimitHeaders] = lambda: RateLimitHeaders(
            RATE_PER_SECOND, int(time.time())
        )
        self.status: int | None = None
        self.error: Exception | None = None
        self.source_ip: str | None = None
        self.caller: Caller | None = None
        self._began = time.perf_counter()

    async def send(self, message: Message) -> None:
        """Send a message, with the headers of every response (API-8)."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message).setdefault("Cache-Control", "no-store")
            message["headers"] += headers_of_every_response(self.request_id, self.figures())
        await self._send(message)

    def log(self, scope: Scope) -> None:
        """Log the caller, operation, source address and outcome, but never the caller's text.

        Rejected calls are also counted, for an alarm.
        """
        if not _log.isEnabledFor(logging.INFO):
            return
        endpoint = scope.get("endpoint")
        operation = endpoint.__name__ if endpoint else None
        outcome = errors.code_of(self.error) if self.error else "ok"
        seconds = round(time.perf_counter() - self._began, 6)
        refused = _REFUSED.get(self.status or 0)
        # The identifier in API Gateway's access log.
        gateway_id = scope.get("aws.event", {}).get("requestContext", {}).get("requestId")
        line = logs.fields(
            metrics={"RequestSeconds": seconds} | ({refused: 1} if refused else {}),
            by={"Operation": operation or "none", "Outcome": outcome},
            request_id=self.request_id,
            gateway_request_id=None if gateway_id is None else str(gateway_id),
            tenant_id=self.caller.tenant_id if self.caller else None,
            key_id=self.caller.key_id if self.caller else None,
            source_ip=self.source_ip,
            operation=operation,
            status=self.status,
            outcome=outcome,
            duration_ms=round(seconds * 1000, 3),
        )
        _log.info("request", extra=line)


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await send(message)

    return send_head


def report(error: Exception, request_id: str) -> None:
    """Log an error for the operator, without the text of a bug, which may contain a secret.

    A disconnected client is not an error of the service.
    """
    if isinstance(error, RequestError | ClientDisconnect):
        return
    if isinstance(error, Unavailable):
        cause = type(error.__cause__).__name__ if error.__cause__ else "none"
        _log.error(
            "request %s: unavailable: %s (cause: %s)", request_id, error, cause, extra=_UNAVAILABLE
        )
        return
    if isinstance(error, InvalidSettings):
        _log.critical("request %s: invalid settings: %s", request_id, error, extra=_CRASHED)
        return
    frames = "".join(traceback.format_tb(error.__traceback__))
    name = type(error).__name__
    _log.critical("request %s: %s at\n%s", request_id, name, frames, extra=_CRASHED)


class PublicMiddleware:
    """ASGI middleware for callers without credentials. It sets the headers of API-8.

    It also sets the `common` headers unless a response has its own. `scope["source_ip"]` has the
    address of the caller, and `scope["request_id"]` identifies the request. `scope["take_token"]`
    takes another token of the address, or raises `RateLimited`.
    """

    def __init__(
        self,
        anonymous: AnonymousLimiter,
        trusted_proxies: Callable[[], Sequence[Network]],
        common: Mapping[str, str],
    ) -> None:
        self._anonymous, self._trusted_proxies = anonymous, trusted_proxies
        self._common = common

    async def answer(
        self, app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, bucket: str = ""
    ) -> None:
        """Call `app`, unless the address has no token left in the bucket of this name."""
        request_id, started = secrets.token_hex(16), False
        address = source_address(Request(scope), self._trusted_proxies())
        holder = f"{find_subscriber(address)}{bucket}"
        take = partial(self._anonymous.take, holder)
        scope = {**scope, "source_ip": address, "request_id": request_id, "take_token": take}
        send = _without_body(send) if scope["method"] == "HEAD" else send

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in self._common.items():
                    headers.setdefault(name, value)
                figures = self._anonymous.look(holder)
                for name_, value_ in headers_of_every_response(request_id, figures):
                    headers[name_.decode()] = value_.decode()
            await send(message)

        try:
            take()
            if _is_ambiguous(scope):
                raise NotFound("There is no such endpoint.")
            await app(scope, receive, send_with_headers)
        except Exception as error:
            report(error, request_id)
            if started:
                raise
            await errors.response(error)(scope, receive, send_with_headers)
