"""Requests to the service, with limits on time and size."""

import math
import os
import re
import ssl
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from random import SystemRandom
from typing import Final
from urllib.parse import SplitResult

from . import http1
from .answers import NoResponse, Response, TooLarge, unexpected_status_error
from .http1 import Connection, ConnectionClosed, HttpError, Request, ResponseTooLarge, printable
from .view import NEVER, ClockReading

_READ_SECONDS: Final = 5.0

# Minimum rate for the transfer of a base, in bytes per second.
_BASE_RATE: Final = 256 * 1024

# Maximum age of a connection in seconds, because the address may change.
_CONNECTION_SECONDS: Final = 600.0

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_REDIRECTS_MAX: Final = 3
_OK: Final = 200

_ADDRESS: Final = re.compile("[!-~]+")

_random: Final = SystemRandom()
_now: Final = time.monotonic


@cache
def _system_context() -> ssl.SSLContext:
    """Return a context that trusts the system's authorities. Loading them takes about 20 ms."""
    return ssl.create_default_context()


class Transport:
    """One kept connection to the service. It belongs to one thread of one process.

    `asked` is the time of the last request, or of its repetition. `url` is the address of the
    service. `api_key` is an API key of the service. White space around it is removed. `context`
    verifies the certificate, by default with the system's authorities. Raises `ValueError` unless
    the address uses HTTPS, is on this machine, or `allow_http` is set. Raises `ValueError` if
    `context` does not verify certificates, and for a malformed API key, which the error does not
    quote.
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
        _check_url(self._url, allow_http=allow_http)
        self._key = http1.parse_api_key(api_key)
        self._headers = {"Authorization": f"Bearer {self._key}", "Accept-Encoding": "gzip"}
        self._context = context or _system_context()
        if self._context.verify_mode != ssl.CERT_REQUIRED or not self._context.check_hostname:
            raise ValueError("the context must verify the certificate and the name of the service")
        self._connection: Connection | None = None
        self._origin: tuple[str, ...] = ()
        self._expires_at = 0.0
        self._is_closed = False
        self.asked = NEVER
        _transports.add(self)

    def get(
        self,
        path: str,
        *,
        limit: int,
        etag: str | None = None,
        seconds: float = 0.0,
        patience: float = math.inf,
    ) -> Response:
        """Return the response to GET `path`, of at most `limit` bytes. Raises `NoResponse`.

        With `etag`, the response may be 304. `seconds` is how long the service may delay the
        response. The response must then end within `patience` seconds, and within 10 seconds in any
        case. Redirects are not followed.
        """
        headers = self._headers | ({"If-None-Match": etag} if etag else {})
        seconds += min(2 * _READ_SECONDS, patience)
        return self._request(self._url + path, headers, limit, seconds)

    def post(self, path: str, body: bytes, *, limit: int) -> Response:
        """Return the response to a JSON POST of `path`, of at most `limit` bytes.

        The request may be sent twice, so it must be idempotent. Raises `NoResponse`.
        """
        headers = self._headers | {"Content-Type": "application/json"}
        return self._request(self._url + path, headers, limit, 2 * _READ_SECONDS, body)

    def get_far(self, path: str, *, limit: int) -> bytes:
        """Return the content at `path` or at its redirect target, at most `limit` bytes.

        The API key is not sent to the target of a redirect. Raises `NoResponse`.
        """
        url, headers = self._url + path, self._headers
        for _ in range(_REDIRECTS_MAX + 1):
            response = self._request(url, headers, limit, 2 * _READ_SECONDS + limit / _BASE_RATE)
            if response.status == _OK:
                return response.body
            if response.status not in _REDIRECTS:
                raise unexpected_status_error(response)
            try:
                url, headers = http1.redirect_target(url, response), {"Accept-Encoding": "gzip"}
            except HttpError as error:
                raise NoResponse(str(error)) from None
        raise NoResponse("the service redirects too often")

    def close(self) -> None:
        """Close the connection. The next request opens another."""
        if self._connection:
            self._connection.close()
        self._connection = None

    def interrupt(self) -> None:
        """Abort the request in progress in a different thread, and all later ones."""
        self._is_closed = True
        connection = self._connection
        if connection:
            connection.interrupt()

    def abandon(self) -> None:
        """Drop a connection that the parent process still uses."""
        if self._connection:
            self._connection.abandon()
        self._connection = None

    def _request(
        self,
        url: str,
        headers: Mapping[str, str],
        limit: int,
        seconds: float,
        body: bytes | None = None,
    ) -> Response:
        method = "GET" if body is None else "POST"
        try:
            request = Request.parse(url, method=method, headers=headers, body=body)
            response = self._exchange(request, limit, time.monotonic() + seconds)
        except ResponseTooLarge as error:
            self.close()
            raise TooLarge(str(error)) from None
        except (OSError, HttpError, ValueError) as error:
            self.close()
            message = f"{type(error).__name__}: {error}".replace(self._key, "…")
            raise NoResponse(printable(message)) from None
        if response.status == _OK:
            return response
        # Errors quote this body, and a peer can echo the API key in it.
        return replace(response, body=response.body.replace(self._key.encode(), "…".encode()))

    def _exchange(self, request: Request, limit: int, deadline: float) -> Response:
        """Send a request. Repeat it if the server had closed the kept connection."""
        is_current = self._origin == request.url[:2] and _now() < self._expires_at
        if self._connection and is_current and self._connection.is_reusable():
            self.asked = ClockReading.now()
            with suppress(ConnectionClosed):
                return self._connection.exchange(request, deadline, limit=limit)
        self.close()
        self._check_open()
        connect_deadline = min(deadline, time.monotonic() + _READ_SECONDS)
        self._connection = http1.connect(request.url, self._context, connect_deadline)
        self._origin = request.url[:2]
        self._expires_at = _now() + _CONNECTION_SECONDS * _random.uniform(0.5, 1)
        # The client may have been closed while this connected.
        self._check_open()
        self.asked = ClockReading.now()
        return self._connection.exchange(request, deadline, limit=limit)

    def _check_open(self) -> None:
        if self._is_closed:
            self.close()
            raise NoResponse("the client was closed")


def _check_url(text: str, *, allow_http: bool) -> None:
    try:
        url = Request.parse(text).url
    except ValueError:
        url = SplitResult("", "", "", "", "")
    if not url.hostname or not _ADDRESS.fullmatch(url.path or "/") or set(text) & set("?#@"):
        raise ValueError(
            "the address of the service must be a URL such as https://rescind.example.com"
        )
    if url.scheme == "http" and not allow_http and not http1.is_here(url.hostname):
        raise ValueError(
            "without TLS, anyone on the network path can read the API key: use https, or set "
            "allow_http"
        )


_transports: "weakref.WeakSet[Transport]" = weakref.WeakSet()


def abandon_all() -> None:
    """Drop all connections in a child process, because they belong to the parent."""
    for transport in list(_transports):
        transport.abandon()


os.register_at_fork(after_in_child=abandon_all)
