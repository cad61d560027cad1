"""A process that answers requests: uvicorn, on a socket that the server has opened.

uvicorn's protocol itself waits without limit for a header, a body, or a caller that does not read,
and accepts connections until the process cannot open files, even for its own data (docs/adr/21).
"""

import asyncio
import math
import re
import resource
import socket
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from functools import cache
from typing import Any, Final, NamedTuple, cast

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

STOP_SECONDS: Final = 3
_HEADER_BYTES_MAX: Final = 16 * 1024
_CONNECTIONS_MAX: Final = 4000
_BACKLOG_MAX: Final = 128

# uvicorn renews the Date header once a second.
_TICK_SECONDS = 1.0


class _Waiting(Enum):
    """The event that a connection waits for."""

    HEADER = auto()
    BODY = auto()
    RESPONSE = auto()


# The longest time for each. For a response: the longest time in which the caller reads nothing.
_SECONDS: Final = {_Waiting.HEADER: 10.0, _Waiting.BODY: 30.0, _Waiting.RESPONSE: 30.0}


class Limits(NamedTuple):
    """The number of connections that a process keeps, and of those that may wait for acceptance.

    `waiting` is how many of the connections may have a request that waits for news.
    """

    connections: int
    backlog: int

    @property
    def waiting(self) -> int:
        """Three quarters of the connections, so that others are served as well."""
        return self.connections * 3 // 4


@cache
def limits() -> Limits:
    """Return limits that leave a quarter of the files that this process may open to its data."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return Limits(_CONNECTIONS_MAX, _BACKLOG_MAX)
    # asyncio accepts a whole backlog in each turn of its loop, and up to four turns pass until an
    # excess connection is closed: a quarter of the files.
    return Limits(min(_CONNECTIONS_MAX, files // 2), min(_BACKLOG_MAX, files // 16))


class _StrictConnection(h11.Connection):
    """An HTTP/1.1 connection that refuses requests that a proxy may read differently."""

    def next_event(self) -> Any:
        """Return the next event. Raises `h11.RemoteProtocolError`."""
        head = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        event = super().next_event()
        if isinstance(event, h11.Request) and _is_ambiguous(event, head):
            raise h11.RemoteProtocolError("the request can be read in several ways")
        return event


_END_OF_HEADER: Final = re.compile(rb"\n\r?\n")
# A line that ends without CR, or that continues in the next one (RFC 9112, 2.2 and 5.2).
_LOOSE_LINE: Final = re.compile(rb"(?<!\r)\n|\n[ \t]")


def _is_ambiguous(request: h11.Request, head: bytes) -> bool:
    if request.http_version not in {b"1.0", b"1.1"}:
        return True
    names = {name for name, _ in request.headers}
    if {b"content-length", b"transfer-encoding"} <= names:
        return True
    end = _END_OF_HEADER.search(head)
    return bool(_LOOSE_LINE.search(head, 0, end.end() if end else len(head)))


class LocalProtocol(H11Protocol):
    """A connection. It is closed if the caller takes too long, or to make room for others."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = _StrictConnection(h11.SERVER, _HEADER_BYTES_MAX)
        self._state: tuple[_Waiting, object] | None = None
        self._since = 0.0
        self._unsent: float = math.inf
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a header. If there are too many connections, close one."""
        super().connection_made(transport)
        # Otherwise the kernel delays the end of a response by 40 ms. asyncio sets this only on
        # sockets that name their protocol, and those of several workers do not.
        peer = transport.get_extra_info("socket")
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._watch()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the application, and cancel the deadline."""
        super().connection_lost(exc)
        if self._deadline:
            self._deadline.cancel()

    def handle_events(self) -> None:
        """Handle received events."""
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def shutdown(self) -> None:
        """Close the connection after its response, and after `STOP_SECONDS` in any case.

        Responses that wait for news come at once.
        """
        super().shutdown()
        release = self.app_state.get("release")
        if release is not None:
            release()
        self.loop.call_later(STOP_SECONDS, self.transport.abort)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's own words)
        """Answer a request that cannot be parsed with the error body of API-9."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            # The application has loaded it. If this module did, a worker would start so slowly that
            # uvicorn's supervisor might restart it.
            from shared.web import gate  # noqa: PLC0415

            answer = gate.unreadable("The request is not well-formed HTTP/1.1.")
            headers = [*answer.raw_headers, (b"connection", b"close")]
            head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (head, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        # Otherwise a response has begun, and the rest of the body cannot be parsed.
        self.transport.close()

    @property
    def _waiting(self) -> _Waiting:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            return _Waiting.HEADER
        return _Waiting.BODY if cycle.more_body else _Waiting.RESPONSE

    def _watch(self) -> None:
        """Set a deadline if the connection waits for something new."""
        state = (self._waiting, self.cycle)
        if state != self._state:
            self._state, self._since, self._unsent = state, self.loop.time(), math.inf
            self._set_deadline()

    def _set_deadline(self) -> None:
        if self._deadline:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(_SECONDS[self._waiting], self._expire)

    def _expire(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        is_at_work = self._waiting is _Waiting.RESPONSE and not unsent
        if is_at_work or 0 < unsent < self._unsent:
            # The application has not answered yet, or the caller reads slowly.
            self._unsent = unsent or math.inf
            self._set_deadline()
        else:
            self.transport.abort()

    def _make_room(self) -> None:
        """Close the connection that has waited longest for a header, or this one."""
        connections = cast("set[LocalProtocol]", self.connections)
        if len(connections) <= limits().connections:
            return
        idle = (each for each in connections if each._waiting is _Waiting.HEADER)  # noqa: SLF001
        oldest = min(idle, key=lambda each: each._since, default=self)  # noqa: SLF001
        connections.discard(oldest)
        oldest.transport.abort()


def run(stop: int, listener: socket.socket, beat: Callable[[], None]) -> None:
    """Answer requests to the service until the descriptor `stop` is at its end."""
    config = uvicorn.Config(
        "infra.server.app:app",
        log_config=None,
        # Warnings report malformed requests, and any caller can send many.
        log_level="error",
        lifespan="on",
        ws="none",
        http=LocalProtocol,
        backlog=limits().backlog,
        # Connections close themselves before that.
        timeout_graceful_shutdown=STOP_SECONDS + 2,
        # The gate decides which forwarded addresses are used.
        proxy_headers=False,
        server_header=False,
    )
    serve(config, listener, stop, beat)


def serve(
    config: uvicorn.Config, listener: socket.socket, stop: int, beat: Callable[[], None]
) -> None:
    """Serve an application on `listener`, and close it, until `stop` is at its end."""
    asyncio.run(_serve(config, listener, stop, beat))


async def _serve(
    config: uvicorn.Config, listener: socket.socket, stop: int, beat: Callable[[], None]
) -> None:
    # Not `Server.serve`: it takes the signals, and asks ten times a second whether to stop.
    server, stopped = uvicorn.Server(config), asyncio.Event()
    config.load()
    server.lifespan = config.lifespan_class(config)
    loop = asyncio.get_running_loop()

    def end() -> None:
        loop.remove_reader(stop)
        stopped.set()

    loop.add_reader(stop, end)
    await server.startup(sockets=[listener])
    while not stopped.is_set():
        beat()
        await server.on_tick(0)
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), _TICK_SECONDS)
    await server.shutdown(sockets=[listener])
    # Answered requests are over; a thread that still works is waited for.
