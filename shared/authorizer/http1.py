"""HTTP/1.1 requests with limits on time and size that the server cannot exceed.

h11 parses: it skips interim responses (RFC 9110, 15.2) and refuses ambiguous framing (RFC 9112, 6).
This module adds sockets, deadlines and limits. Errors never quote sent data, because a request
contains a credential. Deadlines are seconds of `time.monotonic`.
"""

import io
import os
import re
import select
import socket
import ssl
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import SplitResult, urljoin, urlsplit, urlunsplit

import h11

CONNECT_SECONDS: Final = 3.0
# Maximum size of an error body. Callers show a part of it.
ERROR_BYTES_MAX: Final = 64 * 1024

_BLOCK: Final = 64 * 1024
_HEAD_MAX: Final = 64 * 1024
_INTERIM_MAX: Final = 16
_GZIP: Final = 16 + zlib.MAX_WBITS
_WITHOUT_BODY: Final = frozenset({204, 304})
_FRAMING: Final = frozenset({"content-length", "transfer-encoding"})
_ZONE: Final = re.compile("%[^]]*(?=])")
_PORTS: Final = {"http": 80, "https": 443}
_SUCCESS: Final = range(200, 300)
_SERVER_ERROR: Final = 500
_SECONDS: Final = re.compile("[0-9]+")
_API_KEY: Final = re.compile("[!-~]+")
_BYTE_ORDER_MARK: Final = "\ufeff"

SHOWN_MAX: Final = 200


class HttpError(Exception):
    """The exchange failed: the response is not valid HTTP, or exceeds a limit."""


class ResponseTooLarge(HttpError):
    """The body exceeds the limit. The rest was not read."""


