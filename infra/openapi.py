"""The OpenAPI document of the whole API, made from the routes (`make openapi` writes it to docs/).

What FastAPI cannot know is added here: the gate's answers, the headers of every response, and the
scopes, which are read from the operations.
"""

import inspect
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from infra.routers import ROUTERS
from shared import errors
from shared.model.callers import Scope
from shared.web.errors import STATUS

PATH: Final = Path(__file__).parent.parent / "docs" / "openapi.json"

# Whatever the endpoint, these can come of its caller, its parameters, its body or its stores.
_ALWAYS: Final = (
    errors.InvalidRequest,
    errors.Unauthorized,
    errors.InvalidApiKey,
    errors.PayloadTooLarge,
    errors.UnsupportedMediaType,
    errors.RateLimited,
)

_ERROR_SCHEMA: Final = {
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "additionalProperties": False,
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
        }
    },
}

# The headers of every response, of some statuses, and what they say.
_COMMON: Final = (
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    "X-Request-Id",
    "X-Content-Type-Options",
    "Cache-Control",
)
_OF_STATUS: Final = {
    "401": "WWW-Authenticate",
    "403": "WWW-Authenticate",
    "429": "Retry-After",
    "503": "Retry-After",
}
_HEADERS: Final = {
    "X-RateLimit-Limit": ("integer", "Requests a second that the bucket allows."),
    "X-RateLimit-Remaining": ("integer", "Tokens left, at most the limit."),
    "X-RateLimit-Reset": ("integer", "Unix second at which the bucket is full again."),
    "X-Request-Id": ("string", "Names this request in the log of the service."),
    "X-Content-Type-Options": ("string", "nosniff."),
    "Cache-Control": ("string", "no-store, except on the Signed Revocation List."),
    "WWW-Authenticate": ("string", "Bearer; with 403, the scopes that the endpoint accepts."),
    "Retry-After": ("integer", "Seconds."),
}


def document() -> dict[str, Any]:
    """The document, as JSON values."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    made = get_openapi(
        title="Rescind",
        version="1",
        description="Whether signed grants of authority still hold, and the list of those that "
        "do not.",
        routes=routes,
    )
    made["components"]["securitySchemes"] = {
        "apiKey": {"type": "http", "scheme": "bearer", "bearerFormat": "svc_ and 43 characters"}
    }
    schemas = made["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Error"] = _ERROR_SCHEMA
    made["components"]["headers"] = {
        name: {"schema": {"type": kind}, "description": what, "required": True}
        for name, (kind, what) in _HEADERS.items()
    }
    shared: dict[str, Any] = {}
    made["components"]["responses"] = shared
    for route in routes:
        for method in route.methods or ():
            _complete(made["paths"][route.path_format][method.lower()], route, shared)
    return made


def text() -> str:
    """The document as it is kept."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def _complete(described: dict[str, Any], route: APIRoute, shared: dict[str, Any]) -> None:
    """Add what every endpoint has in common, and what this one's operation says."""
    operation = route.endpoint.operation  # type: ignore[attr-defined]
    raises = {*_ALWAYS, *route.endpoint.raises}  # type: ignore[attr-defined]
    if set(operation.scopes) != set(Scope):
        raises.add(errors.InsufficientScope)
    described["tags"] = [route.path.split("/")[2]]
    # Python 3.13 takes the indentation out of a docstring when it compiles it; the others do not.
    what = inspect.cleandoc(operation.__doc__)
    described["description"] = f"{what}\n\nScopes: {', '.join(operation.scopes)}."
    described["security"] = [{"apiKey": []}]
    described["x-scopes"] = list(operation.scopes)
    responses = described["responses"]
    responses.pop("422", None)
    for status, response in responses.items():
        response.setdefault("headers", {}).update(_headers(status))
    for status, codes in _codes(raises).items():
        name = "-".join((status, *codes))
        shared[name] = _error(codes) | {"headers": _headers(status)}
        responses[status] = {"$ref": f"#/components/responses/{name}"}


def _headers(status: str) -> dict[str, Any]:
    names = [*_COMMON, *([_OF_STATUS[status]] if status in _OF_STATUS else [])]
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _codes(raises: Iterable[type[errors.RequestError]]) -> dict[str, list[str]]:
    codes: dict[str, list[str]] = {"500": ["internal_error"], "503": [errors.Unavailable.code]}
    for error in sorted(raises, key=lambda each: each.code):
        codes.setdefault(str(STATUS[error]), []).append(error.code)
    return codes


def _error(codes: list[str]) -> dict[str, Any]:
    examples = {
        code: {"value": {"error": {"code": code, "message": "What is wrong, what is allowed."}}}
        for code in codes
    }
    content = {"schema": {"$ref": "#/components/schemas/Error"}, "examples": examples}
    return {"description": " or ".join(codes), "content": {"application/json": content}}


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
    print(f"wrote {PATH.name}", file=sys.stderr)
