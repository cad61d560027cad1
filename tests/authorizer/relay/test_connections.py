"""Connections of servers and relays that are slow, idle or too many, on real sockets."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.utils import get_remote_addr
from uvicorn.server import ServerState

from shared.authorizer.relay import connections
from shared.authorizer.relay.connections import Config, Connection, Limits
from tests.kit import asgi, receivers

HOST = "127.0.0.1"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class App:
    """An application that reads the body, responds, and records what it received.

    `begun` counts requests. If there is a `may_answer`, responses wait for it.
    """

    body: bytes = b"{}"
    may_answer: asyncio.Event | None = None
    begun: int = 0
    received: list[Message] = field(default_factory=list)

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        while True:
            message = await receive()
            self.received.append(message)
            if message["type"] == "http.disconnect":
                return
            if not message["more_body"]:
                break
        if self.may_answer:
            await self.may_answer.wait()
        headers = [(b"content-length", str(len(self.body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deadlines as long as a test can wait."""
    for waiting in connections.SECONDS:
        monkeypatch.setitem(connections.SECONDS, waiting, 0.4)


@pytest.fixture
def patient(hurry: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is closed because it is slow."""
    for waiting in connections.SECONDS:
        monkeypatch.setitem(connections.SECONDS, waiting, 600)


Talk = Callable[["Server"], Awaitable[None]]


def exchange(app: Any, talk: Talk, most: int = 100, **options: Any) -> None:
    """Let `talk` connect to a server of the application, and end both."""

    async def both() -> None:
        async with _serving(app, Limits(most, 16), options) as server:
            await talk(server)

    asgi.run(asyncio.wait_for(both(), timeout=120))


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 (uvicorn reports nothing)
        await asyncio.sleep(0.01)


class Server:
    """A listening server, and the connections to it that were made here."""

    def __init__(self, port: int, state: ServerState) -> None:
        self.port, self._state = port, state
        self.made: list[asyncio.StreamWriter] = []

    async def connect(
        self, sent: bytes = b"", *, source: str = HOST, tls: ssl.SSLContext | None = None
    ) -> Streams:
        reader, writer = await asyncio.open_connection(
            HOST,
            self.port,
            local_addr=(source, 0),
            ssl=tls,
            server_hostname="localhost" if tls else None,
        )
        self.made.append(writer)
        writer.write(sent)
        return reader, writer

    async def has(self, connections: int) -> None:
        """Return once the server has so many connections."""
        await until(lambda: len(self._state.connections) >= connections)

    def shutdown(self) -> None:
        for each in list(self._state.connections):
            each.shutdown()

    async def asked(self, sent: bytes) -> bytes:
        """All that the server says to these bytes before it closes."""
        reader, _ = await self.connect(sent)
        return await _rest(reader)


@asynccontextmanager
async def _serving(app: Any, limits: Limits, options: dict[str, Any]) -> AsyncIterator[Server]:
    config = Config(app, limits, lifespan="off", **options)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()

    def protocol() -> Connection:
        return Connection(config=config, server_state=state, app_state={})

    listening = await loop.create_server(protocol, HOST, 0)
    server = Server(listening.sockets[0].getsockname()[1], state)
    try:
        yield server
    finally:
        for writer in server.made:
            writer.close()
        while state.connections:  # noqa: ASYNC110 (uvicorn tells nobody)
            await asyncio.sleep(0.01)
        await asyncio.gather(*state.tasks)
        listening.close()
    assert not config.crowds


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@dataclass
class Certificate:
    """A certificate of `localhost` in files, and what a client that trusts it has."""

    options: dict[str, Any]
    context: ssl.SSLContext

    def ask(self, port: int, sent: bytes) -> bytes:
        """All that is answered to bytes that leave in one segment with the end of the handshake."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        received = b""
        with socket.create_connection((HOST, port), timeout=60) as caller:
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    caller.sendall(outgoing.read())
                    incoming.write(caller.recv(65536))
            tls.write(sent)
            caller.sendall(outgoing.read())
            while some := caller.recv(65536):
                incoming.write(some)
                with suppress(ssl.SSLWantReadError):
                    while part := tls.read(65536):
                        received += part
                    # The server has closed its half, and waits for the other one.
                    break
        return received


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    folder = tmp_path_factory.mktemp("tls")
    chain, key = receivers.certificate("localhost")
    (folder / "chain.pem").write_bytes(chain)
    (folder / "key.pem").write_bytes(key)
    context = ssl.create_default_context(cafile=folder / "chain.pem")
    files = {"ssl_certfile": str(folder / "chain.pem"), "ssl_keyfile": str(folder / "key.pem")}
    return Certificate(files, context)


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
STALLED = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx"


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"GET /v1/x HTTP/1.1\r\nHost: x\r\nX-a: "])
def test_a_header_that_does_not_come_is_not_waited_for(sent: bytes) -> None:
    """F76: a connection with no header, or with half of one, is closed after a while."""

    async def talk(server: Server) -> None:
        assert await asyncio.wait_for(server.asked(sent), timeout=60) == b""

    exchange(App(), talk)


