"""The transport of the client, and servers that are slow, broken, or lie.

tests/authorizer/test_http1.py has more responses that are malformed, cut, slow or too large.
"""

import gzip
import json
import socket
import ssl
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from shared.authorizer import PollPolicy, transport
from shared.authorizer.answers import NoResponse, TooLarge
from shared.authorizer.answers import Response as Received
from shared.authorizer.events import Event, PollFailed, ResponseRejected
from shared.authorizer.follower import FeedFollower
from shared.authorizer.formats import wire
from shared.authorizer.formats.following import TrustState
from shared.authorizer.saved_state import MemoryStateStore, StateStore
from shared.authorizer.transport import Transport
from tests.authorizer.feeds import TENANT, Feed, signer
from tests.authorizer.service import KEY, PIN, Response, Service, serving
from tests.kit.receivers import certified, trusting
from tests.kit.waiting import soon

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextmanager
def scripted(script: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that runs `script` on each connection, after it has read a request."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=talk, args=(connection,), daemon=True).start()

        def talk(connection: socket.socket) -> None:
            with connection, suppress(OSError):
                connection.recv(65536)
                script(connection)

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        # Wakes the thread that accepts.
        server.shutdown(socket.SHUT_RDWR)


def sends(*parts: bytes) -> Callable[[socket.socket], None]:
    def script(connection: socket.socket) -> None:
        for part in parts:
            connection.sendall(part)

    return script


def always(response: Response, *, at: str = "") -> Callable[[str], Response | None]:
    """The answer to each request of a path that ends so."""
    return lambda path: response if path.partition("?")[0].endswith(at) else None


def _drips(connection: socket.socket) -> None:
    """Send a body without an end, one byte after another."""
    connection.sendall(_HEAD + b"Content-Length: 1000000\r\n\r\n")
    while True:
        time.sleep(0.05)
        connection.sendall(b"1")


def asked(url: str, limit: int = 1000) -> Received:
    with closing(Transport(url, api_key=KEY)) as asker:
        return asker.get("/", limit=limit)


@pytest.mark.parametrize("script", [sends(_HEAD), _drips], ids=["half a header", "slow"])
def test_a_broken_answer_is_no_answer(
    monkeypatch: pytest.MonkeyPatch, script: Callable[[socket.socket], None]
) -> None:
    """F184a: An answer that is malformed, truncated or slow is an error within the time limit."""
    monkeypatch.setattr(transport, "_READ_SECONDS", 0.15)
    with scripted(script) as url, pytest.raises(NoResponse):
        asked(url)


def test_a_huge_answer_is_not_read() -> None:
    """F184b: Of an answer above its limit, no more than the limit is kept."""
    head = _HEAD + b"Content-Length: 1000\r\n\r\n"
    with scripted(sends(head + bytes(1000))) as url:
        assert len(asked(url).body) == 1000
        with pytest.raises(TooLarge):
            asked(url, limit=999)


def test_a_connection_is_kept_and_made_again() -> None:
    """A server may close a connection that it has kept; the client asks again on another."""
    length = b"Content-Length: 2\r\n\r\n{}"
    connections = []

    def script(connection: socket.socket) -> None:
        connections.append(connection)
        connection.sendall(_HEAD + length)
        if len(connections) == 2:
            connection.recv(65536)
            connection.sendall(_HEAD + length)

    with scripted(script) as url:
        asker = Transport(url, api_key=KEY)
        for _ in range(3):
            assert asker.get("/", limit=10).body == b"{}"
        asker.close()
    assert len(connections) == 2


def test_the_key_does_not_follow_a_redirect() -> None:
    """F184c: The client follows the redirect of a base, and does not send the API key to it."""
    with serving(Service()) as store, serving(Service()) as service:
        store.instead = lambda _path: Response(b"payload")
        away = Response(b"", 307, {"Location": f"{store.url}/blob?signature=x"})
        service.instead = lambda _path: away
        asker = Transport(service.url, api_key=KEY)
        assert asker.get_far("/v1/revocations/feed/base/1", limit=100) == b"payload"
        assert service.asked[0][1]["Authorization"] == f"Bearer {KEY}"
        ((path, headers),) = store.asked
        assert path == "/blob?signature=x"
        assert "Authorization" not in headers
        # A poll is not redirected.
        assert asker.get("/v1/revocations/feed", limit=100).status == 307
        service.instead = lambda path: Response(b"", 307, {"Location": path})
        with pytest.raises(NoResponse, match="too often"):
            asker.get_far("/", limit=100)
        for location in ("ftp://127.0.0.1/", "http://[", "http://127.0.0.1:x/", "//\x7f/", ""):
            service.instead = always(Response(b"", 307, {"Location": location}))
            with pytest.raises(NoResponse):
                asker.get_far("/", limit=100)
        asker.close()


@pytest.mark.parametrize(
    "url",
    [
        "http://rescind.example.com",
        "rescind.example.com",
        "ftp://127.0.0.1",
        "https://user@rescind.example.com",
        "https://rescind.example.com/?tenant=1",
        "",
    ],
)
def test_an_address_without_tls_is_refused(url: str) -> None:
    """F184d, S5: The API key is sent only over TLS, to a verified name, or within the machine."""
    with pytest.raises(ValueError, match=r"TLS|address"):
        Transport(url, api_key=KEY)


def test_a_context_that_does_not_verify_is_refused() -> None:
    """F184: A context without verification of names or certificates is an error."""
    with pytest.raises(ValueError, match="verify"):
        Transport(
            "https://rescind.example.com", api_key=KEY, context=ssl._create_unverified_context()
        )
    Transport("http://rescind.example.com", api_key=KEY, allow_http=True)
    Transport("http://localhost:8080/base", api_key=KEY)


def test_a_server_of_another_name_is_refused() -> None:
    """F184: The client sends nothing to a server that it cannot verify, whoever vouches for it."""
    trusted = trusting("localhost")
    with serving(Service(), certified("localhost")) as service:
        named = service.url.replace("127.0.0.1", "localhost")
        for url, context in ((named, None), (service.url, trusted)):
            asker = Transport(url, api_key=KEY, context=context)
            with pytest.raises(NoResponse, match="CERTIFICATE_VERIFY_FAILED"):
                asker.get("/v1/trust?after=0", limit=1000)
        assert service.asked == []
        asker = Transport(named, api_key=KEY, context=trusted)
        assert asker.get("/v1/trust?after=0", limit=1000).status == 200
        # Nobody leads it from TLS to anything else.
        service.instead = lambda path: Response(b"", 307, {"Location": f"http://127.0.0.1{path}"})
        with pytest.raises(NoResponse, match="without TLS"):
            asker.get_far("/", limit=1000)
        asker.close()


def followed(service: Service, store: StateStore | None = None) -> tuple[FeedFollower, list[Event]]:
    seen: list[Event] = []
    if not service.documents:
        service.vouch()
    trust = TrustState(TENANT, PIN)
    asker = Transport(service.url, api_key=KEY)
    follower = FeedFollower(asker, store or MemoryStateStore(), trust, PollPolicy(), seen.append)
    follower.load()
    return follower, seen


def test_no_lie_takes_the_state_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """F184e: After any answer that it must refuse, a client holds what it held before."""
    monkeypatch.setattr(transport, "_READ_SECONDS", 15)
    with serving(Service()) as service:
        service.revoke("svc_wrt_a")
        follower, seen = followed(service)
        follower.poll()
        held = follower.view
        assert "svc_wrt_a" in held.revoked
        good = json.loads(service.feed.answer().encode())
        lies = {
            "malformed": b'{"head": {"Payload": ["',
            "malformed nested": b"[" * 100_000,
            "malformed entries": json.dumps(good | {"entries": [1]}).encode(),
            "signature": Feed(key=signer(9)).answer().encode(),
            "tenant": Feed(tenant="svc_tnt_other").answer().encode(),
        }
        for name, lie in lies.items():
            service.instead = always(Response(lie), at="/feed")
            follower.poll()
            assert seen[-1] == ResponseRejected(name.split()[0]), name
            assert follower.view == held
        service.instead = lambda path: Response(b" " * (4 * 2**20 + 1)) if "feed" in path else None
        follower.poll()
        assert seen[-1] == ResponseRejected("too_large")
        assert follower.view == held
        service.instead = lambda _path: None
        service.revoke("svc_wrt_b")
        assert follower.poll() < 5
        assert "svc_wrt_b" in follower.view.revoked
        follower.transport.close()


def test_a_base_is_not_larger_than_its_head_says() -> None:
    """F184f: Of a base the client reads what the signed head allows, and refuses another one."""
    with serving(Service()) as service:
        follower, seen = followed(service)
        limit = wire.base_size_max(service.feed.base)
        for body, event in (
            (bytes(limit + 1), ResponseRejected("too_large")),
            (bytes(limit), ResponseRejected("hash")),
            (gzip.compress(b""), ResponseRejected("hash")),
        ):
            service.instead = always(Response(body), at="/base/1")
            follower.poll()
            assert seen[-1] == event
        packed = {"Content-Encoding": "gzip"}
        bomb = gzip.compress(bytes(2**23))
        service.instead = always(Response(bomb, headers=packed), at="/base/1")
        tracemalloc.start()
        follower.poll()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert seen[-1] == ResponseRejected("too_large")
        assert peak < 2**20
        service.instead = lambda path: Response(b"", 404) if "base" in path else None
        follower.poll()
        assert isinstance(seen[-1], PollFailed)
        assert follower.view.state is None
        service.instead = lambda _path: None
        follower.poll()
        assert follower.view.state
        follower.transport.close()


def test_the_service_says_when_to_come_back() -> None:
    """F184g: The pause after a failure grows to five seconds, or is what `Retry-After` asks.

    It is at most half of `max_staleness`, which is 30 seconds here, and random.
    """
    with serving(Service()) as service:
        follower, seen = followed(service)
        service.instead = lambda _path: Response(b"", 429, {"Retry-After": "17"})
        assert 7.5 <= follower.poll() <= 15
        service.instead = lambda _path: Response(b"", 429, {"Retry-After": "999999"})
        pauses = [follower.poll() for _ in range(6)]
        assert all(7.5 <= pause <= 15 for pause in pauses)
        assert len(set(pauses)) == 6
        service.instead = lambda _path: Response(b"", 503, {"Retry-After": "Sun, 22 Nov 2026"})
        pauses = [follower.poll() for _ in range(6)]
        assert all(pause <= 5 for pause in pauses)
        assert max(pauses) > 2.4
        # A 304 that nobody asked for is no answer either.
        service.instead = lambda _path: Response(b"", 304)
        follower.poll()
        assert isinstance(seen[-1], PollFailed)
        follower.transport.close()


def test_a_response_that_nobody_requested_is_not_used() -> None:
    """F1601m: A response that came before its request is not taken for the answer."""
    numbers = iter(range(1, 9))
    is_over = threading.Event()

    def send_twice(connection: socket.socket) -> None:
        body = str(next(numbers)).encode()
        connection.sendall(_HEAD + b"Content-Length: 1\r\n\r\n" + body)
        connection.sendall(b"HTTP/1.1 304 Not Modified\r\nAge: 0\r\n\r\n")
        is_over.wait(60)

    with scripted(send_twice) as url:
        asker = Transport(url, api_key=KEY)
        for number in (b"1", b"2", b"3"):
            assert asker.get("/", limit=1000).body == number
            kept = asker._connection
            assert kept
            soon(lambda kept=kept: not kept.is_reusable())  # type: ignore[misc]
        is_over.set()
        asker.close()


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 400 X\r\nContent-Length: %d\r\n\r\nAuthorization: Bearer %s",
        b"HTTP/1.1 307 X\r\nContent-Length: 0%d\r\nLocation: http://a:%s/\r\n\r\n",
        b"HTTP/1.1 200 X%.0d\r\n%s\r\n\r\n",
    ],
)
def test_no_error_has_a_key_that_a_peer_sent_back(reply: bytes) -> None:
    """F1613h: Text of a peer in an error is without the API key."""
    length = len(b"Authorization: Bearer " + KEY.encode())
    filled = reply % (0 if b"307" in reply else length, KEY.encode())
    with scripted(sends(filled)) as url:
        asker = Transport(url, api_key=KEY)
        with pytest.raises(NoResponse) as caught:
            asker.get_far("/", limit=1000)
        assert KEY not in str(caught.value)
        asker.close()
