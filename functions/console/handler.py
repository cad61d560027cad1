"""Serves the console over API Gateway: the page at `/`, other files below `/console/`.

This function has no store and no keys. It loads no web framework, so it starts quickly.
"""

import base64
import json
import os
import secrets
from datetime import UTC, datetime
from typing import Any, Final

from functions.console.files import FileAnswer, Files, is_page
from shared.authorizer.formats.addresses import find_subscriber
from shared.errors import RateLimited
from shared.settings import base_path
from shared.web import strangers

_FILES: Final = Files()
_BASE: Final = base_path(os.environ).rstrip("/")
_ANONYMOUS: Final = strangers.AnonymousLimiter(lambda: datetime.now(UTC))

# API Gateway serves only HTTPS.
_HTTPS: Final = {"Strict-Transport-Security": "max-age=31536000"}

_RATE_LIMITED: Final = {"code": RateLimited.code, "message": str(RateLimited(retry_after=1))}
_UNAUTHORIZED: Final = {
    "code": "unauthorized",
    "message": "Authorization: the header is required; send Bearer and an API key.",
}
_NOT_FOUND: Final = {"code": "not_found", "message": "There is no such endpoint."}


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Answer an HTTP API event (payload format 2.0).

    Bodies may be compressed, and are therefore in base64.
    """
    source = find_subscriber(event["requestContext"]["http"]["sourceIp"])
    try:
        _ANONYMOUS.take(source)
        answer = _answer(event)
    except RateLimited as error:
        answer = _refusal(429, _RATE_LIMITED, {"Retry-After": str(error.retry_after)})
    # The headers of every response (API-8).
    common = {"X-Content-Type-Options": "nosniff", "X-Request-Id": secrets.token_hex(16)}
    for name, value in strangers.headers(_ANONYMOUS.look(source)):
        common[name.decode()] = value.decode()
    return {
        "statusCode": answer.status,
        "headers": common | answer.headers | _HTTPS,
        "body": base64.b64encode(answer.body).decode(),
        "isBase64Encoded": True,
    }


def _answer(event: dict[str, Any]) -> FileAnswer:
    request, path = event["requestContext"]["http"], event["rawPath"]
    # AWS sends lower case; SAM local does not.
    asked = {name.lower(): value for name, value in event["headers"].items()}
    if _BASE and _BASE in {path, request["path"]}:
        # The page has relative addresses, so its address must end with a slash.
        return FileAnswer(308, {"Location": f"{_BASE}/"}, b"")
    if path not in _FILES.paths and path.startswith(f"{_BASE}/"):
        path = path.removeprefix(_BASE)
    if is_page(path, asked.get("accept", "")):
        return _FILES.answer(request["method"], path, asked, event["rawQueryString"])
    # Programs get the API's response for `/`, which has no endpoint.
    if "authorization" in asked:
        return _refusal(404, _NOT_FOUND, {})
    return _refusal(401, _UNAUTHORIZED, {"WWW-Authenticate": "Bearer"})


def _refusal(status: int, error: dict[str, str], more: dict[str, str]) -> FileAnswer:
    """Return an error in the API's format (API-10)."""
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store", **more}
    return FileAnswer(status, headers, json.dumps({"error": error}).encode())
