"""Request bodies: limited in size, and strict JSON (API-3)."""

import re
from contextlib import aclosing
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from starlette.requests import Request

from shared.authorizer.formats import strict_json
from shared.errors import InvalidRequest
from shared.web.errors import PayloadTooLarge, UnsupportedMediaType

# In bytes; the second is for the calls that name up to 1,000 warrants.
BODY_MAX: Final = 256 * 1024
BATCH_BODY_MAX: Final = 1024 * 1024

# JSON is always UTF-8 (RFC 8259, 8.1 and 11), so parameters are ignored.
_JSON: Final = re.compile(r"application/json\s*(;.*)?", re.IGNORECASE)
_FORM: Final = "application/x-www-form-urlencoded"
_PARAMETERS_MAX: Final = 20


class Body(NamedTuple):
    """The bytes of a request body and its JSON value, which is None for an empty body."""

    raw: bytes
    value: Any


def parse(request: Request, raw: bytes) -> Body:
    """Parse the bytes of a request body.

    Raises `UnsupportedMediaType`, `InvalidRequest`.
    """
    if not raw:
        return Body(raw, None)
    types = request.headers.getlist("content-type")
    if len(types) != 1 or not _JSON.fullmatch(types[0]):
        raise UnsupportedMediaType("Content-Type: a body must be sent as application/json.")
    _check_coding(request)
    try:
        return Body(raw, strict_json.parse(raw))
    except ValueError as error:
        raise InvalidRequest(f"body: {error}.") from None


def form(request: Request, raw: bytes) -> dict[str, str]:
    """Return the parameters of an OAuth form.

    Raises `InvalidRequest`, and `UnsupportedMediaType` if the body is compressed.
    """
    _check_coding(request)
    types = request.headers.getlist("content-type")
    try:
        if len(types) != 1 or types[0].partition(";")[0].strip().lower() != _FORM:
            raise ValueError("it is not a form")
        # Empty pairs, for example after a trailing "&", are ignored (URL Standard, 5.1).
        given = "&".join(filter(None, raw.decode("ascii").split("&")))
        pairs = parse_qsl(
            given,
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=_PARAMETERS_MAX,
        )
    except ValueError:
        raise InvalidRequest(f"The body must be a form, sent as {_FORM}.") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidRequest("A parameter must not be repeated.")
    return found


def _check_coding(request: Request) -> None:
    encodings = request.headers.getlist("content-encoding")
    if any(each.strip().lower() != "identity" for each in encodings):
        raise UnsupportedMediaType("Content-Encoding: a body must not be compressed.")


async def read_body(request: Request, *, limit: int) -> bytes:
    """Return at most `limit` bytes of request body. Raises `PayloadTooLarge`."""
    raw = bytearray()
    # The garbage collector would close an unfinished generator in another task.
    async with aclosing(request.stream()) as chunks:
        async for chunk in chunks:
            raw += chunk
            # Stop reading to keep longer bodies out of memory.
            if len(raw) > limit:
                raise PayloadTooLarge(limit)
    return bytes(raw)
