"""Reading a request body: bounded, JSON, and strictly so (API-3)."""

import re
from contextlib import aclosing
from typing import Any, Final, NamedTuple

from starlette.requests import Request

from shared.errors import InvalidRequest
from shared.model import strict_json
from shared.web.errors import PayloadTooLarge, UnsupportedMediaType

BODY_MAX: Final = 256 * 1024

# JSON is UTF-8 whatever a parameter says (RFC 8259, 8.1 and 11), so parameters are ignored.
_JSON: Final = re.compile(r"application/json\s*(;.*)?", re.IGNORECASE)


class Body(NamedTuple):
    """The body of a request as it came, and the JSON value that it is; None where it is empty."""

    raw: bytes
    value: Any


def parse(request: Request, raw: bytes) -> Body:
    """The body of the request, whose bytes were read.

    Raises `UnsupportedMediaType`, `InvalidRequest`.
    """
    if not raw:
        return Body(raw, None)
    _check_type(request)
    try:
        return Body(raw, strict_json.parse(raw))
    except ValueError as error:
        raise InvalidRequest(f"body: {error}.") from None


def _check_type(request: Request) -> None:
    types = request.headers.getlist("content-type")
    if len(types) != 1 or not _JSON.fullmatch(types[0]):
        raise UnsupportedMediaType("Content-Type: a body must be sent as application/json.")
    encodings = request.headers.getlist("content-encoding")
    if any(each.strip().lower() != "identity" for each in encodings):
        raise UnsupportedMediaType("Content-Encoding: a body must be sent as it is (identity).")


async def read(request: Request, *, limit: int) -> bytes:
    """The bytes of the request's body, at most `limit`. Raises `PayloadTooLarge`."""
    raw = bytearray()
    # A generator that is left unfinished is closed by the garbage collector, in another task.
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            raw += chunk
            # Stop reading: what is declared or chunked beyond this is never held in memory.
            if len(raw) > limit:
                raise PayloadTooLarge(limit)
    return bytes(raw)
