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
from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared import logs, wiring
from shared.capabilities import RouteTable
from shared.errors import NotFound
from shared.model.outbound import Network
from shared.ports import Ports
from shared.web.errors import MethodNotAllowed
from shared.web.gate import ApiMiddleware, PublicMiddleware, unreadable
from shared.web.routes import ApiRoute, purposes
from shared.web.strangers import AnonymousLimiter
from shared.web.work import IN_PLACE, Work

_SERVER_ERROR: Final = 500
# The application does not use these headers, but Mangum does, and fails on malformed values.
_UNREAD: Final = {"host", "x-forwarded-port"}


def add_tracing(app: ASGIApp) -> ASGIApp:
    """Return `app` with a span for each request.

    Returns `app` unchanged if no tracer provider is configured.
    """
    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        return app
    tracer = provider.get_tracer("rescind")

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        # The span continues the trace of the header `traceparent`.
        with tracer.start_as_current_span(
            scope["method"],
            context=propagate.extract(headers),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": scope["method"]},
            record_exception=False,
        ) as span:

            async def send_traced(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.set_attribute("http.response.status_code", message["status"])
                    if message["status"] >= _SERVER_ERROR:
                        span.set_status(StatusCode.ERROR)
                await send(message)

            await app(scope, receive, send_traced)
            # Name the span after the operation, if the request reached an endpoint.
            endpoint, route = scope.get("endpoint"), scope.get("route")
            if endpoint is not None:
                span.update_name(endpoint.__name__)
            if route is not None:
                span.set_attribute("http.route", route.path)

    return serve


def create_app(
    *routers: RouteTable,
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
        # Starlette returns only the methods of the first matching route.
        path = scope["path"]
        matching = [each for each in routes if isinstance(each, APIRoute)]
        matching = [each for each in matching if each.path_regex.match(path)]
        # A literal path is not an identifier: /v1/revocations/check does not match
        # /v1/revocations/{id}.
        own = [each for each in matching if each.path == path]
        methods = {method for each in own or matching for method in each.methods or ()}
        if not methods:
            raise NotFound("There is no such endpoint.")
        raise MethodNotAllowed(methods | ({"HEAD"} if "GET" in methods else set()))

    api_routes = [route for route in routes if isinstance(route, ApiRoute)]
    literals = frozenset(route.path for route in api_routes if "{" not in route.path)
    for route in api_routes:
        route.literals |= literals
    app = _Application()
    app.gate = ApiMiddleware(
        AsyncExitStackMiddleware(app.router),
        ports,
        trusted_proxies,
        work,
        purposes(routes),
        anonymous,
    )
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

    gate: ApiMiddleware

    def __init__(self) -> None:
        super().__init__(
            openapi_url=None,
            redirect_slashes=False,
            # FastAPI's telemetry records paths and queries, which contain text of callers. The
            # request log and the spans of this service do not.
            telemetry={"tracing": False, "metrics": False, "logs": False},
            lifespan=_lifespan,
        )

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

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        """Set `raw_path`, which the gate compares with the decoded path."""
        event = scope["aws.event"]
        raw = str(event.get("rawPath") or event.get("path") or "")
        await app({**scope, "raw_path": raw.encode()}, receive, send)

    mangum = Mangum(serve, lifespan="off", api_gateway_base_path=wiring.base_path())

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        logs.configure_standard_output()
        used = {
            group: {
                name: value for name, value in event[group].items() if name.lower() not in _UNREAD
            }
            for group in ("headers", "multiValueHeaders")
            if event.get(group)
        }
        try:
            return mangum(event | used, context)
        except UnicodeEncodeError:
            # An unpaired surrogate, which no HTTP request can contain. The application has not run.
            answer = unreadable("The request contains text that is not Unicode.")
            return {
                "statusCode": answer.status_code,
                "headers": {name.decode(): value.decode() for name, value in answer.raw_headers},
                "body": bytes(answer.body).decode(),
                "isBase64Encoded": False,
            }

    return handler
