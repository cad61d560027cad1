"""Bodies of the API key endpoints (service.md 2.1 and 4.1)."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field

from shared.model.api_keys import ApiKey, Status, Usage
from shared.operations.api_keys import Created
from shared.operations.paging import Page
from shared.web.fields import (
    MomentIn,
    MomentOut,
    Name,
    RecordBody,
    RequestBody,
    ResponseBody,
    example,
)

ScopeName = Literal["admin", "authorizer", "read-only"]


def _unique(scopes: list[ScopeName]) -> list[ScopeName]:
    if len(set(scopes)) != len(scopes):
        raise ValueError("must not name a scope twice")
    return scopes


class CreateApiKey(RequestBody):
    """The body of POST /v1/api-keys."""

    model_config = example(name="gateway", scopes=["authorizer"], expires_at="2099-01-01T00:00:00Z")

    name: Name
    scopes: Annotated[list[ScopeName], Field(min_length=1), AfterValidator(_unique)]
    expires_at: MomentIn | None = None
    service_account_id: str | None = None


class ApiKeyFields(ResponseBody):
    """What every response says of a key; the account only where the key was given one."""

    id: str
    name: str
    scopes: tuple[str, ...]
    status: Status
    created_at: MomentOut
    expires_at: MomentOut | None
    service_account_id: str | None = None


class ApiKeySummary(ApiKeyFields):
    """A key in a list."""

    last_used_at: MomentOut | None

    @classmethod
    def of(cls, key: ApiKey, usage: Usage) -> Self:
        """The key with its usage."""
        return cls(**_fields(key), last_used_at=usage.last_used_at)


class ApiKeyDetail(ApiKeySummary):
    """A key on its own."""

    request_count: int

    @classmethod
    def of(cls, key: ApiKey, usage: Usage) -> Self:
        """The key with its usage."""
        return cls(
            **_fields(key), last_used_at=usage.last_used_at, request_count=usage.request_count
        )


class CreatedApiKey(ApiKeyFields):
    """A new key, with its secret this once."""

    key: str = Field(repr=False)

    @classmethod
    def of(cls, created: Created) -> Self:
        """The key with its secret."""
        return cls(**_fields(created.api_key), key=created.secret)


class RevokedApiKey(RecordBody):
    """The answer to a revocation."""

    id: str
    status: Status
    revoked_at: MomentOut


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


def _fields(key: ApiKey) -> dict[str, Any]:
    fields = {
        "id": key.id,
        "name": key.name,
        "scopes": key.scopes,
        "status": key.status,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
    }
    if key.service_account_id is not None:
        fields["service_account_id"] = key.service_account_id
    return fields
