"""The command `relay` and its HTTP server: uvicorn with limits and a bounded shutdown."""

import argparse
import logging
import resource
import signal
import socket
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn
from starlette.applications import Starlette

from ..formats.following import TrustState
from ..saved_state import FileStateStore
from .app import app
from .connections import Config, Limits
from .relay import Relay, ServiceConfig

_CONNECTIONS_MAX: Final = 8000
_BACKLOG_MAX: Final = 1024


def limits() -> Limits:
    """Raise the process's limit of open files, and return the limits of a relay."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _CONNECTIONS_MAX * 2
    if hard != resource.RLIM_INFINITY:
        target = min(target, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return Limits.of_process(_CONNECTIONS_MAX, _BACKLOG_MAX)


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address. Raises `OSError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    is_dual = family is socket.AF_INET6
    return socket.create_server(
        (host, port), family=family, backlog=_BACKLOG_MAX, dualstack_ipv6=is_dual
    )


class Server(uvicorn.Server):
    """Serves one relay on a socket until a stop signal."""

    is_stop_requested = False

    def __init__(
        self, relay: Relay, app: Starlette, most: Limits, chain: str | None, key: str | None
    ) -> None:
        self._relay = relay
        tls = {"ssl_certfile": chain, "ssl_keyfile": key}
        super().__init__(Config(app, most, lifespan="on", loop="asyncio", **tls))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Record the stop signal, and begin to stop."""
        self.is_stop_requested = True
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all long polls, and stop."""
        self._relay.waiting.release()
        await super().shutdown(sockets)


_TOKEN_LENGTH_MIN: Final = 16
_NAME_BYTES_MAX: Final = 64


def run(options: argparse.Namespace, api_key: str) -> int:
    """Serve the clients of a relay until an interrupt or SIGTERM. Return 0.

    Raises `ValueError`, `OSError` or `SavedStateCorrupt` if the relay cannot start.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    host, _, number = options.listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    is_loopback, port = ip_address(host).is_loopback, int(number)
    tokens = _tokens(options.tokens)
    has_tls = bool(options.certificate)
    if has_tls != bool(options.key):
        raise ValueError("pass --certificate and --key together, or neither")
    if not is_loopback and not tokens:
        raise ValueError("other machines can reach this address: pass --tokens FILE")
    if not is_loopback and not (has_tls or options.allow_http_clients):
        raise ValueError("other machines can reach this address: pass --certificate and --key")
    connection_limits = limits()
    name = options.name or socket.gethostname()
    if not 0 < len(name.encode()) <= _NAME_BYTES_MAX:
        raise ValueError(f"the relay name must have 1 to {_NAME_BYTES_MAX} bytes: pass --name")
    folder = Path(options.state)
    relay = Relay(
        ServiceConfig(options.url, api_key, options.allow_http, name),
        TrustState(options.tenant, options.trust_pin),
        FileStateStore(folder / "floor"),
        folder,
        most_waiting=connection_limits.waiting,
    )
    relay.load()
    with open_socket(host, port) as sock:
        # The socket names the port if the option has port 0.
        bound_host, bound_port = sock.getsockname()[:2]
        bound_host = f"[{bound_host}]" if ":" in bound_host else bound_host
        print(f"listening on {bound_host}:{bound_port}", flush=True)
        # uvicorn raises the signal again after it has stopped.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        server = Server(
            relay, app(relay, tokens), connection_limits, options.certificate, options.key
        )
        try:
            server.run([sock])
        except KeyboardInterrupt:
            return 0
    return 0 if server.is_stop_requested else 1


def _tokens(file: str | None) -> list[str]:
    """Read the tokens from a file with one token per line.

    Raises `ValueError` if a token is too short.
    """
    if file is None:
        return []
    tokens = Path(file).read_text(encoding="ascii").split()
    if not tokens or min(map(len, tokens)) < _TOKEN_LENGTH_MIN:
        raise ValueError(
            f"{file} must have one token per line, each of {_TOKEN_LENGTH_MIN} or more characters"
        )
    return tokens
