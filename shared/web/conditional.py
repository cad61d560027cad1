"""Conditional requests and content codings (SRL-16, SRL-18; RFC 9110)."""

from typing import Any

from starlette.requests import Request

from shared.web import header_values


def condition(description: str) -> dict[str, Any]:
    """Return the declaration of the header `If-None-Match` for the API document.

    FastAPI does not know of it: the endpoint reads it itself, because it may occur more than once.
    """
    schema = {"type": "string"}
    header = {"name": "If-None-Match", "in": "header", "required": False, "schema": schema}
    return {"parameters": [header | {"description": description}]}


def matches(request: Request, *, etag: str) -> bool:
    """Return whether the caller has the representation of `etag`, so that the answer is 304."""
    return not {"*", etag}.isdisjoint(tags(request))


def tags(request: Request) -> list[str]:
    """Return the entity tags in `If-None-Match`, each in quotes, or `*` alone."""
    return header_values.tags(",".join(request.headers.getlist("if-none-match")))


def accepts_gzip(request: Request) -> bool:
    """Return whether the caller accepts gzip, as `header_values.accepts_gzip` says."""
    return header_values.accepts_gzip(",".join(request.headers.getlist("accept-encoding")))
