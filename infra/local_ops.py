"""The address for the operator's monitoring: metrics and health, without a key (docs/metrics.md).

Nothing else is served there. It is a process of its own, so it tells when another one is down.
"""

import socket
from functools import partial
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from infra import local_worker
from infra.local_board import OPS, Board
from infra.local_health import Health, alive, unavailable
from infra.local_metrics import Exposition, Gauges
from infra.local_threads import Threads
from shared import wiring
from shared.ports import Ports

# The schedule has a round each minute.
_IDLE_SECONDS_MAX: Final = 180


def run(stop: int, listener: socket.socket, board: Board) -> None:
    """Serve until the descriptor `stop` is at its end."""
    app = _app(wiring.from_environment(), board)
    config = uvicorn.Config(app, log_config=None, log_level="error", lifespan="off", ws="none")
    local_worker.serve(config, listener, stop, partial(board.beat, OPS))


def _app(ports: Ports, board: Board) -> Starlette:
    exposition = Exposition(Gauges(ports, board))
    health = Health(lambda: ports, Threads())

    def metrics(request: Request) -> Response:
        body, content_type = exposition.answer(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})

    async def lives(request: Request) -> Response:
        if down := board.down():
            names = ", ".join(down)
            return unavailable(f"Down, and about to be started again: {names}.").response()
        return await alive(request)

    async def ready(request: Request) -> Response:
        if board.schedule_seconds() > _IDLE_SECONDS_MAX:
            return unavailable("The schedule that publishes lists has stopped.").response()
        return await health.ready(request)

    return Starlette(
        routes=[Route("/metrics", metrics), Route("/healthz", lives), Route("/readyz", ready)]
    )
