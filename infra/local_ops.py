"""The address for the operator's monitoring: metrics and health, without a key (docs/metrics.md).

Nothing else is served there. It runs in a thread of the process that publishes the lists.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from infra.local_ages import Ages
from infra.local_health import Health, alive, unavailable
from infra.local_metrics import Exposition, Gauges
from infra.local_threads import Threads
from shared.ports import Ports

# The schedule has a round each minute.
_IDLE_SECONDS_MAX: Final = 180
_STOP_SECONDS: Final = 5


@contextmanager
def serving(listener: socket.socket, ports: Ports, ages: Ages) -> Iterator[None]:
    """Serve on `listener` meanwhile, and close it."""
    config = uvicorn.Config(
        _app(ports, ages), log_config=None, log_level="error", lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="ops")
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_STOP_SECONDS)
        listener.close()


def _app(ports: Ports, ages: Ages) -> Starlette:
    exposition = Exposition(Gauges(ports, ages))
    health = Health(lambda: ports, Threads())

    def metrics(request: Request) -> Response:
        body, content_type = exposition.answer(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})

    async def ready(request: Request) -> Response:
        if ages.schedule() > _IDLE_SECONDS_MAX:
            return unavailable("The schedule that publishes lists has stopped.").response()
        return await health.ready(request)

    return Starlette(
        routes=[Route("/metrics", metrics), Route("/healthz", alive), Route("/readyz", ready)]
    )
