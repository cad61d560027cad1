"""Answers of the service over HTTP, and of them the answer to a poll of the feed."""

import io
import json
import math
import re
import socket
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, Final, NoReturn

from .formats.members import from_base64, to_base64
from .policy import Reason, RefusedAnswer

# The most bytes of an answer, and of a saved one.
ANSWER_BYTES_MAX: Final = 4 * 2**20

# The longest pause between polls that a service can ask for, and the longest time that it waits.
POLL_SECONDS_MAX: Final = 60.0
WAIT_SECONDS_MAX: Final = 60


_BLOCK: Final = 64 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS

# How many characters of an error are reported.
SHOWN_MAX: Final = 200

# The longest time, in seconds, for which the service can ask to be left alone.
_RETRY_AFTER_MAX: Final = 60.0


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
            "head": {"Payload": to_base64(self.payload), "Signature": to_base64(self.signature)},
            "entries": [to_base64(each) for each in self.entries],
            "poll_seconds": self.poll_seconds,
            "wait_max": self.wait_max,
        }
        return json.dumps(members, separators=(",", ":")).encode()


def parse_answer(data: bytes) -> Answer:
    """Return the answer in `data`, the body of a response.

    Raises `RefusedAnswer`: `TOO_LARGE` before anything is parsed, or `MALFORMED`.
    """
    if len(data) > ANSWER_BYTES_MAX:
        raise RefusedAnswer(Reason.TOO_LARGE)
    try:
        members = json.loads(data.decode(), parse_constant=_refuse)
        head, entries = members["head"], members["entries"]
        if type(entries) is not list:
            raise ValueError("entries must be a list")
        return Answer(
            from_base64(head["Payload"]),
            from_base64(head["Signature"]),
            tuple(from_base64(each) for each in entries),
            float(_within(members.get("poll_seconds", 1.0), POLL_SECONDS_MAX)),
            math.floor(_within(members.get("wait_max", 0), WAIT_SECONDS_MAX)),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RefusedAnswer(Reason.MALFORMED) from None


def _within(number: object, most: float) -> float:
    """Return a number, bounded by 0 and `most`: no peer may silence a client for long."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError("it must be a number")
    return min(max(number, 0), most)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


class NoAnswer(Exception):
    """The service did not answer in time, or not with what was asked for.

    `retry_after` is how many seconds it asks to leave it alone.
    """

    def __init__(self, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TooLarge(NoAnswer):
    """The response is larger than it may be. The rest was not read."""


@dataclass(frozen=True, slots=True)
class Response:
    """A response: its status, its headers by their names in lower case, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def age(self) -> int:
        """How many seconds before the request a relay had this from the service; 0 without one.

        Raises `NoAnswer` if `Age` is not a number.
        """
        text = self.headers.get("age", "0")
        if not re.fullmatch("[0-9]{1,10}", text, re.ASCII):
            raise NoAnswer(f"the age of the response is no number of seconds: {text[:20]}")
        return int(text)


def unexpected(response: Response) -> NoAnswer:
    """Return the error that reports a response of another status than was expected."""
    words = response.body[:SHOWN_MAX].decode(errors="replace")
    return NoAnswer(
        f"the service answered {response.status}: {words}",
        retry_after=min(retry_after(response), _RETRY_AFTER_MAX),
    )


def retry_after(response: Response) -> float:
    """Return for how many seconds a response asks to leave the service alone."""
    after = response.headers.get("retry-after", "")
    return float(after) if re.fullmatch("[0-9]{1,9}", after) else 0.0


class Paced:
    """A socket as `HTTPResponse` uses it: what reads from it fails at the deadline."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._deadline = deadline

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002 - it only reads
        """Return a file of what the socket sends."""
        return io.BufferedReader(_PacedFile(self._sock, self._deadline))


class _PacedFile(io.RawIOBase):
    """Waits for the next bytes until the deadline, however few come at a time."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._file = sock.makefile("rb", buffering=0)
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the response took too long")
        self._sock.settimeout(left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


def read_body(response: HTTPResponse, limit: int) -> bytes:
    """Return the body without its content coding. No more than `limit` bytes of it are made."""
    if response.length is None and not response.chunked:
        raise HTTPException("the response does not say how long it is")
    unpack = _coding(response.headers.get("Content-Encoding", "identity"))
    # It gives its bytes away without a copy, of which a base would be a large one.
    made, left, is_empty = io.BytesIO(), limit, True
    while block := response.read(_BLOCK):
        is_empty = False
        left -= made.write(unpack.decompress(block, left + 1) if unpack else block)
        if left < 0:
            raise TooLarge(f"the response has more than {limit} bytes")
    # `read` reports no end that comes too early.
    if response.length or (unpack and not unpack.eof and not is_empty):
        raise HTTPException("the response ended early")
    return made.getvalue()


def _coding(name: str) -> Any:
    if name not in {"gzip", "identity"}:
        raise HTTPException(f"the response has the content coding {name[:20]}")
    return zlib.decompressobj(_GZIP) if name == "gzip" else None
