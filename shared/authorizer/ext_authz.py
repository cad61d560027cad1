"""Authorization service for Envoy (ext_authz over HTTP) and compatible proxies.

Envoy sends the method, the path and some headers of a request. The response is 200 if the request
is allowed, with the identifier of its last warrant in X-Warrant-Id. Otherwise Envoy passes the
response to the caller: 401 without warrants, 503 while the state is stale or the signing keys are
unavailable, and 403 in all other cases.
"""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from .guard import Guard

# The warrants of a request from root to leaf, each in base64, separated by commas.
HEADER: Final = "X-Warrants"

_STATUS: Final = {"missing": 401, "stale": 503, "unknown": 503}
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE")
_IDLE_SECONDS: Final = 60.0


def server(guard: Guard, host: str, port: int) -> ThreadingHTTPServer:
    """Return a server that responds with the decisions of `guard`, in one thread per connection."""
    return _Server((host, port), type("Bound", (_Handler,), {"guard": guard}))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024

    def handle_error(self, *_: object) -> None:
        """Ignore broken connections."""


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
        """Disable the log, because Envoy writes an access log."""

    def _decide(self) -> None:
        # An unread body would be parsed as the next request.
        self.close_connection |= self.headers.get("Content-Length", "0") != "0"
        self.close_connection |= "Transfer-Encoding" in self.headers
        decision = self.guard.decide_header(",".join(self.headers.get_all(HEADER, [])))
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
