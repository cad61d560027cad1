"""Conditional requests (RFC 9110, 13.1.2)."""

import re
from typing import Final

from starlette.requests import Request

# An entry of a list of entity tags: what stands between the quotes may hold commas.
_TAG: Final = re.compile(r'(?:^|,)\s*(?:W/)?("[^"]*")\s*(?=,|$)')


def matches(request: Request, *, etag: str) -> bool:
    """Whether the caller holds what `etag` validates, so that 304 says it all."""
    value = ",".join(request.headers.getlist("if-none-match")).strip()
    return value == "*" or etag in _TAG.findall(value)
