"""A service on loopback that serves a signed feed: what clients are tested against."""

import base64
import gzip
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shared.authorizer.formats.statements import Statement
from tests.authorizer.feeds import HOUR, TENANT, Feed, public

KEY = "svc_test-key"


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@dataclass
class Service:
    """What the service has, and what it was asked."""

    feed: Feed = field(default_factory=Feed)
    port: int = 0
    scheme: str = "http"
    signers: list[dict[str, Any]] = field(default_factory=list)
    issued_at: datetime = field(default_factory=_now)
    lifetime: timedelta = HOUR
    revision: int = 0
    poll_seconds: float = 0.01
    wait_max: int = 0
    age: str | None = None
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    posted: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    # What a registration and a report are answered with; without, there is no registry.
    registry: dict[str, Any] | None = None
    is_over: bool = False
    # How many polls wait.
    waiting: int = 0
    # What is answered instead, as long as it returns something.
    instead: Callable[[str], "Response | None"] = lambda _path: None

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def revoke(self, *ids: str) -> None:
        """Publish an entry."""
        self.feed.publish(*ids)
        self.sign()

    def sign(self) -> None:
        """Issue the head again."""
        self.issued_at = _now()
        self.revision += 1

    def rotate(self, to: Ed25519PrivateKey, *, number: int, stated: bool = True) -> None:
        """Let another key sign, with a statement of the one before, or without."""
        made = Statement(
            TENANT, number, f"svc_key_{number}", public(to), public(self.feed.key), _now()
        )
        statement = made.signed(seed=self.feed.key.private_bytes_raw()) if stated else None
        self.signers.insert(0, self.described(to, statement=statement))
        self.feed.key = to
        self.sign()

    def described(self, key: Ed25519PrivateKey, **changes: Any) -> dict[str, Any]:
        """A list signer as the service reports it."""
        text = base64.b64encode(public(key)).decode()
        return {"public_key": text, "status": "active", "statement": None} | changes

    def answer(self, path: str, headers: dict[str, str]) -> "Response":
        """The response to a request."""
        self.asked.append((path, headers))
        if other := self.instead(path):
            return other
        url = urlsplit(path)
        if url.path == "/v1/revocations/srl/keys":
            return Response(json.dumps({"keys": self.signers, "cursor": None}).encode())
        if url.path.startswith("/v1/revocations/feed/base/"):
            packed = gzip.compress(self.feed.payloads[int(url.path.rpartition("/")[2])])
            return Response(packed, headers={"Content-Encoding": "gzip"})
        if url.path.startswith("/v1/authorizers/"):
            if self.registry is None:
                return Response(b"no such endpoint", 404)
            return Response(json.dumps(self.registry).encode())
        return self._poll(parse_qs(url.query), headers)

    def _poll(self, query: dict[str, list[str]], headers: dict[str, str]) -> "Response":
        wait = min(int(query.get("wait", ["0"])[0]), self.wait_max)
        deadline = time.monotonic() + wait
        self.waiting += 1
        while headers.get("If-None-Match") == self.etag and time.monotonic() < deadline:
            if self.is_over:
                break
            time.sleep(0.005)
        self.waiting -= 1
        terms = {"ETag": self.etag} | ({} if self.age is None else {"Age": self.age})
        if headers.get("If-None-Match") == self.etag:
            return Response(b"", 304, terms)
        after = int(query["after"][0]) if "after" in query else self.feed.base.sequence
        times = {"issued_at": self.issued_at, "expires_at": self.issued_at + self.lifetime}
        answer = self.feed.answer(min(after, self.feed.base.sequence), **times)
        document = json.loads(answer.encode())
        document |= {"poll_seconds": self.poll_seconds, "wait_max": self.wait_max}
        return Response(json.dumps(document).encode(), headers=terms)

    @property
    def etag(self) -> str:
        return f'"{self.revision}"'

    def polls(self) -> int:
        """How many polls there were."""
        return sum(urlsplit(path).path == "/v1/revocations/feed" for path, _ in self.asked)


@dataclass(frozen=True)
class Response:
    """What is sent. `body` may be a part of what the headers promise."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@contextmanager
def serving(service: Service, tls: ssl.SSLContext | None = None) -> Iterator[Service]:
    """Serve on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise a response in two segments waits for an acknowledgement.
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            response = service.answer(self.path, dict(self.headers.items()))
            self.send_response(response.status)
            length = {"Content-Length": str(len(response.body))}
            for name, value in (length | response.headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response.body)
            self.close_connection |= len(response.body) != int(
                response.headers.get("Content-Length", len(response.body))
            )

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            service.posted.append((self.path, json.loads(body)))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Say nothing of clients that go away."""

    with Server(("127.0.0.1", service.port), Handler) as server:
        service.port = server.server_port
        if tls:
            service.scheme = "https"
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield service
        finally:
            service.is_over = True
            server.shutdown()
            thread.join()