def test_a_header_in_drops_is_not_waited_for() -> None:
    """F76b: A header that arrives byte by byte does not extend its deadline."""

    async def talk(server: Server) -> None:
        reader, writer = await server.connect()
        for _ in range(50):
            writer.write(b"G")
            await asyncio.sleep(0.05)
            if reader.at_eof() or reader.exception():
                break
        else:
            pytest.fail("the connection stays as long as bytes come")
        assert await _rest(reader) == b""

    exchange(App(), talk)


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    """F76c: A body that stops arriving ends the connection."""
    app = App()

    async def talk(server: Server) -> None:
        assert await asyncio.wait_for(server.asked(STALLED), timeout=60) == b""

    exchange(app, talk)
    assert app.received[-1] == {"type": "http.disconnect"}


@pytest.mark.slow
def test_a_caller_who_does_not_read_is_not_waited_for() -> None:
    """F76d: A caller that does not read its response loses the connection."""
    body = b" " * 20_000_000

    async def talk(server: Server) -> None:
        reader, _ = await server.connect(LAST)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        # What the kernel and the reader's buffer hold has arrived, and no more comes.
        await asyncio.sleep(1.5)
        assert len(await _rest(reader)) < len(body)

    exchange(App(body=body), talk)


@pytest.mark.usefixtures("patient")
def test_the_longest_idle_makes_room() -> None:
    """F76: above the limit the connection is closed that has waited for a header the longest."""
    app = App()

    async def talk(server: Server) -> None:
        busy, _ = await server.connect(STALLED)
        await until(lambda: app.begun == 1)
        oldest, _ = await server.connect()
        await server.has(2)
        idle, _ = await server.connect()
        await server.has(3)
        assert (await server.asked(LAST)).startswith(b"HTTP/1.1 200")
        assert await _rest(oldest) == b""
        assert not busy.at_eof()
        assert not idle.at_eof()

    exchange(app, talk, most=3)


@pytest.mark.usefixtures("patient")
def test_who_is_served_is_not_sent_away() -> None:
    """F76: where every connection has a request under way, a new one is closed."""
    may_answer = asyncio.Event()
    app = App(may_answer=may_answer)

    async def talk(server: Server) -> None:
        busy = [await server.connect(LAST) for _ in range(3)]
        await until(lambda: app.begun == 3)
        assert await server.asked(LAST) == b""
        may_answer.set()
        for reader, _ in busy:
            assert (await _rest(reader)).startswith(b"HTTP/1.1 200")

    exchange(app, talk, most=3)


async def _answered(streams: Streams, sent: bytes = GET) -> bytes:
    """The head of the response to a request; the connection stays."""
    reader, writer = streams
    writer.write(sent)
    head = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(head.partition(b"content-length: ")[2].split()[0]))
    return head


def test_an_idle_connection_outlives_the_deadlines() -> None:
    """F1741a: A connection between requests is kept as long as the server was set to."""

    async def talk(server: Server) -> None:
        streams = await server.connect()
        await _answered(streams)
        half = await server.connect(GET[:-2])
        assert await _rest(half[0]) == b""
        # The other one was late with its header; this one had no request to send.
        assert b" 200 " in await _answered(streams)
        assert not streams[0].at_eof()

    exchange(App(), talk, timeout_keep_alive=20)


@pytest.mark.slow
def test_an_idle_connection_is_closed_in_the_end() -> None:
    """F1741b: A connection without a request is closed after the time that was set."""

    async def talk(server: Server) -> None:
        streams = await server.connect()
        await _answered(streams)
        assert await _rest(streams[0]) == b""

    exchange(App(), talk, timeout_keep_alive=1)


