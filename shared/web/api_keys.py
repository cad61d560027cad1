"""Bodies that show API keys: both a key's own endpoints and its account's answer with them."""

from typing import Any, Final, Self

from pydantic import Field

from shared.model.api_keys import ApiKey, Status, Usage
from shared.operations.paging import Page
from shared.web.fields import MomentOut, ResponseBody

USAGE: Final = (
    "Approximate: up to one second late while the key is in use; an instance that is killed loses "
    "what it had not written."
)


class ApiKeySummary(ResponseBody):
    """A key in a list (service.md 4.1)."""

    id: str
    name: str
    scopes: tuple[str, ...]
    status: Status
    created_at: MomentOut
    expires_at: MomentOut | None
    last_used_at: MomentOut | None = Field(description=USAGE)

    @classmethod
    def of(cls, key: ApiKey, usage: Usage) -> Self:
        """The key with its usage."""
        return cls(**key_fields(key), last_used_at=usage.last_used_at)


class ApiKeyList(ResponseBody):
    """A page of keys."""

    api_keys: list[ApiKeySummary]
    total: int
    cursor: str | None

    @classmethod
    def of(cls, page: Page[tuple[ApiKey, Usage]], *, cursor: str | None) -> Self:
        """The page, with the cursor to the next."""
        keys = [ApiKeySummary.of(key, usage) for key, usage in page.entries]
        return cls(api_keys=keys, total=page.total, cursor=cursor)


def key_fields(key: ApiKey) -> dict[str, Any]:
    """The members that every response with a key has, by name."""
    return {
        "id": key.id,
        "name": key.name,
        "scopes": key.scopes,
        "status": key.status,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
    }
