"""Conditional requests (RFC 9110, 13.1.2)."""

from starlette.requests import Request


def matches(request: Request, *, etag: str) -> bool:
    """Whether the caller holds what `etag` validates, so that 304 says it all."""
    values = ",".join(request.headers.getlist("if-none-match")).split(",")
    held = {value.strip().removeprefix("W/") for value in values}
    return etag in held or "*" in held
