"""A process that answers requests: uvicorn, on a socket that the server has opened."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from infra.server import protocol

# uvicorn renews the Date header once a second.
_TICK_SECONDS = 1.0


def run(stop: int, listener: socket.socket, beat: Callable[[], None]) -> None:
    """Answer requests to the service until the descriptor `stop` is at its end."""
    config = uvicorn.Config(
        "infra.server.app:app",
        log_config=None,
        # Warnings report malformed requests, and any caller can send many.
        log_level="error",
        lifespan="on",
        ws="none",
        http=protocol.LocalProtocol,
        backlog=protocol.limits().backlog,
        # Connections close themselves before that.
        timeout_graceful_shutdown=protocol.STOP_SECONDS + 2,
        # The gate decides which forwarded addresses are used.
        proxy_headers=False,
        server_header=False,
    )
    serve(config, listener, stop, beat)


def serve(
    config: uvicorn.Config, listener: socket.socket, stop: int, beat: Callable[[], None]
) -> None:
    """Serve an application on `listener`, and close it, until `stop` is at its end."""
    asyncio.run(_serve(config, listener, stop, beat))


async def _serve(
    config: uvicorn.Config, listener: socket.socket, stop: int, beat: Callable[[], None]
) -> None:
    # Not `Server.serve`: it takes the signals, and asks ten times a second whether to stop.
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
    # Answered requests are over; a thread that still works is waited for.
