"""The application of a function: its routes behind the gate, and its Lambda handler."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn, cast

from fastapi import APIRouter, FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.routing import APIRoute
from mangum import Mangum
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from shared import logs, wiring
from shared.errors import NotFound
from shared.ports import Ports
from shared.settings import Network
from shared.web.errors import MethodNotAllowed
from shared.web.gate import Gate
from shared.web.work import IN_PLACE, Work


def create_app(
    *routers: APIRouter,
    ports: Callable[[], Ports] = wiring.from_environment,
    trusted_proxies: Callable[[], Sequence[Network]] = wiring.trusted_proxies,
    work: Work = IN_PLACE,
) -> FastAPI:
    """An application that serves the routes of `routers` and nothing else.

    `trusted_proxies` gives the networks whose X-Forwarded-For is believed; `work` runs the
    operations.
    """
    routes = [route for each in routers for route in each.routes]

    async def no_route(scope: Scope, _receive: Receive, _send: Send) -> NoReturn:
        methods = _methods(routes, scope["path"])
        raise MethodNotAllowed(methods) if methods else NotFound("There is no such endpoint.")

    app = _Application(ports, trusted_proxies, work)
    # Not included, which would have each of them looked for twice.
    app.router.routes.extend(routes)
    app.router.default = no_route
    return app


class _Application(FastAPI):
    """FastAPI with nothing between router and gate, where every error becomes a response."""

    def __init__(
        self,
        ports: Callable[[], Ports],
        trusted_proxies: Callable[[], Sequence[Network]],
        work: Work,
    ) -> None:
        super().__init__(
            openapi_url=None,
            redirect_slashes=False,
            # It would tell of paths and queries, which anyone may fill; what is told is in the log.
            telemetry={"tracing": False, "metrics": False, "logs": False},
            lifespan=_lifespan,
        )
        self.gate = Gate(AsyncExitStackMiddleware(self.router), ports, trusted_proxies, work)

    def build_middleware_stack(self) -> ASGIApp:
        """What a request passes before a route is looked for (docs/adr/0008)."""
        return self.gate


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """From the start of a server to its orderly stop; Lambda has neither (docs/adr/0012)."""
    yield
    cast("_Application", app).gate.stop()


def lambda_handler(app: FastAPI) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """The entry point that Lambda calls with events of API Gateway, REST (1.0) or HTTP (2.0).

    If Lambda is about to take a snapshot, the clients of AWS are made now (docs/adr/0033). The base
    path of a domain of its own is taken off a path that begins with it: events of format 1.0 have
    it there, those of format 2.0 need not (docs/adr/0032). Raises `InvalidSettings`.
    """
    wiring.before_snapshot()
    mangum = Mangum(app, lifespan="off", api_gateway_base_path=wiring.base_path())

    def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
        logs.to_standard_output()
        return mangum(_without(_UNREAD, event), context)

    return handler


# Nothing here reads them; Mangum does, and fails on what a caller may have written there.
_UNREAD: Final = {"host", "x-forwarded-port"}


def _without(names: set[str], event: dict[str, Any]) -> dict[str, Any]:
    cleaned = {
        group: {name: value for name, value in event[group].items() if name.lower() not in names}
        for group in ("headers", "multiValueHeaders")
        if event.get(group)
    }
    return event | cleaned


def _methods(routes: list[BaseRoute], path: str) -> set[str]:
    """The methods of every route that the path matches; Starlette names those of the first only."""
    ours = (route for route in routes if isinstance(route, APIRoute))
    matching = [route for route in ours if route.path_regex.match(path)]
    # A path of its own is no identifier: /v1/revocations/check is not /v1/revocations/{id}.
    own = [route for route in matching if route.path == path]
    methods = {method for route in own or matching for method in route.methods or ()}
    return methods | ({"HEAD"} if "GET" in methods else set())
