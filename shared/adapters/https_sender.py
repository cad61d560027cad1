"""The sender on the sockets of this machine."""

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from typing import Final

from shared.adapters.https import Https, NotAllowed
from shared.adapters.https import resolve as resolve
from shared.model.webhooks.deliveries import (
    ANSWER_MAX,
    RETRY_AFTER_MAX,
    DeliveryAnswer,
    DeliveryOutcome,
    EventMessage,
)
from shared.ports.outside import SENDER_PATIENCE_SECONDS

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
