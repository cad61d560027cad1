"""Identifiers of warrants, as they are signed (API-15)."""

import re
from typing import Final

WARRANT_ID_PATTERN: Final = "svc_wrt_[A-Za-z0-9_-]{1,64}"
_WARRANT_ID: Final = re.compile(WARRANT_ID_PATTERN)


def is_warrant_id(value: str) -> bool:
    """Return whether `value` is a warrant identifier. Callers choose these themselves (API-15)."""
    return _WARRANT_ID.fullmatch(value) is not None


def warrant_id(value: str) -> str:
    """Return `value`. Raises `ValueError`, for the caller, if it is no warrant identifier."""
    if not is_warrant_id(value):
        raise ValueError("must be svc_wrt_ followed by 1 to 64 letters, digits, '_' or '-'")
    return value
