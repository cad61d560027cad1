"""HTTPS to servers of third parties: webhooks, identity providers, witnesses.

It uses the sockets of this machine.
"""

import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import quote_plus, urlencode

from shared.authorizer import http1
from shared.authorizer.http1 import Connection, HttpError, Request, Response, connect, wrap
from shared.model.outbound import (
    ANSWER_MAX,
    PORT,
    RETRY_AFTER_MAX,
    DeliveryOutcome,
    DeliveryResponse,
    EventMessage,
    Network,
    is_allowed,
)
from shared.ports.outside import (
    OUTBOUND_ANSWER_MAX,
    OUTBOUND_PATIENCE_SECONDS,
    SENDER_PATIENCE_SECONDS,
    WITNESS_BYTES_MAX,
    WITNESS_PATIENCE_SECONDS,
    OutboundAnswer,
    WitnessAnswer,
)

# Returns the IP addresses of a name. Raises `OSError` if there are none.
Resolve = Callable[[str], list[str]]

# Further addresses of a name are not tried.
_ADDRESSES_MAX: Final = 4


def resolve(name: str) -> list[str]:
    """Return the addresses of a name, in order of preference. Raises `OSError`."""
    return http1.resolve(name, PORT)


class AddressNotAllowed(Exception):
    """The name has an address that must not be connected to."""


@dataclass(frozen=True, slots=True)
class HttpsClient:
    """An `OutboundHttp`. `networks` are allowed in addition to public addresses.

    Tests set the other attributes: the resolver, the port in place of 443, the trusted
    certificates, and the request timeout in seconds.
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
            # RFC 6749, 2.3.1
            pair = ":".join(map(quote_plus, user))
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        body = None if form is None else urlencode(form).encode()
        method = "GET" if form is None else "POST"
        deadline = time.monotonic() + self.patience
        try:
            request = Request.parse(url, method=method, headers=headers, body=body)
            found = self.exchange(request, deadline, limit=OUTBOUND_ANSWER_MAX)
        except AddressNotAllowed:
            return OutboundAnswer(DeliveryOutcome.BLOCKED)
        except (OSError, HttpError, ValueError):
            return OutboundAnswer(DeliveryOutcome.NO_RESPONSE)
        return OutboundAnswer(DeliveryOutcome.RESPONSE, found.status, found.body)

    def exchange(
        self, request: Request, deadline: float, *, limit: int, prefix: bool = False
    ) -> Response:
        """Return the response to a request on a new connection; see `Connection.exchange`.

        Raises `AddressNotAllowed`, `OSError`, `HttpError`, `ValueError`.
        """
        name, port = request.url.hostname or "", request.url.port or PORT
        addresses = _resolve_within(deadline, lambda: self.resolve(name))
        if not addresses:
            raise OSError("the name has no address")
        if not all(is_allowed(each, self.networks, port) for each in addresses):
            raise AddressNotAllowed
        port = self.port if port == PORT else port
        # The name is not resolved again, because the result could then differ from the checked
        # addresses.
        plain = http1.open_socket(addresses[:_ADDRESSES_MAX], port, deadline)
        with closing(Connection(wrap(plain, self.context, name, deadline))) as connection:
            headers = {"Accept-Encoding": "identity", **request.headers, "Connection": "close"}
            request = replace(request, headers=headers, until_close=True)
            return connection.exchange(request, deadline, limit=limit, prefix=prefix)


def _resolve_within(deadline: float, look_up: Callable[[], list[str]]) -> list[str]:
    """Return the addresses from `look_up`, within the deadline.

    The resolver of the operating system has no timeout. Raises `OSError`.
    """
    found: list[list[str]] = []

    def run() -> None:
        try:
            found.append(look_up())
        # `UnicodeError` is raised for a label that is too long.
        except (OSError, ValueError):
            found.append([])

    thread = threading.Thread(target=run, name="resolve", daemon=True)
    thread.start()
    thread.join(max(deadline - time.monotonic(), 0))
    if not found:
        raise TimeoutError("the name was not resolved in time")
    return found[0]


_IN_FLIGHT_MAX: Final = 8


@dataclass(frozen=True, slots=True)
class HttpsSender(HttpsClient):
    """A `Sender`."""

    patience: float = SENDER_PATIENCE_SECONDS

    def send(self, url: str, messages: Sequence[EventMessage]) -> list[DeliveryResponse]:
        """Post the messages, up to eight at a time."""
        with ThreadPoolExecutor(_IN_FLIGHT_MAX, thread_name_prefix="send") as pool:
            return list(pool.map(lambda each: self._send(url, each), messages))

    def _send(self, url: str, message: EventMessage) -> DeliveryResponse:
        started = time.monotonic()
        try:
            request = Request.parse(url, method="POST", headers=message.headers, body=message.body)
            deadline = started + self.patience
            # The status counts, even if the body is cut.
            response = self.exchange(request, deadline, limit=ANSWER_MAX, prefix=True)
            answer = DeliveryResponse(
                DeliveryOutcome.RESPONSE,
                0,
                status=response.status,
                retry_after=_retry_after(response),
                body=response.body.decode(errors="replace"),
            )
        except AddressNotAllowed:
            answer = DeliveryResponse(DeliveryOutcome.BLOCKED, 0)
        except (OSError, HttpError, ValueError):
            answer = DeliveryResponse(DeliveryOutcome.NO_RESPONSE, 0)
        return replace(answer, duration_ms=int((time.monotonic() - started) * 1000))


def _retry_after(response: Response) -> int | None:
    """Return the seconds from `Retry-After`, given as a number or a date; None if invalid."""
    wait = http1.retry_after(response)
    if wait is None:
        with suppress(ValueError, OverflowError, TypeError):
            moment = parsedate_to_datetime(response.headers.get("retry-after", ""))
            wait = (moment.astimezone(UTC) - datetime.now(UTC)).total_seconds()
    return None if wait is None else int(min(max(wait, 0), RETRY_AFTER_MAX))


class HttpWitnesses:
    """A `WitnessClient`. `patience` is the request timeout in seconds."""

    def __init__(self, patience: float = WITNESS_PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._context = ssl.create_default_context()

    def ask(self, requests: Sequence[tuple[str, bytes]]) -> list[WitnessAnswer]:
        """Post each body to its address concurrently."""
        if not requests:
            return []
        with ThreadPoolExecutor(len(requests), thread_name_prefix="witness") as pool:
            return list(pool.map(self._post, requests))

    def _post(self, asked: tuple[str, bytes]) -> WitnessAnswer:
        url, body = asked
        deadline = time.monotonic() + self._patience
        try:
            headers = {"Connection": "close"}
            request = Request.parse(url, method="POST", headers=headers, body=body)
            request = replace(request, until_close=True)
            with closing(connect(request.url, self._context, deadline)) as connection:
                found = connection.exchange(request, deadline, limit=WITNESS_BYTES_MAX)
        except (OSError, HttpError, ValueError):
            return WitnessAnswer(0)
        return WitnessAnswer(found.status, found.body)
