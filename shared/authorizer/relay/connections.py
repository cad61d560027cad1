"""Connections of an HTTP server on uvicorn, with limits on time and number and strict framing.

uvicorn waits without limit for a header, a body, or a caller that does not read. It also accepts
connections until the process cannot open files. The service uses this module too.
"""

import asyncio
import math
import re
import resource
import socket
import ssl
from collections import defaultdict
from contextlib import suppress
from enum import Enum, auto
from functools import cached_property
from typing import Any, Final, NamedTuple

import h11
import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.utils import get_remote_addr

from ..formats.addresses import find_subscriber
from .errors import Problem

STOP_SECONDS: Final = 3
# Longer than proxies keep a connection. Otherwise they send requests on a closing connection.
IDLE_SECONDS: Final = 75
CLOSE: Final = (b"connection", b"close")
UNREADABLE: Final = "The request is not well-formed HTTP/1.1."
_HEADER_BYTES_MAX: Final = 16 * 1024


class Waiting(Enum):
    """The event that a connection waits for."""

    IDLE = auto()
    HEADER = auto()
    BODY = auto()
    RESPONSE = auto()


# Maximum duration of each wait. For a response, the longest time without progress by the caller.
SECONDS: Final = {Waiting.HEADER: 10.0, Waiting.BODY: 30.0, Waiting.RESPONSE: 30.0}


