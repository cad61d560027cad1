"""Cursors and the parameters of list endpoints (API-19, API-20)."""

import base64
import hashlib
import re
from typing import Annotated, Final

from fastapi import Query
from pydantic import BaseModel, BeforeValidator, Field

from shared.errors import InvalidRequest
from shared.model.callers import Caller

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 100

_DECIMAL: Final = re.compile(r"0|[1-9][0-9]{0,8}")
# No position is longer, or has other characters; some stores take no longer sort key.
_POSITION: Final = re.compile(r"[!-~]{1,200}")
_CHECK_BYTES: Final = 12


def _plain_decimal(value: object) -> object:
    # Python and pydantic take `+5`, ` 5` and `1_0` for integers; the contract does not.
    if isinstance(value, str) and not _DECIMAL.fullmatch(value):
        raise ValueError(f"must be a whole number from 1 to {LIMIT_MAX}")
    return value


class PageQuery(BaseModel):
    """The query of a list endpoint."""

    # In this order: what follows a validator is checked, and is not in the API document.
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX), BeforeValidator(_plain_decimal)] = Field(
        default=LIMIT_DEFAULT, description="Most entries that the page may have."
    )
    cursor: str | None = Field(
        default=None,
        description="The `cursor` of the page before. It works with the same filters only.",
    )


Paging = Annotated[PageQuery, Query()]


def encode(position: str | None, caller: Caller, *, endpoint: str) -> str | None:
    """The cursor that continues after `position`, for this tenant, endpoint and its filters.

    None where there is nothing to continue. It carries a checksum, no secret: whoever forges one
    reaches nothing but another place in a list of their own.
    """
    if position is None:
        return None
    data = _check(position, caller, endpoint) + position.encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode(cursor: str | None, caller: Caller, *, endpoint: str) -> str | None:
    """The position that `encode` made a cursor of. Raises `InvalidRequest` for any other text."""
    if cursor is None:
        return None
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        position = data[_CHECK_BYTES:].decode()
    except ValueError:
        position = ""
    if not _POSITION.fullmatch(position) or encode(position, caller, endpoint=endpoint) != cursor:
        raise refused()
    return position


def refused() -> InvalidRequest:
    """The error for a cursor that this list did not give out for these filters."""
    return InvalidRequest("cursor: must come from the page before, with the same filters.")


def _check(position: str, caller: Caller, endpoint: str) -> bytes:
    bound = f"{caller.tenant_id}\n{endpoint}\n{position}"
    return hashlib.sha256(bound.encode()).digest()[:_CHECK_BYTES]
