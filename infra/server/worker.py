"""A process that answers requests on a socket opened by the server (docs/adr/21)."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Final

import uvicorn
from starlette.responses import Response

from infra.server.board import ProcessStatus
from shared.authorizer.relay.connections import IDLE_SECONDS, UNREADABLE, Config, Connection, Limits

_CONNECTIONS_MAX: Final = 4000
_BACKLOG_MAX: Final = 128

# uvicorn renews the Date header once a second.
_TICK_SECONDS = 1.0


@cache
def limits() -> Limits:
    """Return the limits of this process."""
    return Limits.of_process(_CONNECTIONS_MAX, _BACKLOG_MAX)


class LocalConnection(Connection):
    """A connection that responds to unparsable requests as the gate does."""

    def unreadable(self) -> Response:
        """Return the response to a request that cannot be parsed (API-9)."""
        # The application has loaded the gate. If this module did, a worker could start too slowly
        # for uvicorn's supervisor.
        from shared.web import gate  # noqa: PLC0415

        return gate.unreadable(UNREADABLE)


def run(
    stop: int,
    listener: socket.socket,
    board: ProcessStatus,
    name: str,
    *,
    idle_seconds: int = IDLE_SECONDS,
) -> None:
    """Answer requests until end of file on the descriptor `stop`."""
    app = "infra.server.app:app"
    config = Config(
        app, limits(), http=LocalConnection, lifespan="on", timeout_keep_alive=idle_seconds
    )

    def record_heartbeat() -> None:
        board.record_heartbeat(name)
        if board.is_stopping():
            config.close_connections()

    asyncio.run(serve(config, listener, stop, record_heartbeat))


async def serve(
    config: Config, listener: socket.socket, stop: int, beat: Callable[[], None]
) -> None:
    """Serve an application on `listener` until end of file on `stop`, then close it."""
    # `Server.serve` would handle signals, and poll ten times a second for the stop.
    server, stopped = uvicorn.Server(config), asyncio.Event()
    config.load()
    server.lifespan = config.lifespan_class(config)
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(stop)
        stopped.set()

    loop.add_reader(stop, end)
    await server.startup(sockets=[listener])
    while not stopped.is_set():
        beat()
        await server.on_tick(0)
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), _TICK_SECONDS)
    await server.shutdown(sockets=[listener])
    # Requests are complete now. Threads that still work are waited for.
