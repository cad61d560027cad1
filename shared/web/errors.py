"""Errors as responses: the table of statuses, and the body (API-9, API-10)."""

import json
from collections.abc import Iterable
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from shared import errors


class Unauthorized(errors.RequestError):
    """There is no Authorization header, or its scheme is not Bearer."""

    code = "unauthorized"


class MethodNotAllowed(errors.RequestError):
    """The route exists, but not with this method. `allow` has the supported methods."""

    code = "method_not_allowed"

    def __init__(self, allow: Iterable[str]) -> None:
        self.allow = tuple(sorted(allow))
        super().__init__(f"This path allows the method {' or '.join(self.allow)}.")


class NotAcceptable(errors.RequestError):
    """The service has no representation of the resource that the caller accepts."""

    code = "not_acceptable"


class NotSupported(errors.RequestError):
    """The service does not implement the value of a parameter."""

    code = "not_supported"


class PayloadTooLarge(errors.RequestError):
    """The body is larger than the endpoint accepts."""

    code = "payload_too_large"

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body must have at most {limit} bytes.")


class UnsupportedMediaType(errors.RequestError):
    """The content type of the body is not JSON, or the body is compressed."""

    code = "unsupported_media_type"


STATUS: Final[dict[type[errors.RescindError], int]] = {
    errors.InvalidRequest: 400,
    errors.NotSignedByRoots: 400,
    Unauthorized: 401,
    errors.InvalidApiKey: 401,
    errors.ReauthenticationRequired: 401,
    errors.InsufficientScope: 403,
    errors.ApprovalRequired: 403,
    errors.NotFound: 404,
    MethodNotAllowed: 405,
    NotAcceptable: 406,
    errors.InvalidState: 409,
    errors.Conflict: 409,
    errors.TooFewApprovers: 409,
    errors.ListFull: 409,
    errors.TrustUnsigned: 409,
    errors.Gone: 410,
    PayloadTooLarge: 413,
    UnsupportedMediaType: 415,
    errors.RateLimited: 429,
    errors.AuthorizerLimit: 429,
    NotSupported: 501,
}

_UNAVAILABLE: Final = "The service cannot answer now; retry after the time in Retry-After."
_INTERNAL: Final = "The service failed; report the X-Request-Id of this response to its operator."


def code_of(error: Exception) -> str:
    """Return the error code of API-10, or `client_disconnected`, which is only logged."""
    if isinstance(error, ClientDisconnect):
        return "client_disconnected"
    if isinstance(error, errors.RequestError | errors.Unavailable):
        return error.code
    return "internal_error"


def message_of(error: Exception) -> str:
    """Return the message for a caller. The text of an unexpected error is omitted."""
    if isinstance(error, errors.RequestError):
        return str(error)
    return _UNAVAILABLE if isinstance(error, errors.Unavailable) else _INTERNAL


def response(error: Exception) -> Response:
    """Return the response for `error`."""
    status, headers = 500, dict[str, str]()
    if isinstance(error, errors.RequestError):
        status, headers = STATUS[type(error)], _headers(error)
    elif isinstance(error, errors.Unavailable):
        status, headers = 503, {"Retry-After": str(error.retry_after)}
    body = json.dumps({"error": {"code": code_of(error), "message": message_of(error)}})
    return Response(body, status, headers, media_type="application/json")


def _headers(error: errors.RequestError) -> dict[str, str]:
    match error:
        case Unauthorized() | errors.InvalidApiKey():
            return {"WWW-Authenticate": "Bearer"}
        case errors.ReauthenticationRequired():
            # RFC 9470 3
            challenge = 'Bearer error="insufficient_user_authentication", max_age=900'
            return {"WWW-Authenticate": challenge}
        case errors.InsufficientScope():
            # RFC 6750 3.1
            accepted = f', scope="{" ".join(error.scopes)}"' if error.scopes else ""
            return {"WWW-Authenticate": f'Bearer error="insufficient_scope"{accepted}'}
        case MethodNotAllowed():
            return {"Allow": ", ".join(error.allow)}
        case errors.RateLimited() | errors.Conflict(retry_after=int()):
            return {"Retry-After": str(error.retry_after)}
        case _:
            return {}
