"""The header `Idempotency-Key` of a request, and the mark of a repeated response (API-30)."""

import logging
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from shared import logs
from shared.errors import InvalidRequest
from shared.model import idempotency as model
from shared.model.callers import Caller

KEY: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotent-Replayed"

_METHODS: Final = ("POST", "PATCH")
_REPLAY: Final = logs.fields(metrics={"Replays": 1})

_log = logging.getLogger(__name__)


def asked(request: Request, caller: Caller, raw: bytes) -> model.Request | None:
    """Return what the header asks of a request with the body `raw`; None if it asks nothing.

    Raises `InvalidRequest` if the header is malformed or repeated.
    """
    keys = request.headers.getlist(KEY)
    if not keys or request.method not in _METHODS:
        return None
    if len(keys) > 1:
        raise InvalidRequest(f"{KEY}: must not be repeated.")
    path = request.scope["path"]
    try:
        return model.Request.of(caller, method=request.method, path=path, key=keys[0], body=raw)
    except ValueError as error:
        raise InvalidRequest(f"{KEY}: {error}.") from None


def marked(response: Response, *, is_replayed: bool) -> Response:
    """Return the response; if it repeats an earlier one, give it the header and count it."""
    if is_replayed:
        response.headers[REPLAYED] = "true"
        _log.info("replay", extra=_REPLAY)
    return response
