"""Reading a request body: bounded, JSON, and strictly so (decisions 1, body)."""

import re
from typing import Any, Final

from starlette.requests import Request

from shared.errors import InvalidRequest, PayloadTooLarge, UnsupportedMediaType
from shared.model import strict_json

BODY_MAX: Final = 256 * 1024

_JSON: Final = re.compile(r'application/json(\s*;\s*charset="?utf-8"?)?\s*', re.IGNORECASE)


class ParsedRequest(Request):
    """A request whose body was read and parsed already, for FastAPI to validate."""

    def __init__(self, request: Request, raw: bytes, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._raw = raw
        self.value = value

    async def body(self) -> bytes:
        """The body as it came."""
        return self._raw

    async def json(self) -> Any:
        """The value of the body."""
        return self.value


async def read(request: Request, *, limit: int) -> ParsedRequest:
    """The request with its body, of at most `limit` bytes, read and parsed.

    Raises `PayloadTooLarge`, `UnsupportedMediaType`, `InvalidRequest`.
    """
    raw = await _bounded(request, limit)
    if not raw:
        return ParsedRequest(request, raw, None)
    if not _JSON.fullmatch(", ".join(request.headers.getlist("content-type"))):
        raise UnsupportedMediaType
    try:
        return ParsedRequest(request, raw, strict_json.parse(raw))
    except ValueError as error:
        raise InvalidRequest(f"body: {error}.") from None


async def _bounded(request: Request, limit: int) -> bytes:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        # Stop reading: what is declared or chunked beyond this is never held in memory.
        if len(raw) > limit:
            raise PayloadTooLarge(limit)
    return bytes(raw)
