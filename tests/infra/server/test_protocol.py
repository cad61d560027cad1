"""Connections of the local server that are slow, idle, too many or malformed, on real sockets."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send
from uvicorn import Config
from uvicorn.server import ServerState

from infra.server import worker as local_protocol
from infra.server.worker import Limits, LocalProtocol
from tests.kit import asgi

HOST = "127.0.0.1"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class App:
    """An application that reads the body, waits, answers, and keeps what it received.

    `begun` is how many requests it got. It answers once `may_answer` is set, if there is one.
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
    for waiting in local_protocol._SECONDS:
        monkeypatch.setitem(local_protocol._SECONDS, waiting, 0.4)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three connections, and not one more; none of them is closed because it is slow."""
    monkeypatch.setattr(local_protocol, "limits", lambda: Limits(3, 16))
    for waiting in local_protocol._SECONDS:
        monkeypatch.setitem(local_protocol._SECONDS, waiting, 600)


def exchange(app: Any, talk: Callable[["Server"], Awaitable[None]]) -> None:
    """Let `talk` connect to a server of the application, and end both."""

    async def both() -> None:
        async with _serving(app) as server:
            await talk(server)

    asgi.run(asyncio.wait_for(both(), timeout=120))


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 (nobody tells)
        await asyncio.sleep(0.01)


class Server:
    """A listening server, and the connections to it that were made here."""

    def __init__(self, port: int, state: ServerState) -> None:
        self._port, self._state = port, state
        self.made: list[asyncio.StreamWriter] = []

    async def connect(self, sent: bytes = b"") -> Streams:
        reader, writer = await asyncio.open_connection(HOST, self._port)
        self.made.append(writer)
        writer.write(sent)
        return reader, writer

    async def has(self, connections: int) -> None:
        """Return once the server has so many connections."""
        await until(lambda: len(self._state.connections) >= connections)

    async def asked(self, sent: bytes) -> bytes:
        """All that the server says to these bytes before it closes."""
        reader, _ = await self.connect(sent)
        return await _rest(reader)


@asynccontextmanager
async def _serving(app: Any) -> AsyncIterator[Server]:
    config = Config(app, lifespan="off", log_config=None, http=LocalProtocol)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()

    def protocol() -> LocalProtocol:
        return LocalProtocol(config=config, server_state=state, app_state={})

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


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
STALLED = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx"


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


def test_the_longest_idle_makes_room(room: None) -> None:
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

    exchange(app, talk)


def test_who_is_served_is_not_sent_away(room: None) -> None:
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

    exchange(app, talk)
