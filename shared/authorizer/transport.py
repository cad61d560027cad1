"""Requests to the service: bounded in time and in size, whatever it answers."""

import os
import socket
import ssl
import time
import weakref
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import ip_address
from typing import Any, Final, cast
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

from .answers import SHOWN_MAX, NoAnswer, Paced, Response, read_body, unexpected

# The most bytes of the answer to another request, such as an error; a part of it is shown.
_ERROR_MAX: Final = 64 * 1024

_CONNECT_SECONDS: Final = 3.0
_READ_SECONDS: Final = 5.0

# A base at least comes this fast, in bytes per second.
_BASE_RATE: Final = 256 * 1024
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REDIRECTS_MAX: Final = 3
_OK: Final = 200
_CREATED: Final = 201
_GOOD: Final = frozenset({_OK, _CREATED})


@cache
def _system_context() -> ssl.SSLContext:
    """Return a context that trusts the system's authorities. Loading them takes some 20 ms."""
    return ssl.create_default_context()


class Transport:
    """One kept connection to the service. It belongs to one thread of one process.

    `url` is the address of the service, `api_key` an API key of it. `context` verifies its
    certificate; by default the system's authorities do. Raises `ValueError` if the address is not
    one of HTTPS, unless it is on this machine or `allow_http` is set, and if `context` does not
    verify.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str,
        context: ssl.SSLContext | None = None,
        allow_http: bool = False,
    ) -> None:
        self._url = url.rstrip("/")
        _check_url(urlsplit(self._url), allow_http=allow_http)
        self._headers = {"Authorization": f"Bearer {api_key}", "Accept-Encoding": "gzip"}
        self._context = context or _system_context()
        if self._context.verify_mode != ssl.CERT_REQUIRED or not self._context.check_hostname:
            raise ValueError("the context must verify the certificate and the name of the service")
        self._kept: _Connection | None = None
        self._is_ended = False
        _transports.add(self)

    def get(
        self, path: str, *, limit: int, etag: str | None = None, seconds: float = 0.0
    ) -> Response:
        """Return the response to GET `path`, of at most `limit` bytes. Raises `NoAnswer`.

        With `etag`, the response may be 304. `seconds` is how long the service may wait before it
        answers. A redirect is not followed.
        """
        headers = self._headers | ({"If-None-Match": etag} if etag else {})
        return self._ask(self._url + path, headers, limit, seconds + 2 * _READ_SECONDS)

    def post(self, path: str, body: bytes, *, limit: int) -> Response:
        """Return the response to POST `path` of JSON, of at most `limit` bytes. Raises `NoAnswer`.

        It may be sent twice, so it must be a request whose repetition has no further effect.
        """
        headers = self._headers | {"Content-Type": "application/json"}
        return self._ask(self._url + path, headers, limit, 2 * _READ_SECONDS, body)

    def get_far(self, path: str, *, limit: int) -> bytes:
        """Return what is at `path`, or where it redirects to: at most `limit` bytes.

        The API key is not sent to the target of a redirect. Raises `NoAnswer`.
        """
        url, headers = self._url + path, self._headers
        for _ in range(_REDIRECTS_MAX + 1):
            answer = self._ask(url, headers, limit, 2 * _READ_SECONDS + limit / _BASE_RATE)
            if answer.status == _OK:
                return answer.body
            if answer.status not in _REDIRECTS:
                raise unexpected(answer)
            url, headers = _target(url, answer), {"Accept-Encoding": "gzip"}
        raise NoAnswer("the service redirects too often")

    def close(self) -> None:
        """Close the connection. The next request makes another."""
        if self._kept:
            self._kept.close()
        self._kept = None

    def interrupt(self) -> None:
        """End the request that another thread makes, and all later ones."""
        self._is_ended = True
        kept = self._kept
        if kept:
            kept.interrupt()

    def abandon(self) -> None:
        """Forget a connection that belongs to the parent process, which still uses it."""
        if self._kept:
            self._kept.abandon()
        self._kept = None

    def _ask(
        self,
        url: str,
        headers: Mapping[str, str],
        limit: int,
        seconds: float,
        body: bytes | None = None,
    ) -> Response:
        request = _Request(urlsplit(url), headers, limit, body)
        try:
            return self._ask_again(request, time.monotonic() + seconds)
        except NoAnswer:
            self.close()
            raise
        except (OSError, HTTPException, ValueError, zlib.error) as error:
            self.close()
            raise NoAnswer(f"{type(error).__name__}: {error}"[:SHOWN_MAX]) from None

    def _ask_again(self, request: "_Request", deadline: float) -> Response:
        """Ask once, or twice if the server has closed the kept connection meanwhile."""
        if self._kept and self._kept.is_for(request.url):
            with suppress(ConnectionError, ssl.SSLEOFError):
                return self._kept.ask(request, deadline)
        self.close()
        if self._is_ended:
            raise NoAnswer("the client was closed")
        self._kept = _Connection(request.url, self._context)
        return self._kept.ask(request, deadline)


@dataclass(frozen=True, slots=True)
class _Request:
    """A request: GET, or POST if it has a body. `limit` is for the response."""

    url: SplitResult
    headers: Mapping[str, str]
    limit: int
    body: bytes | None = None


class _Connection:
    """A connection to one server."""

    def __init__(self, url: SplitResult, context: ssl.SSLContext) -> None:
        self._place = (url.scheme, url.netloc)
        if url.hostname is None or url.scheme not in {"http", "https"}:
            raise ValueError("not an address of HTTP")
        self._http: HTTPConnection = (
            HTTPSConnection(url.hostname, url.port, timeout=_CONNECT_SECONDS, context=context)
            if url.scheme == "https"
            else HTTPConnection(url.hostname, url.port, timeout=_CONNECT_SECONDS)
        )

    def is_for(self, url: SplitResult) -> bool:
        return self._place == (url.scheme, url.netloc)

    def ask(self, request: _Request, deadline: float) -> Response:
        if self._http.sock is None:
            self._http.connect()
        self._http.sock.settimeout(_READ_SECONDS)
        # `HTTPResponse` asks its socket for a file, and for nothing else.
        self._http.response_class = cast(
            "type[HTTPResponse]",
            lambda sock, **options: HTTPResponse(cast("Any", Paced(sock, deadline)), **options),
        )
        method = "GET" if request.body is None else "POST"
        self._http.request(method, _path(request.url), request.body, dict(request.headers))
        with self._http.getresponse() as response:
            status = response.status
            body = read_body(response, request.limit if status in _GOOD else _ERROR_MAX)
            names = {name.lower(): value for name, value in response.getheaders()}
        return Response(status, names, body)

    def close(self) -> None:
        self._http.close()

    def interrupt(self) -> None:
        sock: socket.socket | None = self._http.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def abandon(self) -> None:
        sock: socket.socket | None = self._http.sock
        if sock is not None:
            # Without a word to the server: the parent goes on with this connection.
            os.close(sock.detach())
        self._http.sock = None


def _target(url: str, response: Response) -> str:
    """Return where a redirect leads. Raises `NoAnswer` if that is nowhere."""
    try:
        target = urljoin(url, response.headers.get("location", ""))
        scheme = urlsplit(target).scheme
    except ValueError as error:
        raise NoAnswer(f"the service redirects to no address: {error}") from None
    if scheme != "https" and url.startswith("https:"):
        raise NoAnswer("the service redirects to an address without TLS")
    return target


def _path(url: SplitResult) -> str:
    return urlunsplit(("", "", url.path or "/", url.query, ""))


def _check_url(url: SplitResult, *, allow_http: bool) -> None:
    if url.hostname is None or url.scheme not in {"http", "https"} or url.query or url.username:
        raise ValueError("the address of the service must be such as https://rescind.example.com")
    if url.scheme == "http" and not allow_http and not _is_here(url.hostname):
        raise ValueError(
            "without TLS everybody on the way reads the API key; use https, or set allow_http"
        )


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


_transports: "weakref.WeakSet[Transport]" = weakref.WeakSet()


def _after_fork() -> None:
    for transport in list(_transports):
        transport.abandon()


os.register_at_fork(after_in_child=_after_fork)
