"""Conditional requests and content codings (SRL-16, SRL-18; RFC 9110)."""

import re
from typing import Any, Final

from starlette.requests import Request

# An entry of a list of entity tags. The quoted text may contain commas.
_TAG: Final = re.compile(r'(?:^|,)\s*(?:W/)?("[^"]*")\s*(?=,|$)')

_WEIGHT: Final = re.compile(r"[qQ]=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?)")


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
    value = ",".join(request.headers.getlist("if-none-match")).strip()
    return ["*"] if value == "*" else _TAG.findall(value)


def accepts_gzip(request: Request) -> bool:
    """Return whether the caller names gzip among its codings and does not prefer identity.

    By the standard, a caller who names no coding accepts any, but many of them cannot read gzip.
    """
    weights: dict[str, float] = {}
    for entry in ",".join(request.headers.getlist("accept-encoding")).split(","):
        coding, _, parameter = entry.partition(";")
        weight = _WEIGHT.fullmatch(parameter.strip()) if parameter else None
        if parameter and weight is None:
            continue  # malformed, so ignored
        weights[coding.strip().lower()] = float(weight[1]) if weight else 1.0
    gzip = weights.get("gzip", 0.0)
    return gzip > 0 and gzip >= weights.get("identity", 0.0)
