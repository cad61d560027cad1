"""HTTP/1.1 connections against a server that sends exactly the bytes of a script."""

import gzip
import socket
import ssl
import threading
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import pytest

from shared.authorizer import http1
from shared.authorizer.http1 import (
    CONNECT_SECONDS,
    ERROR_BYTES_MAX,
    Connection,
    ConnectionClosed,
    HttpError,
    Request,
    Response,
    ResponseTooLarge,
    connect,
    printable,
    wrap,
)
from tests.kit.receivers import certified, trusting
from tests.kit.waiting import soon

_OK: Final = b"HTTP/1.1 200 OK\r\n"
_SHORT: Final = _OK + b"Content-Length: 2\r\n\r\nhi"
_CHUNKED: Final = _OK + b"Transfer-Encoding: chunked\r\n\r\n"
_GZIP: Final = _OK + b"Content-Encoding: gzip\r\n"
_PATIENCE: Final = 30.0


@dataclass
class _Server:
    """Answers the nth request of each connection with the nth script. It closes after the last."""

    port: int
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    # Set when a test no longer needs an open connection.
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/feed?after=1"


_Script = Callable[[socket.socket], None] | bytes


@contextmanager
def _serving(*scripts: _Script) -> Iterator[_Server]:
    """Start a server. It reads one request before each script."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = _Server(listening.getsockname()[1])

        def accept() -> None:
            with suppress(OSError):
                while True:
                    sock, _ = listening.accept()
                    server.connections += 1
                    threading.Thread(target=serve, args=(sock,), daemon=True).start()

        def serve(sock: socket.socket) -> None:
            with suppress(OSError), sock:
                for script in scripts:
                    server.requests.append(_read_request(sock))
                    if isinstance(script, bytes):
                        sock.sendall(script)
                    else:
                        script(sock)

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield server
        finally:
            server.is_over.set()
            listening.shutdown(socket.SHUT_RDWR)


def _read_request(sock: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (block := sock.recv(2**16)):
            raise OSError
        data += block
    return data


def _opened(server: _Server) -> Connection:
    return connect(urlsplit(server.url), None, _soon())


def _soon(seconds: float = _PATIENCE) -> float:
    return time.monotonic() + seconds


def _exchange(
    *scripts: _Script, limit: int = 1000, prefix: bool = False, seconds: float = _PATIENCE
) -> Response:
    """Return the response of a server, which closes the connection after its scripts."""
    with _serving(*scripts) as server:
        connection = _opened(server)
        try:
            return connection.exchange(
                Request.parse(server.url), _soon(seconds), limit=limit, prefix=prefix
            )
        finally:
            connection.close()


@pytest.mark.parametrize("status", [100, 102, 103, 199])
def test_interim_responses_are_skipped(status: int) -> None:
    """F1601a: Interim responses are skipped, and their headers do not count (RFC 9110, 15.2)."""
    interim = b"HTTP/1.1 %d Interim\r\nAge: 99\r\nContent-Length: 5\r\n\r\n" % status
    assert _exchange(interim * 3 + _SHORT) == Response(200, {"content-length": "2"}, b"hi")


def test_endless_interim_responses_are_refused() -> None:
    """F1601b: More than 16 interim responses are an error."""
    interim = b"HTTP/1.1 102 Processing\r\n\r\n"
    with pytest.raises(HttpError, match="more than 16 interim responses"):
        _exchange(interim * 17 + _SHORT)


def test_repeated_fields_are_joined() -> None:
    """F1601c: A header that comes twice has both values, so that neither hides the other."""
    fields = b"Age: 1000\r\nX: \ta \r\nage:0\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n"
    headers = _exchange(_OK + fields).headers
    assert headers == {"age": "1000, 0", "x": "a", "content-length": "0"}


_INVALID: Final = {
    "two lengths": _OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi!",
    "a list of lengths": _OK + b"Content-Length: 2, 3\r\n\r\nhi!",
    "a negative length": _OK + b"Content-Length: -2\r\n\r\nhi",
    "a length with a sign": _OK + b"Content-Length: +2\r\n\r\nhi",
    "an unknown transfer coding": _OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a broken chunk": _CHUNKED + b"zz\r\nhi\r\n",
    "half a chunk": _CHUNKED + b"5\r\nhi",
    "a space before a colon": _OK + b"Age : 1\r\nContent-Length: 2\r\n\r\nhi",
    "a header that is none": _OK + b"FORGED\r\n\r\n",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length : 1\n\n1",
    "no HTTP": b"SSH-2.0-OpenSSH \x1b[2J\r\n",
    "no length": _OK + b"\r\nhi",
    "half a head": _OK,
    "half a body": _OK + b"Content-Length: 5\r\n\r\nhi",
    "nothing": b"",
    "another protocol": b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    "a long header": _OK + b"X: " + b"y" * 2**17 + b"\r\nContent-Length: 2\r\n\r\nhi",
    "many headers": _OK + b"X: y\r\n" * 2**15 + b"Content-Length: 2\r\n\r\nhi",
    "no gzip": _GZIP + b"Content-Length: 2\r\n\r\nhi",
    "half of gzip": _GZIP + b"Content-Length: 20\r\n\r\n" + gzip.compress(bytes(999))[:20],
    "more after gzip": _GZIP + b"Content-Length: 24\r\n\r\n" + gzip.compress(b"hi") + b"hi",
    "two content codings": _GZIP + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhi",
    "an unknown content coding": _OK + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\nhi",
    "chunks with a length": _OK
    + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", _INVALID)
def test_invalid_responses_are_refused(name: str) -> None:
    """F1601d: A response with ambiguous framing, or an incomplete one, is an error in one line."""
    with pytest.raises((HttpError, OSError)) as caught:
        _exchange(_INVALID[name])
    assert str(caught.value).isprintable()


def test_a_response_may_come_in_pieces() -> None:
    def send_in_pieces(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for each in _CHUNKED + b"1\r\nh\r\n1\r\ni\r\n0\r\n\r\n":
            sock.sendall(bytes([each]))

    assert _exchange(send_in_pieces).body == b"hi"


@pytest.mark.parametrize("body", [b"hi", b""])
def test_gzip_is_unpacked(body: bytes) -> None:
    packed = gzip.compress(body)
    response = _GZIP + b"Content-Length: %d\r\n\r\n" % len(packed) + packed
    assert _exchange(response).body == body


def test_an_empty_body_needs_no_gzip() -> None:
    assert _exchange(_GZIP + b"Content-Length: 0\r\n\r\n").body == b""


@pytest.mark.parametrize("status", [204, 304])
def test_a_response_without_a_body_needs_no_length(status: int) -> None:
    """F1913c: A 204 or 304 has no body, so neither its length nor its coding matters."""
    response = _exchange(b"HTTP/1.1 %d X\r\nContent-Encoding: br\r\n\r\n" % status)
    assert response.headers == {"content-encoding": "br"}


def test_a_body_has_a_limit() -> None:
    """F1601e: A body larger than its limit is refused, packed or not, without being kept."""
    exact = _OK + b"Content-Length: 1000\r\n\r\n" + bytes(1000)
    assert len(_exchange(exact).body) == 1000
    with pytest.raises(ResponseTooLarge):
        _exchange(_OK + b"Content-Length: 1001\r\n\r\n" + bytes(1001))
    bomb = gzip.compress(bytes(2**24))
    packed = _GZIP + b"Content-Length: %d\r\n\r\n" % len(bomb) + bomb
    tracemalloc.start()
    try:
        with pytest.raises(ResponseTooLarge):
            _exchange(packed)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_an_error_body_has_a_limit_of_its_own() -> None:
    """An error may be larger than the body that was requested, but it is bounded, too."""
    head = b"HTTP/1.1 503 X\r\nContent-Length: %d\r\n\r\n"
    assert len(_exchange(head % 2000 + bytes(2000)).body) == 2000
    size = ERROR_BYTES_MAX + 1
    with pytest.raises(ResponseTooLarge):
        _exchange(head % size + bytes(size))


@pytest.mark.parametrize(
    "rest",
    [b"x" * 2000, b"x" * 20, b"", b"x" * 5],
    ids=["too long", "as announced", "nothing", "cut off"],
)
def test_a_prefix_is_enough(rest: bytes) -> None:
    """With `prefix`, the beginning of a body counts, even if the rest is too long or fails."""
    head = b"HTTP/1.1 500 X\r\nContent-Length: %d\r\n\r\n" % max(len(rest), 20)
    assert _exchange(head + rest, limit=10, prefix=True).body == rest[:10]


def test_a_connection_is_kept() -> None:
    """F1601f: A connection is reused after a complete response, and after an interim one."""
    with _serving(b"HTTP/1.1 103 X\r\n\r\n" + _SHORT, _SHORT, _SHORT) as server:
        connection = _opened(server)
        for _ in range(3):
            assert connection.is_reusable()
            response = connection.exchange(Request.parse(server.url), _soon(), limit=9)
            assert response.body == b"hi"
        assert server.connections == 1
        soon(lambda: not connection.is_reusable())
        connection.close()
        assert not connection.is_reusable()


@pytest.mark.parametrize(
    "response",
    [
        _SHORT + b"HTTP/1.1 304 X\r\n\r\n",
        _SHORT + b"!",
        _OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    ],
)
def test_a_connection_with_other_bytes_is_closed(response: bytes) -> None:
    """F1601g: After a response with more bytes than its own, the connection is not reused."""
    with _serving(response, _SHORT) as server:
        connection = _opened(server)
        assert connection.exchange(Request.parse(server.url), _soon(), limit=9).body == b"hi"
        assert not connection.is_reusable()
        with pytest.raises(ConnectionClosed):
            connection.exchange(Request.parse(server.url), _soon(), limit=9)


def test_an_unexpected_response_is_noticed() -> None:
    """F1601h: A response that nobody requested makes the connection unusable."""
    is_read = threading.Event()

    def send_twice(sock: socket.socket) -> None:
        sock.sendall(_SHORT)
        is_read.wait(_PATIENCE)
        sock.sendall(_SHORT)
        server.is_over.wait(_PATIENCE)

    with _serving(send_twice) as server:
        connection = _opened(server)
        connection.exchange(Request.parse(server.url), _soon(), limit=9)
        assert connection.is_reusable()
        is_read.set()
        soon(lambda: not connection.is_reusable())
        connection.close()


def _reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


@pytest.mark.parametrize("how", [b"", _reset], ids=["closed", "reset"])
def test_a_kept_connection_that_was_closed_is_told_apart(how: _Script) -> None:
    """F1601i: A kept connection that the server closed has an error of its own.

    The request may be repeated then.
    """
    with _serving(_SHORT, how) as server:
        connection = _opened(server)
        connection.exchange(Request.parse(server.url), _soon(), limit=9)
        with pytest.raises(ConnectionClosed):
            connection.exchange(Request.parse(server.url), _soon(), limit=9)
        assert not connection.is_reusable()


@pytest.mark.parametrize("how", [b"", _reset], ids=["closed", "reset"])
def test_a_new_connection_that_is_closed_is_an_error(how: _Script) -> None:
    with pytest.raises((HttpError, OSError)) as caught:
        _exchange(how)
    assert not isinstance(caught.value, ConnectionClosed)


@pytest.mark.parametrize("beginning", [_OK, b"HTTP/1.1 102 X\r\n\r\n"])
def test_a_kept_connection_that_breaks_in_a_response_is_an_error(beginning: bytes) -> None:
    """A request that had an interim response was received, so it is not repeated either."""
    with _serving(_SHORT, beginning) as server:
        connection = _opened(server)
        connection.exchange(Request.parse(server.url), _soon(), limit=9)
        with pytest.raises(ConnectionResetError):
            connection.exchange(Request.parse(server.url), _soon(), limit=9)


@pytest.mark.parametrize("sent", [b"", _OK, _OK + b"Content-Length: 999\r\n\r\n", _CHUNKED])
def test_a_slow_response_ends_at_the_deadline(sent: bytes) -> None:
    """F1601j: A server that sends a byte now and then holds a request no longer than a deadline."""

    def drip(sock: socket.socket) -> None:
        sock.sendall(sent)
        while not server.is_over.wait(0.01):
            sock.sendall(b"1")

    with _serving(drip) as server:
        connection = _opened(server)
        with pytest.raises(TimeoutError):
            connection.exchange(Request.parse(server.url), _soon(0.2), limit=1000)
        assert not connection.is_reusable()


_KEY: Final = "svc_SECRETKEY"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer {_KEY}\n"},
        {"Authorization": f"Bearer {_KEY}\r\nX: y"},
        {"Authorization": f"Bearer {_KEY}ü€"},
        {f"Authorization {_KEY}": "x"},
    ],
)
def test_no_error_quotes_a_request(headers: dict[str, str]) -> None:
    """F1602a: No error about a request that cannot be sent has a part of its headers.

    Neither have the errors from which it arose.
    """
    with _serving(_SHORT) as server:
        connection = _opened(server)
        request = Request.parse(server.url, headers=headers)
        with pytest.raises(HttpError, match="cannot be sent") as caught:
            connection.exchange(request, _soon(), limit=9)
        error = caught.value
        assert error.__cause__ is None
        assert error.__context__ is None
        assert _KEY not in "".join(traceback.format_exception(error))
        assert _KEY not in repr(request)
        assert server.requests == []


@pytest.mark.parametrize(
    "response",
    [
        _OK + _KEY.encode() + b"\r\n\r\n",
        _OK + b"Content-Encoding: " + _KEY.encode() + b"\r\nContent-Length: 1\r\n\r\nx",
        _KEY.encode() + b"\r\n\r\n",
    ],
)
def test_no_error_quotes_a_response(response: bytes) -> None:
    """F1613d: No error quotes a response, because a peer can send back the credential."""
    with pytest.raises(HttpError) as caught:
        _exchange(response)
    assert _KEY.lower() not in str(caught.value).lower()


def test_a_request_is_sent_as_it_is() -> None:
    with _serving(_SHORT) as server:
        connection = _opened(server)
        request = Request.parse(server.url, method="POST", headers={"X-A": "b"}, body=b"hello")
        assert connection.exchange(request, _soon(), limit=9).body == b"hi"
        (sent,) = server.requests
        head, _, body = sent.partition(b"\r\n\r\n")
        assert head.split(b"\r\n") == [
            b"POST /feed?after=1 HTTP/1.1",
            b"Host: 127.0.0.1:%d" % server.port,
            b"X-A: b",
            b"Content-Length: 5",
        ]
        assert body in {b"", b"hello"}
        connection.close()


def test_a_header_of_a_response_can_be_sent_back() -> None:
    """F1613a: A header value with bytes above 127 is sent as the bytes that were received."""
    with _serving(_OK + b'ETag: "\xe9"\r\nContent-Length: 0\r\n\r\n', _SHORT) as server:
        connection = _opened(server)
        etag = connection.exchange(Request.parse(server.url), _soon(), limit=9).headers["etag"]
        request = Request.parse(server.url, headers={"If-None-Match": etag})
        assert connection.exchange(request, _soon(), limit=9).body == b"hi"
        assert b'If-None-Match: "\xe9"\r\n' in server.requests[1]
        connection.close()


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://bücher.example:81/", "xn--bcher-kva.example:81"),
        ("http://me@bücher.example/", "xn--bcher-kva.example"),
        ("http://[fe80::1%25lo]:81/", "[fe80::1]:81"),
        ("http://[fe80::1%lo]/", "[fe80::1]"),
    ],
)
def test_a_host_is_sent_in_ascii(url: str, host: str) -> None:
    """F1613b: `Host` has the name in ASCII, without the zone of an IPv6 address."""
    assert dict(Request.parse(url).head().headers)[b"host"] == host.encode()


@pytest.mark.parametrize(("count", "first", "last"), [(1, 3, 3), (2, 2.5, 2.5), (8, 1.6, 0.2)])
def test_each_address_has_a_part_of_the_time(
    monkeypatch: pytest.MonkeyPatch, count: int, first: float, last: float
) -> None:
    """F1613c, F1892a: Each address of a name has a part of the time, so the last one is reached.

    The first addresses have more of it, because a far server needs some.
    """
    tried: list[float] = []
    clock = time.monotonic()

    def connect_last(address: tuple[str, int], timeout: float) -> socket.socket:
        nonlocal clock
        tried.append(timeout)
        if address[0] == found[-1][4][0]:
            return socket.create_server(("127.0.0.1", 0))
        clock += timeout
        raise TimeoutError

    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"192.0.2.{n}", 80)) for n in range(count)
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "create_connection", connect_last)
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    connect(urlsplit("http://many.example/"), None, clock + 5).close()
    assert len(tried) == count
    assert tried[0] >= first
    assert tried[-1] >= last
    assert max(tried) <= CONNECT_SECONDS


def test_addresses_that_do_not_answer_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """F1892b: The error of the last address is raised if none answers."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))] * 2
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(OSError, match=r"refused|assign"):
        connect(urlsplit("http://many.example/"), None, _soon())


