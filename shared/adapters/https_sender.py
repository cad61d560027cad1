"""The sender on the sockets of this machine."""

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Final
from urllib.parse import urlsplit

from shared.model.webhooks import deliveries
from shared.model.webhooks.deliveries import (
    ANSWER_MAX,
    PORT,
    RETRY_AFTER_MAX,
    DeliveryAnswer,
    DeliveryOutcome,
    EventMessage,
    Network,
)
from shared.ports.outside import SENDER_PATIENCE_SECONDS

# Returns the IP addresses of a name. Raises `OSError` if there are none.
Resolve = Callable[[str], list[str]]

_IN_FLIGHT_MAX: Final = 8
# More addresses of one name are not tried.
_ADDRESSES_MAX: Final = 4
_CONNECT_SECONDS: Final = 3.0
_SECONDS: Final = re.compile(r"\d{1,18}")


def resolve(name: str) -> list[str]:
    """Return the addresses of a name, in the order of preference. Raises `OSError`."""
    found = socket.getaddrinfo(name, PORT, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


@dataclass(frozen=True, slots=True)
class HttpsSender:
    """A `Sender`. `networks` may be sent to beside public addresses.

    Tests set the rest: how names are resolved, the port, the certificates that are trusted, and
    the longest time of an attempt in seconds.
    """

    networks: Sequence[Network] = ()
    resolve: Resolve = resolve
    port: int = PORT
    context: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    patience: float = SENDER_PATIENCE_SECONDS

    def send(self, url: str, messages: Sequence[EventMessage]) -> list[DeliveryAnswer]:
        """Post the messages, up to eight at a time."""
        with ThreadPoolExecutor(_IN_FLIGHT_MAX, thread_name_prefix="send") as pool:
            return list(pool.map(lambda each: self._send(url, each), messages))

    def _send(self, url: str, message: EventMessage) -> DeliveryAnswer:
        started = time.monotonic()
        deadline = started + self.patience
        try:
            answer = self._attempt(url, message, deadline)
        except _NotAllowed:
            answer = DeliveryAnswer(DeliveryOutcome.REFUSED, 0)
        # A malformed response, or an error of a library, is no answer.
        except (OSError, HTTPException, ValueError):
            answer = DeliveryAnswer(DeliveryOutcome.NO_ANSWER, 0)
        milliseconds = int((time.monotonic() - started) * 1000)
        return DeliveryAnswer(
            answer.outcome, milliseconds, answer.status, answer.retry_after, answer.body
        )

    def _attempt(self, url: str, message: EventMessage, deadline: float) -> DeliveryAnswer:
        parts = urlsplit(url)
        name = parts.hostname or ""
        with self._connected(name, deadline) as connection, _ended(connection, deadline):
            connection.do_handshake()
            http = HTTPConnection(name)
            http.auto_open = 0
            http.sock = connection
            path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
            http.request("POST", path, message.body, {**message.headers, "Connection": "close"})
            with http.getresponse() as response:
                return _answer(response)

    @contextmanager
    def _connected(self, name: str, deadline: float) -> Iterator[ssl.SSLSocket]:
        """Connect to an address of the name, by number, so that no other one is connected to."""
        addresses = _within(deadline, lambda: self.resolve(name))
        if not addresses:
            raise OSError("the name has no address")
        if not all(deliveries.is_allowed(each, self.networks) for each in addresses):
            raise _NotAllowed
        plain = self._open(addresses[:_ADDRESSES_MAX], deadline)
        with plain:
            plain.settimeout(max(deadline - time.monotonic(), 0.001))
            with self.context.wrap_socket(
                plain, server_hostname=name, do_handshake_on_connect=False
            ) as connection:
                yield connection

    def _open(self, addresses: Sequence[str], deadline: float) -> socket.socket:
        for number, address in enumerate(addresses, 1):
            left = max(deadline - time.monotonic(), 0.001)
            try:
                return socket.create_connection(
                    (address, self.port), timeout=min(left, _CONNECT_SECONDS)
                )
            except OSError:
                if number == len(addresses):
                    raise
        raise OSError("the name has no address")


class _NotAllowed(Exception):
    """An address of the name may not be sent to."""


@contextmanager
def _ended(connection: socket.socket, deadline: float) -> Iterator[None]:
    """Shut the connection at the deadline: no time-out of a socket ends one that drips bytes."""

    def shut() -> None:
        with suppress(OSError):
            # Not the method of TLS, which would let another thread read on in plain.
            socket.socket.shutdown(connection, socket.SHUT_RDWR)

    timer = threading.Timer(max(deadline - time.monotonic(), 0), shut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _within(deadline: float, look_up: Callable[[], list[str]]) -> list[str]:
    """Return the addresses that `look_up` finds in time; the system's resolver has no time-out.

    Raises `OSError`.
    """
    found: list[list[str]] = []

    def run() -> None:
        try:
            found.append(look_up())
        # Also `UnicodeError`, for a label that is too long.
        except (OSError, ValueError):
            found.append([])

    thread = threading.Thread(target=run, name="resolve", daemon=True)
    thread.start()
    thread.join(max(deadline - time.monotonic(), 0))
    if not found:
        raise TimeoutError("the name was not resolved in time")
    return found[0]


def _answer(response: HTTPResponse) -> DeliveryAnswer:
    try:
        body = response.read1(ANSWER_MAX)
    except (OSError, HTTPException, ValueError):
        # The status is what counts.
        body = b""
    return DeliveryAnswer(
        DeliveryOutcome.ANSWERED,
        0,
        status=response.status,
        retry_after=_retry_after(response.headers.get("Retry-After")),
        body=body[:ANSWER_MAX].decode(errors="replace"),
    )


def _retry_after(value: str | None) -> int | None:
    """Return the seconds that a `Retry-After` asks for, None if it cannot be read."""
    if value is None:
        return None
    if _SECONDS.fullmatch(value.strip()):
        return min(int(value), RETRY_AFTER_MAX)
    try:
        moment = parsedate_to_datetime(value)
        wait = (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError, TypeError):
        return None
    return min(max(int(wait), 0), RETRY_AFTER_MAX)
