"""A service on loopback that serves a signed feed: what clients are tested against."""

import gzip
import hashlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shared.authorizer.formats.documents import SignedDocument, answer, documents_after, signed_part
from shared.authorizer.formats.signing_keys import PublishedKey, PublishedKeys, reference
from shared.authorizer.formats.trust import DocumentSigner
from shared.authorizer.formats.wire import FeedPosition, SignedHead
from tests.authorizer import roots
from tests.authorizer.feeds import HOUR, Feed, public, signer

KEY = "svc_test-key"

# The number of the root, which signs nothing but trust documents, and its pin.
ROOT = 201
PIN = roots.roots(ROOT).pin


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


@dataclass
class Service:
    """What the service has, and what it was asked.

    No poll is answered during a change. `changing` makes one change of several.
    """

    feed: Feed = field(default_factory=Feed)
    port: int = 0
    scheme: str = "http"
    issued_at: datetime = field(default_factory=_now)
    lifetime: timedelta = HOUR
    revision: int = 0
    root: int = ROOT
    poll_seconds: float = 0.01
    max_wait_seconds: int = 0
    age: str | None = None
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    posted: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    # What a registration and a report are answered with; without, there is no registry.
    registry: dict[str, Any] | None = None
    # The trust documents, by version, and the signing keys that the head names, if it names any.
    documents: list[SignedDocument] = field(default_factory=list)
    signing_keys: bytes | None = None
    blobs: dict[str, bytes] = field(default_factory=dict)
    is_over: bool = False
    # How many polls wait.
    waiting: int = 0
    changing: threading.RLock = field(default_factory=threading.RLock)
    # What is answered instead, as long as it returns something.
    instead: Callable[[str], "Response | None"] = lambda _path: None

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def revoke(self, *ids: str) -> None:
        """Publish an entry."""
        with self.changing:
            self.feed.publish(*ids)
            self.sign()

    def sign(self) -> None:
        """Issue the head again."""
        with self.changing:
            self.issued_at = _now()
            self.revision += 1

    def vouch(self, *signers: Ed25519PrivateKey, by: int = ROOT, **changes: Any) -> SignedDocument:
        """Publish a trust document that names these list signers, or the one that signs.

        The root of the number `by` signs it, and after a change of roots the one before too.
        """
        keys = {public(each) for each in signers or (self.feed.key,)}
        now, made = (
            _now(),
            roots.document(self.documents[-1].document.version + 1 if self.documents else 1),
        )
        made = replace(
            made,
            tenant_id=self.feed.tenant,
            issued_at=now,
            expires_at=now + timedelta(days=14),
            roots=roots.roots(by),
            signers=tuple(DocumentSigner(each, ("lists",)) for each in sorted(keys)),
            feed=FeedPosition(self.feed.sequence, self.feed.chain),
        )
        made = replace(made, **changes)
        part = signed_part(made.encode())
        signing = [signer(by)]
        if self.documents and self.documents[-1].document.roots != made.roots:
            signing.append(signer(self.root))
        self.root = by
        signatures = {public(each): each.sign(part) for each in signing}
        with self.changing:
            self.documents.append(SignedDocument(made.encode(), signatures, made))
            self.sign()
        return self.documents[-1]

    def publish_keys(self, *keys: PublishedKey) -> None:
        """Let the head name these signing keys."""
        blob = PublishedKeys(self.feed.tenant, tuple(keys)).encode()
        with self.changing:
            self.signing_keys = blob
            self.blobs[hashlib.sha256(blob).hexdigest()] = blob
            self.sign()

    def answer(self, path: str, headers: dict[str, str]) -> "Response":  # noqa: PLR0911
        """The response to a request."""
        self.asked.append((path, headers))
        if other := self.instead(path):
            return other
        url = urlsplit(path)
        if url.path.startswith("/v1/trust/keys/"):
            blob = self.blobs.get(url.path.rpartition("/")[2])
            return Response(b"no such keys", 404) if blob is None else Response(blob)
        query = parse_qs(url.query)
        if url.path == "/v1/trust":
            return Response(answer(documents_after(self.documents, after=int(query["after"][0]))))
        if url.path.startswith("/v1/revocations/feed/base/"):
            packed = gzip.compress(self.feed.payloads[int(url.path.rpartition("/")[2])])
            return Response(packed, headers={"Content-Encoding": "gzip"})
        if url.path.startswith("/v1/authorizers/"):
            if self.registry is None:
                return Response(b"no such endpoint", 404)
            return Response(json.dumps(self.registry).encode())
        return self._poll(query, headers)

    def _poll(self, query: dict[str, list[str]], headers: dict[str, str]) -> "Response":
        wait = min(int(query.get("wait", ["0"])[0]), self.max_wait_seconds)
        deadline = time.monotonic() + wait
        self.waiting += 1
        while headers.get("If-None-Match") == self.etag and time.monotonic() < deadline:
            if self.is_over:
                break
            time.sleep(0.005)
        self.waiting -= 1
        with self.changing:
            return self._found(query, headers)

    def _found(self, query: dict[str, list[str]], headers: dict[str, str]) -> "Response":
        """The response to a poll that does not wait any more."""
        terms = {"ETag": self.etag} | ({} if self.age is None else {"Age": self.age})
        if headers.get("If-None-Match") == self.etag:
            return Response(b"", 304, terms)
        after = int(query["after"][0]) if "after" in query else self.feed.base.sequence
        found = self.feed.answer(min(after, self.feed.base.sequence), **self.signed())
        document = json.loads(found.encode())
        document |= {"poll_seconds": self.poll_seconds, "max_wait_seconds": self.max_wait_seconds}
        return Response(json.dumps(document).encode(), headers=terms)

    def signed(self) -> dict[str, Any]:
        """What the head says beside the end of the feed."""
        return {
            "issued_at": self.issued_at,
            "expires_at": self.issued_at + self.lifetime,
            "trust": self.documents[-1].reference if self.documents else None,
            "keys": None if self.signing_keys is None else reference(self.signing_keys),
        }

    def head(self) -> SignedHead:
        """The head that is answered with."""
        return replace(self.feed.head(), **self.signed())

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
            # Without the header `Date`, which some responses have of their own.
            self.send_response_only(response.status)
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