@pytest.mark.parametrize("url", ["ftp://a/", "http://", "a", "http://[::1", "http://a:99999/"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of `urllib` or of this module
        Request.parse(url)


def test_a_request_can_be_interrupted() -> None:
    """F1601k: Another thread can end a request that waits."""

    def wait(_: socket.socket) -> None:
        server.is_over.wait(_PATIENCE)

    with _serving(wait) as server:
        connection = _opened(server)

        def interrupt() -> None:
            soon(lambda: server.requests)
            connection.interrupt()

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises((HttpError, OSError)) as caught:
            connection.exchange(Request.parse(server.url), _soon(), limit=9)
        assert not isinstance(caught.value, TimeoutError)
        interrupting.join()
        connection.interrupt()


def test_an_abandoned_connection_stays_open() -> None:
    """A child process can forget a connection that its parent goes on using."""
    with _serving(_SHORT, _SHORT) as server:
        connection = _opened(server)
        connection.exchange(Request.parse(server.url), _soon(), limit=9)
        sock = connection._socket
        assert sock is not None
        kept = Connection(sock.dup())
        connection.abandon()
        connection.abandon()
        assert not connection.is_reusable()
        assert kept.exchange(Request.parse(server.url), _soon(), limit=9).body == b"hi"
        kept.close()


def test_tls_is_verified() -> None:
    """F1601l: Over TLS, the certificate and the name of the server are verified."""
    server_side, trusted = certified("localhost"), trusting("localhost")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(_PATIENCE)

        def serve() -> None:
            for _ in range(3):
                with suppress(OSError):
                    sock, _ = listening.accept()
                    with server_side.wrap_socket(sock, server_side=True) as secure:
                        _read_request(secure)
                        secure.sendall(_SHORT)

        threading.Thread(target=serve, daemon=True).start()
        url = urlsplit(f"https://localhost:{listening.getsockname()[1]}/")
        with pytest.raises(ssl.SSLCertVerificationError):
            connect(url, None, _soon())
        sock = socket.create_connection(("127.0.0.1", url.port or 0))
        with pytest.raises(ssl.SSLCertVerificationError):
            wrap(sock, trusted, "other.example", _soon())
        assert sock.fileno() == -1
        connection = connect(url, trusted, _soon())
        response = connection.exchange(Request(url), _soon(), limit=9)
        assert response.body == b"hi"
        connection.close()


def test_a_host_that_is_no_name_is_an_error() -> None:
    with pytest.raises(HttpError, match="host name"):
        connect(urlsplit("http://" + "a" * 64 + ".example/"), None, _soon())


def test_a_deadline_that_has_passed_is_an_error() -> None:
    with _serving(_SHORT) as server, pytest.raises(TimeoutError):
        connect(urlsplit(server.url), None, time.monotonic())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("all is well", "all is well"),
        ("a\r\nFORGED\x1b[2J\x00", r"a\r\nFORGED\x1b[2J\x00"),
        ("\x85\u2028\u202e\ufeff", r"\x85\u2028\u202e\ufeff"),
        ("é" * 300, "é" * 200),
        ("\ud800", r"\ud800"),
    ],
)
def test_text_of_a_peer_is_one_line(text: str, shown: str) -> None:
    """F1603a: Text of a peer is shown as one line of at most 200 characters, without escapes."""
    assert printable(text) == shown


def test_the_parts_of_a_response_that_a_caller_sees_are_its_own() -> None:
    assert http1.SHOWN_MAX == 200
