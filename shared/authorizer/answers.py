"""Responses of the service, in particular the response to a poll of the feed."""

import json
import math
import re
from dataclasses import dataclass
from typing import Final

from .formats.members import from_base64, parse_json, to_base64
from .http1 import Response as Response
from .http1 import printable, retry_after
from .policy import RejectionReason, ResponseRejectedError

# Maximum size of a response, and of a saved response, in bytes.
ANSWER_BYTES_MAX: Final = 4 * 2**20

# The longest pause between polls, and the longest long poll, that a service can set.
POLL_SECONDS_MAX: Final = 60.0
WAIT_SECONDS_MAX: Final = 60

# Larger values of `Age` are clamped to this number of seconds.
_AGE_MAX: Final = 2**31
_AGE: Final = re.compile("[ \t]*([0-9]+)[ \t]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class FeedResponse:
    """A signed feed head and the entries up to it, all still encoded.

    `poll_seconds` is the pause between polls that the service requests. `max_wait_seconds` is the
    longest long poll of the service, in seconds. Neither value is signed.
    """

    payload: bytes
    signature: bytes
    entries: tuple[bytes, ...] = ()
    poll_seconds: float = 1.0
    max_wait_seconds: int = 0

    def encode(self) -> bytes:
        """Return the JSON that `parse_answer` reads, for saving or forwarding."""
        members = {
            "head": {"Payload": to_base64(self.payload), "Signature": to_base64(self.signature)},
            "entries": [to_base64(each) for each in self.entries],
            "poll_seconds": self.poll_seconds,
            "max_wait_seconds": self.max_wait_seconds,
        }
        return json.dumps(members, separators=(",", ":")).encode()


def parse_answer(data: bytes) -> FeedResponse:
    """Parse `data`, the body of a response.

    Raises `ResponseRejectedError`: `TOO_LARGE` before parsing begins, or `MALFORMED`.
    """
    if len(data) > ANSWER_BYTES_MAX:
        raise ResponseRejectedError(RejectionReason.TOO_LARGE)
    try:
        members = parse_json(data)
        head, entries = members["head"], members["entries"]
        if type(entries) is not list:
            raise ValueError("entries must be a list")
        return FeedResponse(
            from_base64(head["Payload"]),
            from_base64(head["Signature"]),
            tuple(from_base64(each) for each in entries),
            float(_clamp(members.get("poll_seconds", 1.0), POLL_SECONDS_MAX)),
            math.floor(_clamp(members.get("max_wait_seconds", 0), WAIT_SECONDS_MAX)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ResponseRejectedError(RejectionReason.MALFORMED) from None


def _clamp(number: object, most: float) -> float:
    """Clamp a number to 0 and `most`, because no peer may silence a client for long."""
    if type(number) is not int and (type(number) is not float or not math.isfinite(number)):
        raise TypeError("it must be a finite number")
    return min(max(number, 0), most)


class NoResponse(Exception):
    """The service did not respond in time, or responded with an error.

    `retry_after` is the number of seconds to wait, as the service requested.
    """

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TooLarge(NoResponse):
    """The response exceeds its size limit. The rest was not read."""


def read_age(response: Response) -> int:
    """Return the age of a response in seconds (FEED-12), or 0 without `Age`.

    Raises `NoResponse` if `Age` is not a number or is repeated.
    """
    number = _AGE.fullmatch(response.headers.get("age", "0"))
    if number is None:
        raise NoResponse("the Age of the response is not a number of seconds")
    return int(min(float(number[1]), _AGE_MAX))


def unexpected_status_error(response: Response) -> NoResponse:
    """Return the error for a response with an unexpected status."""
    text = printable(response.body.decode(errors="replace"))
    message = f"the service answered {response.status}: {text}"
    return NoResponse(message, retry_after=retry_after(response) or 0.0)
