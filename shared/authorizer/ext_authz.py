"""An authorization service for Envoy (ext_authz over HTTP), and for what speaks as Envoy does.

Envoy sends the method, the path and some headers of a request. The answer is 200 if the request is
allowed, with the identifier of its last warrant in X-Warrant-Id. Otherwise it is what the caller
gets: 401 without warrants, 503 as long as nothing can be known, and 403.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from .guard import Guard, GuardDecision

# The warrants of a request, root to leaf: base64 of each, separated by commas.
HEADER: Final = "X-Warrants"

_STATUS: Final = {"missing": 401, "stale": 503, "unknown": 503}
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE")
_IDLE_SECONDS: Final = 60.0


def server(guard: Guard, host: str, port: int) -> ThreadingHTTPServer:
    """Return a server that answers with the decisions of `guard`, a thread to each connection."""
    return _Server((host, port), type("Bound", (_Handler,), {"guard": guard}))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, *_: object) -> None:
        """Say nothing of a connection that broke."""


class _Handler(BaseHTTPRequestHandler):
    guard: Guard
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True

    def __getattr__(self, name: str) -> Any:
        if name.removeprefix("do_") in _METHODS:
            return self._decide
        raise AttributeError(name)

    def log_message(self, *_: object) -> None:
        """Log nothing: Envoy has a log of its own."""

    def _decide(self) -> None:
        # A body would be taken for the next request.
        self.close_connection |= self.headers.get("Content-Length", "0") != "0"
        self.close_connection |= "Transfer-Encoding" in self.headers
        decision = self.guard.decide_header(",".join(self.headers.get_all(HEADER, [])))
        self._respond(decision)

    def _respond(self, decision: GuardDecision) -> None:
        body = b""
        if decision.is_allowed:
            self.send_response(200)
            self.send_header("X-Warrant-Id", decision.warrants[-1].id)
        else:
            body = json.dumps({"error": {"code": decision.reason}}).encode()
            self.send_response(_STATUS.get(decision.reason, 403))
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