def test_an_idle_connection_that_begins_a_request_has_to_end_it() -> None:
    """F1741c: The long time is over with the first byte of a request."""

    async def talk(server: Server) -> None:
        streams = await server.connect()
        await _answered(streams)
        streams[1].write(GET[:-2])
        assert await _rest(streams[0]) == b""

    exchange(App(), talk, timeout_keep_alive=60)


@pytest.mark.usefixtures("patient")
def test_a_crowd_makes_room_for_the_others() -> None:
    """F1742a: The address with the most idle connections loses one, and no other address."""

    async def talk(server: Server) -> None:
        lone = await server.connect(source="127.0.0.2")
        await _answered(lone)
        crowd = [await server.connect() for _ in range(3)]
        await server.has(4)
        await server.connect()
        assert await _rest(crowd[0][0]) == b""
        assert b" 200 " in await _answered(lone)

    exchange(App(), talk, most=4, timeout_keep_alive=20)


UNREAD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2000
OTHER, THIRD = "127.0.0.2", "127.0.0.3"


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("sent", [b"", GET[:-2], STALLED, UNREAD, GET])
@pytest.mark.parametrize("sources", [1, 2])
def test_a_few_addresses_do_not_shut_others_out(sent: bytes, sources: int) -> None:
    """F1930a: An address with few connections is served, whatever the others wait for."""
    app = App(body=b" " * 100_000 if sent == UNREAD else b"{}")

    async def talk(server: Server) -> None:
        for each in range(4):
            await server.connect(sent, source=f"127.0.0.{each % sources + 2}")
            await server.has(each + 1)
        if sent in {STALLED, UNREAD}:
            await until(lambda: app.begun >= 4)
        lone = await server.connect()
        assert b" 200 " in await _answered(lone)
        # It stays, although each of the others tries to get its place.
        for each in range(sources):
            await server.connect(sent, source=f"127.0.0.{each + 2}")
        assert b" 200 " in await _answered(lone)

    exchange(app, talk, most=4, timeout_keep_alive=600)


@pytest.mark.usefixtures("patient")
def test_handshakes_do_not_shut_others_out(certificate: Certificate) -> None:
    """F1930b: An address with few connections makes its handshake before those of a crowd."""

    async def talk(server: Server) -> None:
        for each in range(4):
            await server.connect(source=(OTHER, THIRD)[each % 2])
            await server.has(each + 1)
        lone = await server.connect(tls=certificate.context)
        assert b" 200 " in await _answered(lone)
        assert b" 200 " in await _answered(lone)

    exchange(App(), talk, most=4, **certificate.options)


@pytest.mark.usefixtures("patient")
def test_a_crowd_loses_its_idle_connections_first() -> None:
    """F1931a: A connection with a request stays while its address has an idle one."""
    app = App()

    async def talk(server: Server) -> None:
        busy, _ = await server.connect(STALLED)
        await until(lambda: app.begun == 1)
        idle, _ = await server.connect()
        await server.has(2)
        lone = await server.connect(source=OTHER)
        assert b" 200 " in await _answered(lone)
        assert await _rest(idle) == b""
        assert not busy.at_eof()

    exchange(app, talk, most=2, timeout_keep_alive=600)


@pytest.mark.usefixtures("patient")
def test_a_crowd_loses_what_waits_longest() -> None:
    """F1931b: Of an address with requests alone, the one in its present state longest is closed."""
    app = App()

    async def talk(server: Server) -> None:
        first = await server.connect(STALLED)
        await until(lambda: app.begun == 1)
        second, _ = await server.connect(STALLED)
        await until(lambda: app.begun == 2)
        # The first one has a new request now.
        first[1].write(b"x" * 99 + STALLED)
        await until(lambda: app.begun == 3)
        lone = await server.connect(source=OTHER)
        assert await _rest(second) == b""
        assert b" 200 " in await _answered(lone)
        assert not first[0].at_eof()

    exchange(app, talk, most=2, timeout_keep_alive=600)


