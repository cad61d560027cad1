"""Conditional requests and content codings (API-23, SRL-18; RFC 9110)."""

import hashlib
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from shared.authorizer.formats import entity_tags
from shared.web import header_values


def condition(description: str) -> dict[str, Any]:
    """Return the declaration of the header `If-None-Match` for the API document.

    FastAPI does not generate it. The endpoint reads the header itself, because it may occur more
    than once.
    """
    schema = {"type": "string"}
    header = {"name": "If-None-Match", "in": "header", "required": False, "schema": schema}
    return {"parameters": [header | {"description": description}]}


def responses(description_304: str, headers: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    """Return the declarations of the statuses 200 and 304, both with these headers."""
    return {200: {"headers": headers}, 304: {"description": description_304, "headers": headers}}


def matches(request: Request, *, etag: str) -> bool:
    """Return whether the caller has the representation of `etag`, which means a 304 response."""
    return entity_tags.is_held(_if_none_match(request), etag)


def json_response_with_etag(request: Request, body: bytes) -> Response:
    """Return a response with JSON and its `ETag`, or 304 if the caller has it."""
    headers = {"ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"'}
    if matches(request, etag=headers["ETag"]):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(body, media_type="application/json", headers=headers)


def tags(request: Request) -> list[str]:
    """Return the entity tags in `If-None-Match`, each in quotes, or `*` alone."""
    return entity_tags.tags(_if_none_match(request))


def _if_none_match(request: Request) -> str:
    return ",".join(request.headers.getlist("if-none-match"))


def accepts_gzip(request: Request) -> bool:
    """Return whether the caller accepts gzip, according to `header_values.accepts_gzip`."""
    return header_values.accepts_gzip(",".join(request.headers.getlist("accept-encoding")))
