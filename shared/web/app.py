"""The application of a function: routes behind the gate, and the Lambda handler."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn, Protocol, cast

from fastapi import APIRouter, FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.routing import APIRoute
from mangum import Mangum
from mangum.types import ASGI
from opentelemetry import propagate, trace
from opentelemetry.trace import Span, SpanKind, StatusCode
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared import logs, wiring
from shared.errors import NotFound
from shared.model.outbound import Network
from shared.ports import Ports
from shared.web.errors import MethodNotAllowed
from shared.web.gate import ApiMiddleware, PublicMiddleware, unreadable
from shared.web.routes import ApiRoute, purposes
from shared.web.strangers import AnonymousLimiter
from shared.web.work import IN_PLACE, Work

_SERVER_ERROR: Final = 500


def add_tracing(app: ASGIApp) -> ASGIApp:
    """Return `app` with a span for each request.

    Returns `app` unchanged if no tracer provider is configured.
    """
    provider = trace.get_tracer_provider()
    return (
        app
        if isinstance(provider, trace.ProxyTracerProvider)
        else _TracingMiddleware(app, provider)
    )


class _TracingMiddleware:
    """ASGI middleware before the gate. A span continues the trace of the header `traceparent`."""

    def __init__(self, app: ASGIApp, provider: trace.TracerProvider) -> None:
        self._app = app
        self._tracer = provider.get_tracer("rescind")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        with self._tracer.start_as_current_span(
            scope["method"],
            context=propagate.extract(headers),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": scope["method"]},
            record_exception=False,
        ) as span:
            await self._app(scope, receive, _noting(span, send))
            _name(span, scope)


def _noting(span: Span, send: Send) -> Send:
    async def send_noted(message: Message) -> None:
        if message["type"] == "http.response.start":
            span.set_attribute("http.response.status_code", message["status"])
            if message["status"] >= _SERVER_ERROR:
                span.set_status(StatusCode.ERROR)
        await send(message)

    return send_noted


def _name(span: Span, scope: Scope) -> None:
    """Name the span after the operation, if the request reached an endpoint."""
    endpoint, route = scope.get("endpoint"), scope.get("route")
    if endpoint is not None:
        span.update_name(endpoint.__name__)
    if route is not None:
        span.set_attribute("http.route", route.path)


def create_app(
    *routers: APIRouter,
    ports: Callable[[], Ports] = wiring.from_environment,
    trusted_proxies: Callable[[], Sequence[Network]] = wiring.trusted_proxies,
    work: Work = IN_PLACE,
    anonymous: AnonymousLimiter | None = None,
) -> FastAPI:
    """Return an application that serves only the routes of `routers`.

    `trusted_proxies` returns the networks with a trusted X-Forwarded-For header. `work` runs the
    operations. For `anonymous`, see `ApiMiddleware`.
    """
    routes = [route for each in routers for route in each.routes]

    async def raise_no_route(scope: Scope, _receive: Receive, _send: Send) -> NoReturn:
        methods = _methods(routes, scope["path"])
        raise MethodNotAllowed(methods) if methods else NotFound("There is no such endpoint.")

    ours = [route for route in routes if isinstance(route, ApiRoute)]
    literals = frozenset(route.path for route in ours if "{" not in route.path)
    for route in ours:
        route.literals |= literals
    app = _Application(ports, trusted_proxies, work, routes, anonymous)
    # `include_router` would match each route twice.
    app.router.routes.extend(routes)
    app.router.default = raise_no_route
    return app


class PublicApp(Protocol):
    """An ASGI application for paths that need no credentials."""

    def serves(self, scope: Scope) -> bool:
        """Return whether the application serves the path of a request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. Raises errors of the API."""


def create_public_app(public: PublicApp, *routers: APIRouter) -> ASGI:
    """Return an application that serves `public` without credentials.

    It serves `routers` only to authenticated callers.
    """
    anonymous = AnonymousLimiter(wiring.now)
    limits = PublicMiddleware(anonymous, wiring.trusted_proxies, {"Cache-Control": "no-store"})
    keyed = create_app(*routers, anonymous=anonymous)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if public.serves(scope):
            await limits.answer(public, scope, receive, send)
        else:
            await keyed(scope, receive, send)

    return answer


class _Application(FastAPI):
    """FastAPI without its own middleware: the gate turns every error into a response."""

    def __init__(
        self,
        ports: Callable[[], Ports],
        trusted_proxies: Callable[[], Sequence[Network]],
        work: Work,
        routes: Sequence[BaseRoute],
        anonymous: AnonymousLimiter | None,
    ) -> None:
        super().__init__(
            openapi_url=None,
            redirect_slashes=False,
            # FastAPI's telemetry records paths and queries, which contain text of callers. The
            # request log and the spans of this service do not.
            telemetry={"tracing": False, "metrics": False, "logs": False},
            lifespan=_lifespan,
        )
        behind = AsyncExitStackMiddleware(self.router)
        self.gate = ApiMiddleware(behind, ports, trusted_proxies, work, purposes(routes), anonymous)

    def build_middleware_stack(self) -> ASGIApp:
        """Return the gate, which runs before routing (docs/adr/04), inside a span."""
        return add_tracing(self.gate)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """Stop the gate when the server stops. Lambda has no such event (docs/adr/06).

    The server calls `release` when it begins to stop, before it waits for its connections.
    """
    gate = cast("_Application", app).gate
    yield {"release": gate.release}
    gate.stop()


def lambda_handler(app: ASGI) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """Return the Lambda handler for API Gateway events: REST (1.0) or HTTP (2.0).

    If Lambda is about to take a snapshot, the AWS clients are created now (docs/adr/22). The base
    path of a custom domain is removed from paths that begin with it. Events of format 1.0 contain
    it; events of format 2.0 may not (docs/adr/22). Raises `InvalidSettings`.
    """
    wiring.prepare_snapshot()
    mangum = Mangum(_as_sent(app), lifespan="off", api_gateway_base_path=wiring.base_path())

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        logs.configure_standard_output()
        try:
            return mangum(_without(_UNREAD, event), context)
        except UnicodeEncodeError:
            # An unpaired surrogate, which no HTTP request can contain. The application has not run.
            return _to_event(unreadable("The request contains text that is not Unicode."))

    return handler


def _as_sent(app: ASGI) -> ASGI:
    """Set `raw_path`, which the gate compares with the decoded path."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        event = scope["aws.event"]
        raw = str(event.get("rawPath") or event.get("path") or "")
        await app({**scope, "raw_path": raw.encode()}, receive, send)

    return answer


def _to_event(answer: Response) -> dict[str, Any]:
    headers = {name.decode(): value.decode() for name, value in answer.raw_headers}
    body = bytes(answer.body).decode()
    return {
        "statusCode": answer.status_code,
        "headers": headers,
        "body": body,
        "isBase64Encoded": False,
    }


# The application does not use these headers, but Mangum does, and fails on malformed values.
_UNREAD: Final = {"host", "x-forwarded-port"}


def _without(names: set[str], event: dict[str, Any]) -> dict[str, Any]:
    cleaned = {
        group: {name: value for name, value in event[group].items() if name.lower() not in names}
        for group in ("headers", "multiValueHeaders")
        if event.get(group)
    }
    return event | cleaned


def _methods(routes: list[BaseRoute], path: str) -> set[str]:
    """Return the methods of all matching routes; Starlette returns only the first route's."""
    ours = (route for route in routes if isinstance(route, APIRoute))
    matching = [route for route in ours if route.path_regex.match(path)]
    # A literal path is not an identifier: /v1/revocations/check does not match
    # /v1/revocations/{id}.
    own = [route for route in matching if route.path == path]
    methods = {method for route in own or matching for method in route.methods or ()}
    return methods | ({"HEAD"} if "GET" in methods else set())
