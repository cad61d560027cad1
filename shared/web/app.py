"""The application of a function: its routes behind the gate, and its Lambda handler."""

from collections.abc import Callable
from typing import Any, NoReturn

from fastapi import APIRouter, FastAPI
from mangum import Mangum
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from shared import wiring
from shared.errors import MethodNotAllowed, NotFound
from shared.ports import Ports
from shared.web.gate import Gate


def create_app(
    *routers: APIRouter, ports: Callable[[], Ports] = wiring.from_environment
) -> FastAPI:
    """An application that serves the routes of `routers` and nothing else."""
    routes = [route for each in routers for route in each.routes]

    async def no_route(request: Request, _error: Exception) -> NoReturn:
        # Raised on, to where every error becomes a response.
        methods = _methods(routes, request.scope)
        raise MethodNotAllowed(methods) if methods else NotFound("There is no such endpoint.")

    app = FastAPI(
        openapi_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: no_route},
    )
    for each in routers:
        app.include_router(each)
    app.add_middleware(Gate, ports=ports)
    return app


def lambda_handler(app: FastAPI) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
    """The entry point that Lambda calls with events of API Gateway, REST (1.0) or HTTP (2.0)."""
    return Mangum(app, lifespan="off")


def _methods(routes: list[BaseRoute], scope: Scope) -> set[str]:
    """The methods of every route that the path matches; Starlette names those of the first only."""
    matching = (route for route in routes if route.matches(scope)[0] is not Match.NONE)
    return {method for route in matching for method in getattr(route, "methods", None) or ()}
