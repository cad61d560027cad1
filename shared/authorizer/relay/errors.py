"""Errors of a relay, in the form of the contract (API-9)."""

from typing import Final

from starlette.responses import JSONResponse, Response

_SECONDS: Final = "1"


class Problem(Exception):
    """An error with a status and a code, and with `Retry-After` in seconds for 429 and 503."""

    def __init__(self, status: int, code: str, message: str, seconds: str = _SECONDS) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self._seconds = seconds

    def response(self) -> Response:
        """Return the error as a response."""
        retry = {"Retry-After": self._seconds}
        more = {401: {"WWW-Authenticate": "Bearer"}, 429: retry, 503: retry}.get(self.status, {})
        body = {"error": {"code": self.code, "message": str(self)}}
        return JSONResponse(body, self.status, {"Cache-Control": "no-store"} | more)
