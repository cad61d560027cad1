"""An honest feed on a raw socket, behind the rules of one case."""

import gzip
import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.authorizer.service import Response, Service
from tests.hostile.cases import FEED, Case, Rule

_NO_BODY: Final = frozenset({204, 304})
_BOMB_BYTES: Final = 64 * 2**20
_STEP_BYTES: Final = 7


@dataclass(frozen=True)
class _Cached:
    response: Response
    at: float


class HostileServer:
    """Serves one case on a port of loopback. Rules count from `begin`."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._service = Service(poll_seconds=1.0, max_wait_seconds=case.max_wait_seconds, age="0")
        self._service.revoke("svc_wrt_old")
        self._service.vouch()
        self.begun_at: float | None = None
        self.revoked_at: float | None = None
        self.polls: list[float] = []
        self.faults: set[str] = set()
        self._is_closed = False
        self._hits: dict[Rule, int] = {}
        self._cached: dict[str, _Cached] = {}
        self._changed = threading.Condition()
        self._sockets = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(2)]
        self.url, self._elsewhere = (
            f"http://127.0.0.1:{each.getsockname()[1]}" for each in self._sockets
        )
        for sock, serve in zip(self._sockets, (self._serve, self._serve_elsewhere), strict=True):
            threading.Thread(target=self._accept, args=(sock, serve), daemon=True).start()

    def begin(self) -> None:
        """Start the clock of the rules."""
        with self._changed:
            self.begun_at = time.monotonic()

    def revoke(self) -> None:
        """Revoke a warrant. The revocation is acknowledged when this returns."""
        with self._changed:
            self._service.revoke("svc_wrt_x")
            self._changed.notify_all()
        self.revoked_at = time.monotonic()

    def close(self) -> None:
        """Stop accepting connections, and end all long polls."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
        while True:
            try:
                sock, _ = listening.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        opened = self._elapsed()
        with suppress(OSError, ValueError), sock, sock.makefile("rb") as file:
            while line := file.readline():
                _, path, _ = line.decode("latin1").split(" ", 2)
                headers = {}
                while text := file.readline().strip().decode("latin1"):
                    name, _, value = text.partition(":")
                    headers[name.strip().title()] = value.strip()
                file.read(int(headers.get("Content-Length", "0")))
                if headers.get("Authorization") != f"Bearer {self._case.key_sent}":
                    self.faults.add("sent another API key")
                if not self._respond(sock, path, headers, opened):
                    return

    def _serve_elsewhere(self, sock: socket.socket) -> None:
        """Serve the target of redirects to another origin. It must not receive the API key."""
        with suppress(OSError), sock:
            if b"authorization" in sock.recv(2**16).lower():
                self.faults.add("sent the API key to the target of a redirect")
            body = b"<html>elsewhere</html>"
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def _elapsed(self) -> float:
        """Return the seconds since `begin`; 0 before."""
        return 0.0 if self.begun_at is None else time.monotonic() - self.begun_at

    def _respond(
        self, sock: socket.socket, path: str, headers: dict[str, str], opened: float
    ) -> bool:
        """Send the response to one request. Return whether the connection stays open."""
        rule = self._count(path, opened) or Rule()
        for name in rule.request_drop:
            headers.pop(name, None)
        data = b""
        for step in rule.send * rule.repeat:
            if isinstance(step, float | int):
                time.sleep(step)
            elif step in {"<close>", "<reset>"}:
                if step == "<reset>":
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            elif not step.startswith("<"):
                sock.sendall(step.encode("latin1"))
            else:
                data = data or self._render(rule, self._response(rule, path, headers))
                _send(sock, data, step)
        return True

    def _count(self, path: str, opened: float) -> Rule | None:
        """Return the first rule that applies to this request on a connection opened then."""
        with self._changed:
            if urlsplit(path).path == FEED:
                self.polls.append(time.monotonic())
            at = self._elapsed()
            for rule in self._case.rule:
                is_early = self.begun_at is None and rule.after > 0
                is_other = opened > rule.opened or not _matches(rule.path, path)
                if is_early or is_other or not rule.after <= at < rule.until:
                    continue
                hits = self._hits[rule] = self._hits.get(rule, 0) + 1
                if hits % rule.every == 0 and rule.nth in {0, hits}:
                    return rule
        return None

    def _response(self, rule: Rule, path: str, headers: dict[str, str]) -> Response:
        if rule.status:
            return Response(rule.body.encode(), rule.status)
        if rule.cache:
            return self._from_cache(rule, path, headers)
        return self._honest(path, headers, rule)

    def _from_cache(self, rule: Rule, path: str, headers: dict[str, str]) -> Response:
        """Return what a cache between client and service would, with the right `Age`."""
        now, key = time.monotonic(), urlsplit(path).path
        with self._changed:
            cached = self._cached.get(key)
        if cached is None or now - cached.at > rule.cache:
            without = {k: v for k, v in headers.items() if k != "If-None-Match"}
            cached = _Cached(self._honest(key, without, rule), now)
            with self._changed:
                self._cached[key] = cached
        found = cached.response
        age = {"Age": str(int(found.headers.get("Age", "0")) + int(now - cached.at + 1))}
        if headers.get("If-None-Match") == found.headers.get("ETag", ""):
            return Response(b"", 304, found.headers | age)
        return replace(found, headers=found.headers | age)

    def _honest(self, path: str, headers: dict[str, str], rule: Rule) -> Response:
        """Return the response of the service, or 504 if the proxy does not wait that long."""
        url = urlsplit(path)
        query = dict(parse_qsl(url.query))
        wait = min(
            float(query.pop("wait", "0")), self._case.max_wait_seconds, rule.max_wait_seconds
        )
        etag = headers.get("If-None-Match")
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or etag != self._service.etag, min(wait, rule.timeout)
            )
            if wait > rule.timeout and etag == self._service.etag:
                return Response(b"<html>gateway timeout</html>", 504)
            return self._service.answer(url._replace(query=urlencode(query)).geturl(), headers)

    def _render(self, rule: Rule, response: Response) -> bytes:
        """Return the bytes of a response, changed by a rule."""
        body = _encode(rule.coding, response.body)
        headers = list(response.headers.items())
        if rule.coding:
            headers.append(("Content-Encoding", rule.coding.partition("-")[0]))
        if response.status not in _NO_BODY or rule.body:
            headers.append(("Content-Length", str(len(body))))
        headers = [each for each in headers if each[0] not in rule.drop]
        for name, pattern, new in rule.change:
            headers = [(k, re.sub(pattern, new, v) if k == name else v) for k, v in headers]
        headers += [
            (name, value.replace("{elsewhere}", self._elsewhere)) for name, value in rule.add
        ]
        if rule.padding:
            headers.append(("X-Padding", "y" * rule.padding))
        if rule.chunked:
            body = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
            body = body if rule.chunked == "valid" else b"zz" + body
            headers.append(("Transfer-Encoding", "chunked"))
        lines = [f"HTTP/1.1 {response.status} Status", *(f"{k}: {v}" for k, v in headers), "", ""]
        return rule.line.join(lines).encode("utf-8", "surrogateescape") + body


def _matches(wanted: str, path: str) -> bool:
    """Return whether a rule for this path applies. One that ends with a slash is a prefix."""
    return path.startswith(wanted) if wanted.endswith("/") else urlsplit(path).path == wanted


def _encode(coding: str, body: bytes) -> bytes:
    """Return a body in a content coding, which may be damaged."""
    if not coding.startswith("gzip"):
        return body
    packed = gzip.compress(bytes(_BOMB_BYTES) if coding == "gzip-bomb" else body)
    return {"gzip-truncated": packed[:-9], "gzip-trailing": packed + b"more"}.get(coding, packed)


def _send(sock: socket.socket, data: bytes, step: str) -> None:
    """Send a response: whole, in pieces, or a part of it."""
    match step:
        case "<response in pieces>":
            for at in range(0, len(data), _STEP_BYTES):
                sock.sendall(data[at : at + _STEP_BYTES])
        case "<half of the response>":
            sock.sendall(data[: len(data) // 2])
        case "<response>":
            sock.sendall(data)
        case _:
            raise AssertionError(step)
