"""HTTPS to the programs of others: webhooks, identity providers, witnesses.

It runs on the sockets of this machine.
"""

import re
import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Final
from urllib.parse import quote_plus, urlencode, urlsplit

from urllib3 import PoolManager, Timeout
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from shared.model.audit.witnesses import BYTES_MAX
from shared.model.outbound import PORT, Network, is_allowed
from shared.model.webhooks.deliveries import (
    ANSWER_MAX,
    RETRY_AFTER_MAX,
    DeliveryAnswer,
    DeliveryOutcome,
    EventMessage,
)
from shared.ports.outside import (
    OUTBOUND_ANSWER_MAX,
    OUTBOUND_PATIENCE_SECONDS,
    SENDER_PATIENCE_SECONDS,
    WITNESS_PATIENCE_SECONDS,
    OutboundAnswer,
    WitnessAnswer,
)

# Returns the IP addresses of a name. Raises `OSError` if there are none.
Resolve = Callable[[str], list[str]]

# More addresses of one name are not tried.
_ADDRESSES_MAX: Final = 4
_CONNECT_SECONDS: Final = 3.0


def resolve(name: str) -> list[str]:
    """Return the addresses of a name, in the order of preference. Raises `OSError`."""
    found = socket.getaddrinfo(name, PORT, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class NotAllowed(Exception):
    """An address of the name may not be connected to."""


@dataclass(frozen=True, slots=True)
class Https:
    """An `Outbound`. `networks` may be connected to beside public addresses.

    Tests set the rest: how names are resolved, the port in place of 443, the certificates that are
    trusted, and the longest time of a request in seconds.
    """

    networks: Sequence[Network] = ()
    resolve: Resolve = resolve
    port: int = PORT
    context: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    patience: float = OUTBOUND_PATIENCE_SECONDS

    def ask(
        self,
        url: str,
        form: Mapping[str, str] | None = None,
        *,
        user: tuple[str, str] | None = None,
    ) -> OutboundAnswer:
        """Get the URL, or post the form to it."""
        headers = {"Accept": "application/json"}
        if user is not None:
            headers["Authorization"] = _basic(*user)
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = None if form is None else urlencode(form).encode()
        deadline = time.monotonic() + self.patience
        method = "GET" if form is None else "POST"
        try:
            with self.exchange(method, url, body, headers, deadline) as response:
                return OutboundAnswer(
                    DeliveryOutcome.ANSWERED, response.status, _whole(response, deadline)
                )
        except NotAllowed:
            return OutboundAnswer(DeliveryOutcome.REFUSED)
        # A malformed response, or an error of a library, is no answer.
        except (OSError, HTTPException, ValueError):
            return OutboundAnswer(DeliveryOutcome.NO_ANSWER)

    @contextmanager
    def exchange(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        deadline: float,
    ) -> Iterator[HTTPResponse]:
        """Make one request and yield the response, whose body ends at `deadline`.

        `deadline` is of the monotonic clock. Raises `NotAllowed`, `OSError`, `HTTPException`,
        `ValueError`.
        """
        parts = urlsplit(url)
        name = parts.hostname or ""
        with (
            self._connected(name, parts.port or PORT, deadline) as connection,
            _ended(connection, deadline),
        ):
            connection.do_handshake()
            http = HTTPConnection(name, parts.port)
            http.auto_open = 0
            http.sock = connection
            path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
            http.request(method, path, body, {**headers, "Connection": "close"})
            with http.getresponse() as response:
                yield response

    @contextmanager
    def _connected(self, name: str, port: int, deadline: float) -> Iterator[ssl.SSLSocket]:
        """Connect to an address of the name, by number, so that no other one is connected to."""
        addresses = _within(deadline, lambda: self.resolve(name))
        if not addresses:
            raise OSError("the name has no address")
        if not all(is_allowed(each, self.networks, port) for each in addresses):
            raise NotAllowed
        plain = _open(addresses[:_ADDRESSES_MAX], self.port if port == PORT else port, deadline)
        with plain:
            plain.settimeout(max(deadline - time.monotonic(), 0.001))
            with self.context.wrap_socket(
                plain, server_hostname=name, do_handshake_on_connect=False
            ) as connection:
                yield connection


def _open(addresses: Sequence[str], port: int, deadline: float) -> socket.socket:
    for number, address in enumerate(addresses, 1):
        left = max(deadline - time.monotonic(), 0.001)
        try:
            return socket.create_connection((address, port), timeout=min(left, _CONNECT_SECONDS))
        except OSError:
            if number == len(addresses):
                raise
    raise OSError("the name has no address")


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


def _whole(response: HTTPResponse, deadline: float) -> bytes:
    """Return the whole body. Raises `OSError` if it is cut, too long, or too slow."""
    body = response.read(OUTBOUND_ANSWER_MAX + 1)
    # Content that ends early is no error to the library if a number of bytes is read.
    if len(body) > OUTBOUND_ANSWER_MAX or response.length or time.monotonic() >= deadline:
        raise OSError("the answer is cut, too long or too slow")
    return body


def _basic(name: str, secret: str) -> str:
    """Return the header of a client with a secret (RFC 6749, 2.3.1)."""
    pair = f"{quote_plus(name)}:{quote_plus(secret)}"
    return f"Basic {b64encode(pair.encode()).decode()}"


_IN_FLIGHT_MAX: Final = 8
_SECONDS: Final = re.compile(r"\d{1,18}")


@dataclass(frozen=True, slots=True)
class HttpsSender(Https):
    """A `Sender`."""

    patience: float = SENDER_PATIENCE_SECONDS

    def send(self, url: str, messages: Sequence[EventMessage]) -> list[DeliveryAnswer]:
        """Post the messages, up to eight at a time."""
        with ThreadPoolExecutor(_IN_FLIGHT_MAX, thread_name_prefix="send") as pool:
            return list(pool.map(lambda each: self._send(url, each), messages))

    def _send(self, url: str, message: EventMessage) -> DeliveryAnswer:
        started = time.monotonic()
        deadline = started + self.patience
        try:
            with self.exchange("POST", url, message.body, message.headers, deadline) as response:
                answer = _answer(response)
        except NotAllowed:
            answer = DeliveryAnswer(DeliveryOutcome.REFUSED, 0)
        # A malformed response, or an error of a library, is no answer.
        except (OSError, HTTPException, ValueError):
            answer = DeliveryAnswer(DeliveryOutcome.NO_ANSWER, 0)
        milliseconds = int((time.monotonic() - started) * 1000)
        return DeliveryAnswer(
            answer.outcome, milliseconds, answer.status, answer.retry_after, answer.body
        )


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


_PART: Final = 4096


class HttpWitnesses:
    """A `WitnessClient`. `patience` is the longest time of a request in seconds."""

    def __init__(self, patience: float = WITNESS_PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._http = PoolManager(timeout=Timeout(total=patience), retries=False)

    def ask(self, asked: Sequence[tuple[str, bytes]]) -> list[WitnessAnswer]:
        """Post these bodies to these addresses at the same time."""
        if not asked:
            return []
        with ThreadPoolExecutor(len(asked), thread_name_prefix="witness") as pool:
            return list(pool.map(self._post, asked))

    def _post(self, asked: tuple[str, bytes]) -> WitnessAnswer:
        url, body = asked
        deadline = time.monotonic() + self._patience
        try:
            answer = self._http.request(
                "POST", url, body=body, redirect=False, preload_content=False
            )
        except (HTTPError, OSError, ValueError):
            return WitnessAnswer(0)
        try:
            return WitnessAnswer(answer.status, _read(answer, deadline))
        except (HTTPError, OSError, ValueError):
            return WitnessAnswer(0)
        finally:
            answer.close()


def _read(answer: BaseHTTPResponse, deadline: float) -> bytes:
    """Return the whole body. Raises `OSError` if it is too long or too slow."""
    found = b""
    # `read1` returns what has arrived, so that a body that drips is given up in time.
    while part := answer.read1(_PART):
        found += part
        if len(found) > BYTES_MAX or time.monotonic() > deadline:
            raise OSError("the answer of a witness is too long or too slow")
    return found