@pytest.mark.usefixtures("patient")
def test_equal_shares_stay() -> None:
    """F1931c: A new connection is closed if its address has as many, and all have requests."""
    app = App()

    async def talk(server: Server) -> None:
        busy = []
        for each in range(3):
            busy.append(await server.connect(STALLED, source=(OTHER, THIRD)[each % 2]))
            await until(lambda: app.begun == len(busy))
        late, _ = await server.connect(STALLED, source=THIRD)
        assert await _rest(late) == b""
        assert app.begun == 3
        for reader, writer in busy:
            writer.write(b"x" * 99)
            assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")

    exchange(app, talk, most=3, timeout_keep_alive=600)


@pytest.mark.usefixtures("patient")
def test_ties_close_the_longest_idle() -> None:
    """F1931d: Between addresses with as many connections, the one idle longest is closed."""
    app = App()

    async def talk(server: Server) -> None:
        for each, source in enumerate((OTHER, THIRD)):
            await server.connect(STALLED, source=source)
            await until(lambda begun=each + 1: app.begun == begun)  # type: ignore[misc]
        younger = await server.connect(source=OTHER)
        older, _ = await server.connect(source=THIRD)
        await server.has(4)
        await _answered(younger)
        lone = await server.connect()
        assert await _rest(older) == b""
        assert b" 200 " in await _answered(lone)
        assert b" 200 " in await _answered(younger)

    exchange(app, talk, most=4, timeout_keep_alive=600)


@pytest.mark.usefixtures("patient")
def test_a_network_of_ipv6_counts_as_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """F1932a: The addresses of a /64 share their connections, as they share their rate (AUTH-9)."""

    def mapped(transport: asyncio.Transport) -> tuple[str, int]:
        host, port = get_remote_addr(transport) or ("", 0)
        last = host.rpartition(".")[2]
        return ("2001:db8:0:1::1" if last == "1" else f"2001:db8::{last}"), port

    monkeypatch.setattr("uvicorn.protocols.http.h11_impl.get_remote_addr", mapped)
    app = App()

    async def talk(server: Server) -> None:
        crowd = []
        for each in range(4):
            crowd.append(await server.connect(STALLED, source=f"127.0.0.{each + 2}"))
            await until(lambda: app.begun == len(crowd))
        lone = await server.connect()
        assert await _rest(crowd[0][0]) == b""
        assert b" 200 " in await _answered(lone)

    exchange(app, talk, most=4, timeout_keep_alive=600)


@pytest.mark.usefixtures("patient")
def test_a_stop_closes_what_is_idle_and_says_so_to_the_others() -> None:
    """F1743a: At a stop idle connections end at once, and the last responses close theirs."""
    may_answer = asyncio.Event()
    app = App(may_answer=may_answer)

    async def talk(server: Server) -> None:
        idle = await server.connect()
        may_answer.set()
        await _answered(idle)
        may_answer.clear()
        busy = await server.connect(GET)
        await until(lambda: app.begun == 2)
        server.shutdown()
        may_answer.set()
        assert await _rest(idle[0]) == b""
        answer = await _rest(busy[0])
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"\r\nconnection: close\r\n" in answer

    exchange(app, talk, timeout_keep_alive=20)


def test_a_handshake_that_does_not_come_is_not_waited_for(certificate: Certificate) -> None:
    """F1744a: With TLS, connections count and have a deadline before their handshake."""

    async def talk(server: Server) -> None:
        reader, _ = await server.connect()
        await server.has(1)
        assert await _rest(reader) == b""

    exchange(App(), talk, **certificate.options)


@pytest.mark.usefixtures("patient")
def test_handshakes_make_room(certificate: Certificate) -> None:
    """F1744b: Connections without a handshake do not keep others from theirs."""

    async def talk(server: Server) -> None:
        silent = [await server.connect() for _ in range(3)]
        await server.has(3)
        secured = await server.connect(tls=certificate.context)
        assert await _rest(silent[0][0]) == b""
        assert b" 200 " in await _answered(secured)
        assert b" 200 " in await _answered(secured)

    exchange(App(), talk, most=3, **certificate.options)


@pytest.mark.usefixtures("patient")
def test_a_request_may_come_with_the_end_of_the_handshake(certificate: Certificate) -> None:
    """F1744c: The first request is read, also if it arrives with the end of the handshake."""

    async def talk(server: Server) -> None:
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(None, certificate.ask, server.port, LAST)
        assert answer.startswith(b"HTTP/1.1 200")

    exchange(App(), talk, **certificate.options)
