"""Bodies of the API key endpoints (service.md 2.1 and 4.1)."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field

from shared.model.api_keys import ApiKey, Status, Usage
from shared.operations.api_keys import Created
from shared.web.api_keys import USAGE, ApiKeySummary, key_fields
from shared.web.fields import (
    MomentIn,
    MomentOut,
    Name,
    RecordBody,
    RequestBody,
    ResponseBody,
    example,
)
from shared.web.paging import PageQuery

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


class ApiKeyQuery(PageQuery):
    """The query of GET /v1/api-keys."""

    service_account_id: str | None = None


class ApiKeyDetail(ApiKeySummary):
    """A key on its own."""

    request_count: int = Field(description=USAGE)

    @classmethod
    def of(cls, key: ApiKey, usage: Usage) -> Self:
        """The key with its usage."""
        return cls(
            **key_fields(key), last_used_at=usage.last_used_at, request_count=usage.request_count
        )


class CreatedApiKey(ResponseBody):
    """A new key, with its secret this once."""

    id: str
    name: str
    key: str = Field(repr=False)
    scopes: tuple[str, ...]
    status: Status
    created_at: MomentOut
    expires_at: MomentOut | None

    @classmethod
    def of(cls, created: Created) -> Self:
        """The key with its secret."""
        return cls(**key_fields(created.api_key), key=created.secret)


class RevokedApiKey(RecordBody):
    """The answer to a revocation."""

    id: str
    status: Status
    revoked_at: MomentOut
