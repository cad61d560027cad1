"""The HTTP server of a relay: uvicorn, with limits, and a stop that keeps nobody waiting."""

import resource
import socket
from dataclasses import dataclass
from types import FrameType
from typing import Final

import uvicorn
from starlette.applications import Starlette

from .relay import Relay

# Files for the state, for the connections to the service, and for answers that are files.
_FILES_KEPT: Final = 128
_CONNECTIONS_MAX: Final = 8000
_BACKLOG: Final = 1024
_STOP_SECONDS: Final = 3
_IDLE_SECONDS: Final = 75
_HEADER_BYTES_MAX: Final = 16 * 1024


@dataclass(frozen=True, slots=True)
class Tls:
    """The files of the certificate chain and of its private key, in PEM."""

    certificate: str
    key: str


def connections() -> int:
    """Return how many connections a relay may have, after its limit of files was raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _CONNECTIONS_MAX + _FILES_KEPT
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(wanted - _FILES_KEPT, 1)


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named with its protocol, asyncio sends each response without a delay.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


class Server(uvicorn.Server):
    """Serves one relay on a socket until it is told to stop."""

    is_told_to_stop = False

    def __init__(self, relay: Relay, app: Starlette, tls: Tls | None, most: int) -> None:
        self._relay = relay
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="on",
                loop="asyncio",
                log_config=None,
                log_level="error",
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=most,
                backlog=_BACKLOG,
                timeout_keep_alive=_IDLE_SECONDS,
                timeout_graceful_shutdown=_STOP_SECONDS,
                h11_max_incomplete_event_size=_HEADER_BYTES_MAX,
                ssl_certfile=tls.certificate if tls else None,
                ssl_keyfile=tls.key if tls else None,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note that the server is told to stop, and let it."""
        self.is_told_to_stop = True
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer all polls that wait, and stop."""
        self._relay.release()
        await super().shutdown(sockets)