class Limits(NamedTuple):
    """Maximum number of accepted connections, and of connections waiting for acceptance."""

    connections: int
    backlog: int

    @classmethod
    def of_process(cls, connections: int, backlog: int) -> "Limits":
        """Return limits that reserve a quarter of the process's open files for its data.

        The limits are at most `connections` and `backlog`.
        """
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            return cls(connections, backlog)
        # asyncio accepts a whole backlog in each turn of its loop. Up to four turns pass before an
        # excess connection is closed, which takes a quarter of the files.
        return cls(min(connections, files // 2), min(backlog, files // 16))

    @property
    def waiting(self) -> int:
        """Maximum number of connections in a long poll: three quarters."""
        return self.connections * 3 // 4


class _Crowd:
    """The connections of one subscriber. The first have been in their current state longest."""

    def __init__(self) -> None:
        self.idle: dict[Connection, None] = {}
        self.busy: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self.idle) + len(self.busy)

    @property
    def rank(self) -> tuple[int, bool, float]:
        """Return a sort key that is smallest for the crowd that must close a connection."""
        return -len(self), not self.idle, self.first.since

    @property
    def first(self) -> "Connection":
        """Return the connection to close: an idle one if there is one."""
        return next(iter(self.idle or self.busy))


class Config(uvicorn.Config):
    """Settings of a server with guarded connections."""

    def __init__(self, app: ASGIApp | str, limits: Limits, **options: Any) -> None:
        self.limits = limits
        self.tls: ssl.SSLContext | None = None
        # Connections by subscriber.
        self.crowds: defaultdict[str, _Crowd] = defaultdict(_Crowd)
        fixed: dict[str, Any] = {
            "http": Connection,
            "ws": "none",
            "log_config": None,
            # Warnings report malformed requests, and any caller can send many.
            "log_level": "error",
            # The application decides which forwarded addresses are used.
            "proxy_headers": False,
            "server_header": False,
            "backlog": limits.backlog,
            "timeout_keep_alive": IDLE_SECONDS,
            # Connections close themselves earlier.
            "timeout_graceful_shutdown": STOP_SECONDS + 2,
        }
        super().__init__(app, **fixed | options)

    def load(self) -> None:
        """Load the application. `Connection` starts TLS itself, to count its handshakes."""
        super().load()
        self.tls, self.ssl = self.ssl, None

    def close_connections(self) -> None:
        """Close each connection after its next response."""
        self.encoded_headers = [CLOSE]


class _StrictConnection(h11.Connection):
    """An HTTP/1.1 connection that rejects requests that a proxy may parse differently."""

    def next_event(self) -> Any:
        """Return the next event. Raises `h11.RemoteProtocolError`."""
        before = self.trailing_data[0]
        event = super().next_event()
        read = before[: len(before) - len(self.trailing_data[0])]
        if _BARE_CR.search(read.removesuffix(event.data) if isinstance(event, h11.Data) else read):
            raise h11.RemoteProtocolError("a line of the request has a CR within")
        if isinstance(event, h11.Request | h11.EndOfMessage):  # noqa: SIM102
            # h11 does not limit the size of a header that arrives at once.
            if len(read) > _HEADER_BYTES_MAX or _LOOSE_LINE.search(read) or _is_ambiguous(event):
                raise h11.RemoteProtocolError(
                    "the request is too long, or can be read in several ways"
                )
        return event


# A line that ends without CR, or that continues on the next line (RFC 9112, 2.2 and 5.2).
_LOOSE_LINE: Final = re.compile(rb"(?<!\r)\n|\n[ \t]")
# A CR within a line, which h11 accepts in chunk lines. A line end may arrive in two parts.
_BARE_CR: Final = re.compile(rb"\r(?!\n|\Z)")


def _is_ambiguous(event: h11.Request | h11.EndOfMessage) -> bool:
    if isinstance(event, h11.EndOfMessage):
        return bool(event.headers)
    if event.http_version not in {b"1.0", b"1.1"} or not event.target.startswith((b"/", b"*")):
        return True
    names = {name for name, _ in event.headers}
    if b"transfer-encoding" not in names:
        return False
    return b"content-length" in names or event.http_version == b"1.0"


class Connection(H11Protocol):
    """A connection that closes if the caller is too slow, or to make room for others."""

    config: Config

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.conn = _StrictConnection(h11.SERVER, _HEADER_BYTES_MAX)
        self._state: tuple[Waiting, object] | None = None
        self.since = 0.0
        self._unsent: float = math.inf
        self._deadline: asyncio.TimerHandle | None = None
        self._early = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a header. Close a connection if there are too many."""
        # Otherwise the kernel delays the end of a response by 40 ms. asyncio sets this option only
        # on sockets that name their protocol. The sockets of several workers do not name it.
        peer = transport.get_extra_info("socket")
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.config.tls is None:
            super().connection_made(transport)
        else:
            self.transport, self.client = transport, get_remote_addr(transport)
            self.connections.add(self)
            task = self.loop.create_task(self._secure(transport, self.config.tls))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        self._watch()
        if len(self.connections) > self.config.limits.connections:
            # The subscriber with the most connections loses one, which gives all subscribers equal
            # shares. Idle connections are closed before others. This connection is idle too. It is
            # closed if its subscriber has the most connections and each older one has a request.
            closed = min(self.config.crowds.values(), key=lambda each: each.rank).first
            closed._remove_from_count()  # noqa: SLF001
            closed.transport.abort()

    async def _secure(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        limit = SECONDS[Waiting.HEADER]
        secured = None
        with suppress(OSError):
            secured = await self.loop.start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=limit
            )
        if secured is None or transport.is_closing():
            # asyncio does not report a connection that is lost during its handshake.
            self._remove_from_count()
            return
        super().connection_made(secured)
        self.data_received(self._early)

    def data_received(self, data: bytes) -> None:
        """Handle received bytes. Keep bytes that arrive with the end of the handshake."""
        if self.flow is None:
            self._early += data
        elif data:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the application."""
        super().connection_lost(exc)
        self._remove_from_count()

    def handle_events(self) -> None:
        """Handle received events."""
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def shutdown(self) -> None:
        """Close the connection after its response, or after `STOP_SECONDS` at the latest.

        Long polls end immediately.
        """
        if self.cycle is not None:
            self.cycle.default_headers = [*self.cycle.default_headers, CLOSE]
        super().shutdown()
        release = self.app_state.get("release")
        if release is not None:
            release()
        self.loop.call_later(STOP_SECONDS, self.transport.abort)

    def unreadable(self) -> Response:
        """Return the response to a request that cannot be parsed (API-9)."""
        return Problem(400, "invalid_request", UNREADABLE).response()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 (uvicorn's own words)
        """Send `unreadable` in response to a request that cannot be parsed."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = self.unreadable()
            headers = [*answer.raw_headers, CLOSE]
            head = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (head, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        # Otherwise a response has begun, and the rest of the body cannot be parsed.
        self.transport.close()

    @property
    def _waiting(self) -> Waiting:
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return Waiting.HEADER
        if cycle.response_complete:
            is_idle = self.conn.their_state is h11.IDLE and not self.conn.trailing_data[0]
            return Waiting.IDLE if is_idle else Waiting.HEADER
        return Waiting.BODY if cycle.more_body else Waiting.RESPONSE

    def _watch(self) -> None:
        """Set a deadline if the connection enters a new wait."""
        state = (self._waiting, self.cycle)
        if state != self._state:
            self._state, self.since, self._unsent = state, self.loop.time(), math.inf
            self._remove_from_crowd()
            crowd = self.config.crowds[self._subscriber]
            is_idle = self._waiting in {Waiting.IDLE, Waiting.HEADER}
            (crowd.idle if is_idle else crowd.busy)[self] = None
            self._set_deadline()

    def _set_deadline(self) -> None:
        if self._deadline:
            self._deadline.cancel()
        seconds = SECONDS.get(self._waiting, self.config.timeout_keep_alive)
        self._deadline = self.loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        is_at_work = self._waiting is Waiting.RESPONSE and not unsent
        if is_at_work or 0 < unsent < self._unsent:
            # The application has not responded yet, or the caller reads slowly.
            self._unsent = unsent or math.inf
            self._set_deadline()
        else:
            self.transport.abort()

    def _remove_from_count(self) -> None:
        """Stop counting this connection."""
        self.connections.discard(self)
        self._remove_from_crowd()
        if self._deadline:
            self._deadline.cancel()

    def _remove_from_crowd(self) -> None:
        crowd = self.config.crowds[self._subscriber]
        crowd.idle.pop(self, None)
        crowd.busy.pop(self, None)
        if not crowd:
            del self.config.crowds[self._subscriber]

    @cached_property
    def _subscriber(self) -> str:
        return find_subscriber(self.client[0]) if self.client else ""
