"""The answer to a poll of the feed, as JSON."""

import base64
import json
import math
from dataclasses import dataclass
from typing import Final, NoReturn

from .refusals import Reason, Refused

# The most bytes of an answer, and of a saved one.
ANSWER_BYTES_MAX: Final = 4 * 2**20

# The longest pause between polls that a service can ask for, and the longest time that it waits.
POLL_SECONDS_MAX: Final = 60.0
WAIT_SECONDS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Answer:
    """A signed head, still encoded, and the encoded entries that end at it.

    `poll_seconds` is the pause between polls that the service asks for, `wait_max` the longest
    time in seconds for which it delays an answer until there is an entry. Neither is signed.
    """

    payload: bytes
    signature: bytes
    entries: tuple[bytes, ...] = ()
    poll_seconds: float = 1.0
    wait_max: int = 0

    def encode(self) -> bytes:
        """Return the JSON that `parse_answer` reads, to save it or to pass it on."""
        members = {
            "head": {"Payload": _text(self.payload), "Signature": _text(self.signature)},
            "entries": [_text(each) for each in self.entries],
            "poll_seconds": self.poll_seconds,
            "wait_max": self.wait_max,
        }
        return json.dumps(members, separators=(",", ":")).encode()


def parse_answer(data: bytes) -> Answer:
    """Return the answer in `data`, the body of a response.

    Raises `Refused`: `TOO_LARGE` before anything is parsed, or `MALFORMED`.
    """
    if len(data) > ANSWER_BYTES_MAX:
        raise Refused(Reason.TOO_LARGE)
    try:
        members = json.loads(data.decode(), parse_constant=_refuse)
        head, entries = members["head"], members["entries"]
        if type(entries) is not list:
            raise ValueError("entries must be a list")
        return Answer(
            _bytes(head["Payload"]),
            _bytes(head["Signature"]),
            tuple(_bytes(each) for each in entries),
            float(_within(members.get("poll_seconds", 1.0), POLL_SECONDS_MAX)),
            math.floor(_within(members.get("wait_max", 0), WAIT_SECONDS_MAX)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Refused(Reason.MALFORMED) from None


def _bytes(text: object) -> bytes:
    """Return what padded base64 of the standard alphabet encodes, in its only form."""
    if type(text) is not str:
        raise TypeError("base64 must be a text")
    data = base64.b64decode(text)
    # The decoder leaves out what is not in the alphabet, and unused bits.
    if _text(data) != text:
        raise ValueError("it must be base64 as an encoder writes it")
    return data


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _within(number: object, most: float) -> float:
    """Return a number, bounded by 0 and `most`: no peer may silence a client for long."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError("it must be a number")
    return min(max(number, 0), most)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
