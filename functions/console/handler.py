"""The console's files over API Gateway: the page at `/`, the others below `/console/`.

This function has no store and no keys. It loads no web framework, so that it starts quickly.
"""

import base64
import json
import os
import secrets
import time
from typing import Any, Final

from functions.console.files import Answer, Files, is_page
from shared.model.rate_limit import RATE_PER_SECOND
from shared.settings import base_path

_FILES: Final = Files()
_BASE: Final = base_path(os.environ).rstrip("/")

# API Gateway has only addresses with https.
_HTTPS: Final = {"Strict-Transport-Security": "max-age=31536000"}

_UNAUTHORIZED: Final = {
    "code": "unauthorized",
    "message": "Authorization: the header is required, as Bearer and an API key.",
}
_NOT_FOUND: Final = {"code": "not_found", "message": "There is no such endpoint."}


def handler(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """Answer an event of an HTTP API (payload format 2.0). Bodies are compressed, so base64."""
    request, path = event["requestContext"]["http"], event["rawPath"]
    # Lower case already on AWS, but not in SAM local.
    asked = {name.lower(): value for name, value in event["headers"].items()}
    if _BASE and _BASE in {path, request["path"]}:
        # The addresses on the page continue its own, which must therefore end with a slash.
        return _sent(Answer(308, {"Location": f"{_BASE}/"}, b""))
    if path not in _FILES.paths and path.startswith(f"{_BASE}/"):
        path = path.removeprefix(_BASE)
    if not is_page(path, asked.get("accept", "")):
        return _sent(_for_a_program(asked))
    return _sent(_FILES.answer(request["method"], path, asked))


def _for_a_program(asked: dict[str, str]) -> Answer:
    """Return what the API answers at `/`, where it has no endpoint (API-8, API-10)."""
    is_named = "authorization" in asked
    error = _NOT_FOUND if is_named else _UNAUTHORIZED
    headers = {
        "Content-Type": "application/json",
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        "X-Request-Id": secrets.token_hex(16),
        # No token was taken, so that the bucket is full.
        "X-RateLimit-Limit": str(RATE_PER_SECOND),
        "X-RateLimit-Remaining": str(RATE_PER_SECOND),
        "X-RateLimit-Reset": str(int(time.time())),
    } | ({} if is_named else {"WWW-Authenticate": "Bearer"})
    return Answer(404 if is_named else 401, headers, json.dumps({"error": error}).encode())


def _sent(answer: Answer) -> dict[str, Any]:
    return {
        "statusCode": answer.status,
        "headers": answer.headers | _HTTPS,
        "body": base64.b64encode(answer.body).decode(),
        "isBase64Encoded": True,
    }
