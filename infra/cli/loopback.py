"""A page of this machine that waits for a browser to come back from a sign-in (RFC 8252, 7.3)."""

import socket
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from queue import Empty, Full, Queue
from socketserver import ThreadingTCPServer
from threading import Thread
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from infra.cli.errors import WrongUsage

_HOSTS: Final = {"127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1", "::1": "::1"}
_PAGE: Final = b"Go back to the terminal, which goes on. This page can be closed.\n"


class Loopback:
    """Listens at an address such as `http://127.0.0.1:53682/`; without a port, on any free one.

    Raises `WrongUsage` if the address is not of this machine, or if its port is taken. A browser
    may open connections that it does not use; they hold up nothing.
    """

    def __init__(self, redirect: str) -> None:
        host, port, path = _parts(redirect)
        self._answers: Queue[Mapping[str, str]] = Queue(1)
        self._server = _listening(host, port, _handler(path, self._answers))
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._server.server_address[1]}{path}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, seconds: int) -> Mapping[str, str] | None:
        """Return the parameters that a browser comes with; None if none comes in time."""
        try:
            return self._answers.get(timeout=seconds)
        except Empty:
            return None


def _parts(redirect: str) -> tuple[str, int, str]:
    try:
        parts = urlsplit(redirect)
        port = parts.port or 0
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme != "http" or parts.hostname not in _HOSTS or parts.query or parts.fragment:
        raise WrongUsage("--redirect is an address of this machine: http://127.0.0.1:53682/")
    return parts.hostname, port, parts.path or "/"


class _LoopbackServer(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True


class _LoopbackServer6(_LoopbackServer):
    address_family = socket.AF_INET6


def _listening(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> _LoopbackServer:
    made = _LoopbackServer6 if ":" in host else _LoopbackServer
    try:
        return made((_HOSTS[host], port), handler)
    except OSError as error:
        raise WrongUsage(
            f"{host}:{port} cannot be listened on ({error.strerror}): end the program that has it, "
            "or name another address by --redirect."
        ) from error


def _handler(path: str, answers: Queue[Mapping[str, str]]) -> type[BaseHTTPRequestHandler]:
    class ReturnPage(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            """Take the parameters of a request to the page; others, as for an icon, are refused."""
            parts = urlsplit(self.path)
            found = parse_qs(parts.query) if parts.path == path else {}
            self.send_response(HTTPStatus.OK if found else HTTPStatus.NOT_FOUND)
            self.send_header("Content-Type", "text/plain; charset=utf-8")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Connection", "close")
            self.end_headers()
            if not found:
                return
            self.wfile.write(_PAGE)
            # The first answer counts.
            with suppress(Full):
                answers.put_nowait({name: values[0] for name, values in found.items()})

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (that of the library)
            """Log nothing: the parameters are secret."""

    return ReturnPage