class ConnectionClosed(HttpError):
    """The server closed a kept connection before it responded. The request can be sent again."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `target` replaces the path of `url` in the request line, as proxies require.

    With `until_close`, the end of the connection may end the response (RFC 9112, 6.3). A truncated
    response then appears complete. Use it only for bodies that reveal truncation: JSON objects and
    signatures. The CLI also uses it for other bodies, for example CSV. For the feed, a new
    connection per response would be slow.
    """

    url: SplitResult
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    target: str | None = None
    until_close: bool = False

    @classmethod
    def parse(
        cls,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> "Request":
        """Return a request to `url`. Raises `ValueError` unless it is an http or https URL."""
        parts = to_ascii(urlsplit(url))
        port_of(parts)
        return cls(parts, method, headers or {}, body)

    def head(self) -> h11.Request:
        """Return the request line and the headers."""
        length = {} if self.body is None else {"Content-Length": str(len(self.body))}
        path = urlunsplit(("", "", self.url.path or "/", self.url.query, ""))
        fields = {"Host": authority_of(self.url), **self.headers, **length}
        return h11.Request(
            method=self.method,
            target=self.target or path,
            # `Response.headers` are decoded from Latin-1, so this returns a tag as the received
            # bytes.
            headers=[(name.encode(), value.encode("latin-1")) for name, value in fields.items()],
        )


@dataclass(frozen=True, slots=True)
class Response:
    """A final response. Header names are in lower case. Repeated fields are joined by commas."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class Connection:
    """One connection to one server, on a connected socket. It belongs to one thread."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket: socket.socket | None = sock
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_MAX)
        self._is_kept = False

    def exchange(
        self,
        request: Request,
        deadline: float,
        *,
        limit: int,
        prefix: bool = False,
        head_deadline: float | None = None,
    ) -> Response:
        """Send `request` and return the final response, with a body of at most `limit` bytes.

        An error body may have `ERROR_BYTES_MAX` bytes. With `prefix`, return the first `limit`
        bytes of the body, even if the rest is longer or fails. The connection is kept if the server
        permits it and sent no other data. Otherwise it is closed. `head_deadline` is an earlier
        deadline for the response head.

        Raises `HttpError` or `OSError`, or `ConnectionClosed` if the server had closed a kept
        connection.
        """
        with self._close_on_failure():
            head = self._send(request, min(deadline, head_deadline or deadline))
            is_framed = head.status in _WITHOUT_BODY or head.headers.keys() & _FRAMING
            if not (prefix or request.until_close or request.method == "HEAD" or is_framed):
                raise HttpError("the response does not state its length")
            body = self._read_body(head, limit, deadline, prefix=prefix)
            states = {self._state.our_state, self._state.their_state}
            if states == {h11.DONE} and not self._state.trailing_data[0]:
                self._state.start_next_cycle()
                self._is_kept = True
            else:
                self.close()
        return Response(head.status, head.headers, body)

    def open_tunnel(self, request: Request, deadline: float) -> socket.socket:
        """Send a CONNECT request to a proxy, and return the tunnel's socket.

        Raises `HttpError` or `OSError`.
        """
        with self._close_on_failure():
            head = self._send(request, deadline)
            if head.status not in _SUCCESS:
                raise HttpError(f"the proxy refuses the tunnel with status {head.status}")
            if self._state.trailing_data[0]:
                raise HttpError("the proxy sent data before the server")
            sock, self._socket = self._require_socket(), None
            return sock

    def is_reusable(self) -> bool:
        """Return whether another request can be sent on this connection.

        That requires an open connection without unread data.
        """
        if self._socket is None:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def interrupt(self) -> None:
        """Abort the exchange that runs in a different thread."""
        sock = self._socket
        if sock is not None:
            with suppress(OSError):
                # The method of a TLS socket would make the other thread continue in plain text.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def abandon(self) -> None:
        """Drop a connection that the parent process still uses, without notifying the peer."""
        if self._socket is not None:
            os.close(self._socket.detach())
        self._socket = None

    def _require_socket(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionClosed("the connection is closed")
        return self._socket

    @contextmanager
    def _close_on_failure(self) -> Iterator[None]:
        try:
            yield
        except h11.RemoteProtocolError:
            self.close()
            # The error of h11 quotes the line, and a peer can echo the credential in it.
            raise HttpError("the response is not valid HTTP") from None
        except BaseException:
            self.close()
            raise

    def _encode(self, request: Request) -> bytes:
        with suppress(h11.LocalProtocolError, UnicodeError):
            events = [request.head(), h11.Data(data=request.body or b""), h11.EndOfMessage()]
            return b"".join(self._state.send(each) or b"" for each in events)
        # Raised outside the handler, because the error of h11 quotes the header with the
        # credential.
        raise HttpError("the request cannot be sent as HTTP")

    def _send(self, request: Request, deadline: float) -> Response:
        """Send the request, and return the response without its body."""
        sock, data = self._require_socket(), memoryview(self._encode(request))
        try:
            while data:
                sock.settimeout(_remaining(deadline))
                data = data[sock.send(data) :]
        except (ConnectionError, ssl.SSLEOFError) as error:
            # A server may respond and close before it has read the whole request.
            if self._is_kept:
                raise ConnectionClosed("the server closed the connection") from error
        for number in range(_INTERIM_MAX + 1):
            try:
                event = self._next_event(deadline)
            except (ConnectionError, ssl.SSLEOFError) as error:
                if self._is_kept and not number and not self._state.trailing_data[0]:
                    raise ConnectionClosed("the server closed the connection") from error
                raise
            if isinstance(event, h11.Response):
                # Repeated fields are joined by commas (RFC 9110, 5.3).
                headers: dict[str, str] = {}
                for raw, encoded in event.headers:
                    name, value = raw.decode("ascii"), encoded.decode("latin-1")
                    headers[name] = f"{headers[name]}, {value}" if name in headers else value
                if headers.keys() >= _FRAMING:
                    raise HttpError("the response has both Content-Length and Transfer-Encoding")
                return Response(event.status_code, headers)
        raise HttpError(f"the server sent more than {_INTERIM_MAX} interim responses")

    def _read_body(self, head: Response, limit: int, deadline: float, *, prefix: bool) -> bytes:
        size_max = limit if head.status in _SUCCESS or prefix else ERROR_BYTES_MAX
        # `getvalue` of a `BytesIO` does not copy. A base can have hundreds of megabytes.
        body = io.BytesIO()
        try:
            for block in self._decode(head, size_max + 1, deadline):
                body.write(block)
                if body.tell() > size_max:
                    raise ResponseTooLarge(f"the response has more than {size_max} bytes")
        except (HttpError, OSError, zlib.error, h11.RemoteProtocolError):
            if not prefix:
                raise
            self.close()
            body.truncate(size_max)
        return body.getvalue()

    def _decode(self, head: Response, most: int, deadline: float) -> Iterator[bytes]:
        """Yield the decoded body, at most `most` bytes for each block read."""
        coding = head.headers.get("content-encoding", "").strip().lower()
        decompressor = zlib.decompressobj(_GZIP) if coding == "gzip" else None
        is_empty = True
        while isinstance(event := self._next_event(deadline), h11.Data):
            is_empty = False
            if coding not in {"gzip", "identity", ""}:
                raise HttpError("the response has a content coding that was not requested")
            try:
                yield (
                    decompressor.decompress(event.data, most) if decompressor else bytes(event.data)
                )
            except zlib.error as error:
                raise HttpError(f"the response is not valid gzip: {error}") from None
            if decompressor and decompressor.unused_data:
                raise HttpError("the response continues after its gzip stream")
        if not isinstance(event, h11.EndOfMessage) or (
            decompressor and not decompressor.eof and not is_empty
        ):
            raise HttpError("the response ended early")

    def _next_event(self, deadline: float) -> Any:
        while (event := self._state.next_event()) is h11.NEED_DATA:
            sock = self._require_socket()
            sock.settimeout(_remaining(deadline))
            block = sock.recv(_BLOCK)
            if not block and self._state.their_state is h11.SEND_RESPONSE:
                raise ConnectionResetError("the server closed the connection")
            self._state.receive_data(block)
        return event


class Pool:
    """Connection pool for one server. Threads may share it, but processes must not.

    `connect` creates the connections. A connection is closed after a server error, because a new
    one may lead to another server.
    """

    def __init__(self, connect: Callable[[float], Connection]) -> None:
        self._connect = connect
        self._idle: deque[Connection] = deque()

    def exchange(
        self,
        request: Request,
        deadline: float,
        *,
        limit: int,
        head_deadline: float | None = None,
    ) -> Response:
        """Send a request on a kept or new connection. See `Connection.exchange`."""

        def exchange(connection: Connection) -> Response:
            response = connection.exchange(
                request, deadline, limit=limit, head_deadline=head_deadline
            )
            if response.status < _SERVER_ERROR:
                self._idle.append(connection)
            else:
                connection.close()
            return response

        with suppress(IndexError, ConnectionClosed):
            while True:
                connection = self._idle.pop()
                if connection.is_reusable():
                    return exchange(connection)
                connection.close()
        return exchange(self._connect(deadline))

    def close(self) -> None:
        """Close the kept connections."""
        while self._idle:
            self._idle.pop().close()

    def __del__(self) -> None:
        self.close()


def connect(
    url: SplitResult,
    context: ssl.SSLContext | None,
    deadline: float,
    *,
    seconds: float = CONNECT_SECONDS,
) -> Connection:
    """Connect to the server of `url`, over TLS with `context` if its scheme is https.

    `seconds` bounds the attempt to connect to one address. The resolver has no time limit.

    Raises `HttpError` or `OSError`, or `ValueError` if the URL has another scheme or no host.
    """
    host, port = url.hostname or "", port_of(url)
    try:
        addresses = resolve(host, port)
    except UnicodeError:
        raise HttpError("the host name is not valid") from None
    sock = open_socket(addresses, port, deadline, seconds=seconds)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if url.scheme == "http":
        return Connection(sock)
    return Connection(wrap(sock, context or ssl.create_default_context(), host, deadline))


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, in the order of preference. Raises `OSError`."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in infos))


def open_socket(
    addresses: Sequence[str], port: int, deadline: float, *, seconds: float = CONNECT_SECONDS
) -> socket.socket:
    """Connect to the first address that responds in time. Raises `OSError`.

    Each attempt lasts at most `seconds`. The last three addresses share the remaining time equally.
    Each earlier address gets a third of the remaining time, because equal shares among many
    addresses would be too short for a distant server.
    """
    failure = OSError("the name has no address")
    for remaining in range(len(addresses), 0, -1):
        try:
            seconds_left = min(_remaining(deadline) / min(remaining, 3), seconds)
            return socket.create_connection((addresses[-remaining], port), seconds_left)
        except OSError as error:
            failure = error
    raise failure


def wrap(sock: socket.socket, context: ssl.SSLContext, host: str, deadline: float) -> ssl.SSLSocket:
    """Return `sock` with TLS to `host`. Close it on failure. Raises `OSError`."""
    try:
        # The timeout of a socket bounds the whole handshake, even if the peer sends single bytes
        # slowly.
        sock.settimeout(_remaining(deadline))
        return context.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise


def port_of(url: SplitResult) -> int:
    """Return the port of an http or https URL. Raises `ValueError` for other URLs."""
    if not url.hostname or url.scheme not in _PORTS:
        raise ValueError("the address is not an http or https URL with a host")
    return url.port or _PORTS[url.scheme]


def to_ascii(url: SplitResult) -> SplitResult:
    """Return a URL with its host in ASCII, as DNS and `Host` require. Raises `ValueError`."""
    if url.netloc.isascii():
        return url
    host = (url.hostname or "").encode("idna").decode()
    return url._replace(netloc=f"{host}:{url.port}" if url.port else host)


def authority_of(url: SplitResult) -> str:
    """Return the host and port of a URL, without user information or address zone."""
    return _ZONE.sub("", url.netloc.rpartition("@")[2])


def is_here(host: str) -> bool:
    """Return whether a host is this machine: `localhost`, or a loopback address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def parse_api_key(text: str) -> str:
    """Return an API key without surrounding white space.

    Raises `ValueError`, which does not quote the text.
    """
    key = text.strip().strip(_BYTE_ORDER_MARK).strip()
    if not _API_KEY.fullmatch(key):
        raise ValueError(
            "the API key is empty or contains an invalid character: pass the key that "
            "`rescind api-keys create` printed"
        )
    return key


def redirect_target(url: str, response: Response) -> str:
    """Return the target of a redirect of `url`. Raises `HttpError` if the target is not safe."""
    try:
        target = urljoin(url, response.headers.get("location", ""))
        scheme = urlsplit(target).scheme
    except ValueError:
        raise HttpError("the redirect leads to no address") from None
    if url.startswith("https:") and scheme != "https":
        raise HttpError("the redirect leads to an address without TLS")
    return target


def retry_after(response: Response) -> float | None:
    """Return the seconds of `Retry-After`, or None if it is absent or not a number."""
    after = response.headers.get("retry-after", "").strip(" \t")
    return float(after) if _SECONDS.fullmatch(after) else None


def printable(text: str, *, most: int | None = SHOWN_MAX, breaks: bool = False) -> str:
    """Return text of a peer with escapes for characters that could move a cursor or hide text.

    The text after `most` characters is omitted. With `breaks`, line feeds are kept.
    """
    kept = "\n" if breaks else ""
    return "".join(
        each if each.isprintable() or each in kept else each.encode("unicode_escape").decode()
        for each in text[:most]
    )


def _remaining(deadline: float) -> float:
    seconds_left = deadline - time.monotonic()
    if seconds_left <= 0:
        raise TimeoutError("the response took too long")
    return seconds_left
