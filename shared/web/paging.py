"""Cursors and the parameters of list endpoints (API-19, API-20)."""

import base64
import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self, get_args

from fastapi import Query
from pydantic import BaseModel, Field

from shared.errors import InvalidRequest
from shared.model.callers import Caller
from shared.operations.base.paging import Page
from shared.web.fields import ResponseBody, decimal

LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 100

# All positions match this. Some stores accept no longer sort key.
_POSITION: Final = re.compile(r"[!-~]{1,200}")
_CHECK_BYTES: Final = 12

_LIMIT: Final = decimal("0|[1-9][0-9]{0,8}", must=f"be a whole number from 1 to {LIMIT_MAX}")


class PageQuery(BaseModel):
    """The query of a list endpoint."""

    # The order matters: the API document omits constraints that follow a validator.
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX), _LIMIT] = Field(
        default=LIMIT_DEFAULT, description="Maximum number of entries on the page."
    )
    cursor: str | None = Field(
        default=None,
        description="The `cursor` of the previous page. The filters must be the same.",
    )


Paging = Annotated[PageQuery, Query()]
# The query of a list with pages of fixed length.
Cursor = Annotated[str | None, Query(description="The `cursor` of the previous page.")]


@dataclass(frozen=True, slots=True)
class CursorCodec:
    """Encodes positions in a tenant's list. `endpoint` names the list and its filters.

    `cursor` is the cursor of the request. A cursor has a checksum, not a secret, because a forged
    cursor can only name another position in a list of the same tenant.
    """

    caller: Caller
    cursor: str | None
    endpoint: str

    @property
    def position(self) -> str | None:
        """The position in the cursor. Raises `InvalidRequest` for the cursor of another list."""
        if self.cursor is None:
            return None
        padding = "=" * (-len(self.cursor) % 4)
        try:
            data = base64.b64decode(self.cursor + padding, altchars=b"-_", validate=True)
            position = data[_CHECK_BYTES:].decode()
        except ValueError:
            position = ""
        if not _POSITION.fullmatch(position) or self.cursor_after(position) != self.cursor:
            raise invalid_cursor_error()
        return position

    def cursor_after(self, position: str | None) -> str | None:
        """Return the cursor that continues after `position`; None if `position` is None."""
        if position is None:
            return None
        bound = f"{self.caller.tenant_id}\n{self.endpoint}\n{position}"
        data = hashlib.sha256(bound.encode()).digest()[:_CHECK_BYTES] + position.encode()
        return base64.urlsafe_b64encode(data).decode().rstrip("=")


class PageBody(ResponseBody):
    """A page of a list. The first field has the entries; `total` and `cursor` follow it."""

    @classmethod
    def of(cls, page: Page[Any], pager: CursorCodec) -> Self:
        """Return the body for `page`, with the cursor for the next page."""
        name, field = next(iter(cls.model_fields.items()))
        (entry,) = get_args(field.annotation)
        entries = [entry.of(each) for each in page.entries]
        return cls.model_validate(
            {name: entries, "total": page.total, "cursor": pager.cursor_after(page.next_before)}
        )


def invalid_cursor_error() -> InvalidRequest:
    """Return the error for a cursor of another list or with other filters."""
    return InvalidRequest("cursor: must come from the previous page, with the same filters.")
