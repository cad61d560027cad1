"""The command `relay`."""

import argparse
import logging
import signal
import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from ..floor import FileFloor
from ..signers import Trust, public_keys
from .app import app
from .relay import Relay, Service
from .server import Server, Tls, bound, connections

_TOKEN_LENGTH_MIN: Final = 16
_NAME_BYTES_MAX: Final = 64


def run(options: argparse.Namespace, api_key: str) -> int:
    """Answer the clients of a service near it until an interrupt or SIGTERM. Return 0.

    Raises `ValueError`, `OSError` or `DamagedFloor` if the relay cannot start.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    host, port = _address(options.listen)
    tokens = _tokens(options.tokens)
    tls = _tls(options)
    _check_callers(host, tokens, is_open=tls is None and not options.allow_http_clients)
    most = connections()
    relay = _relay(options, api_key, most)
    relay.load()
    with bound(host, port) as sock:
        print(f"listening on {_said(sock)}", flush=True)
        # uvicorn raises the signal again when it has stopped.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        server = Server(relay, app(relay, tokens), tls, most)
        try:
            server.run([sock])
        except KeyboardInterrupt:
            return 0
    return 0 if server.is_told_to_stop else 1


def _relay(options: argparse.Namespace, api_key: str, most: int) -> Relay:
    state = Path(options.state)
    return Relay(
        Service(options.url, api_key, options.allow_http, _name(options.name)),
        Trust(options.tenant, public_keys(options.public_key)),
        FileFloor(state / "floor"),
        state,
        # Others are served beside those that wait.
        most_waiting=most * 3 // 4,
    )


def _name(given: str | None) -> str:
    name = given or socket.gethostname()
    if not 0 < len(name.encode()) <= _NAME_BYTES_MAX:
        raise ValueError(f"the name of a relay has 1 to {_NAME_BYTES_MAX} bytes: pass --name")
    return name


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    ip_address(host)
    return host, int(port)


def _said(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tokens(file: str | None) -> list[str]:
    """Return the tokens in a file, one in a line. Raises `ValueError` if one is too short."""
    if file is None:
        return []
    tokens = Path(file).read_text(encoding="ascii").split()
    if not tokens or min(map(len, tokens)) < _TOKEN_LENGTH_MIN:
        raise ValueError(
            f"{file} must have a token in each line, of {_TOKEN_LENGTH_MIN} characters at least"
        )
    return tokens


def _tls(options: argparse.Namespace) -> Tls | None:
    if (options.certificate is None) != (options.key is None):
        raise ValueError("--certificate and --key belong together")
    return Tls(options.certificate, options.key) if options.certificate else None


def _check_callers(host: str, tokens: list[str], *, is_open: bool) -> None:
    """Refuse to answer other machines without tokens, or without TLS."""
    if ip_address(host).is_loopback:
        return
    if not tokens:
        raise ValueError("other machines can reach this address: pass --tokens FILE")
    if is_open:
        raise ValueError("other machines can reach this address: pass --certificate and --key")
