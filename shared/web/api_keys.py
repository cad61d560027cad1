"""Response bodies with API keys, for the endpoints of API keys and service accounts."""

from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, Field, JsonValue

from shared.model.api_keys import NETWORKS_MAX, ApiKey, ApiKeyStatus, Usage, normalize_networks
from shared.model.callers import Scope
from shared.model.identifiers import API_KEY, PERSON
from shared.web.fields import (
    CURSOR,
    ApiKeyId,
    MomentOut,
    NextCursor,
    ResponseBody,
    Total,
    example,
    field,
    optional,
    sample,
)
from shared.web.paging import PageBody

APPROXIMATE: Final = (
    "Approximate: up to one second late, without the last counts of a terminated instance."
)
KEY_EXAMPLE: Final[dict[str, JsonValue]] = {
    "id": sample(API_KEY),
    "name": "gateway",
    "scopes": ["authorizer"],
    "status": "active",
    "created_at": "2026-11-21T12:00:00Z",
    "expires_at": "2099-01-01T00:00:00Z",
}
USED_EXAMPLE: Final[dict[str, JsonValue]] = KEY_EXAMPLE | {
    "last_used_at": "2026-11-21T12:05:00Z",
    "created_by_id": sample(PERSON),
    "networks": ["192.0.2.0/24"],
}


def _unique(scopes: list[Scope]) -> list[Scope]:
    if len(set(scopes)) != len(scopes):
        raise ValueError("must not name a scope twice")
    return scopes


GivenScopes = Annotated[
    # Strict mode would reject the text of an enumeration member.
    list[Annotated[Scope, Field(strict=False)]],
    Field(min_length=1, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_unique),
]


def _networks(values: list[str]) -> list[str]:
    try:
        return [*normalize_networks(values)]
    except ValueError as error:
        raise ValueError(f"must be networks in CIDR notation: {error}") from None


GivenNetworks = Annotated[
    list[str],
    Field(max_length=NETWORKS_MAX, json_schema_extra={"uniqueItems": True}),
    AfterValidator(_networks),
]
KeyName = Annotated[str, field("Name of the key.")]
Scopes = Annotated[
    tuple[Scope, ...],
    field("Scopes of the key; empty if it has a role.", uniqueItems=True),
]
KEY_ROLE: Final = "Role of the key; absent if it has its own scopes."
KeyStatus = Annotated[
    ApiKeyStatus,
    field("Status of the key. An expired key keeps the status `active`, and is rejected."),
]
Created = Annotated[MomentOut, field("Time of creation.")]
Expires = Annotated[MomentOut | None, field("Expiry of the key; null if it does not expire.")]


class ApiKeySummary(ResponseBody):
    """An API key, without its secret."""

    model_config = example(**USED_EXAMPLE)

    id: ApiKeyId
    name: KeyName
    scopes: Scopes
    role: str | None = optional(KEY_ROLE)
    status: KeyStatus
    created_at: Created
    expires_at: Expires
    last_used_at: MomentOut | None = field(
        f"Time of the last use; null if the key was never used. {APPROXIMATE}"
    )
    created_by_id: str | None = field(
        "Person, service account or API key that created the key, or the key that it replaced by "
        "rotation; null for an operator."
    )
    networks: tuple[str, ...] = field(
        "Networks from which the key is accepted; empty for any address."
    )

    @classmethod
    def of(cls, used: tuple[ApiKey, Usage]) -> Self:
        """Return the body for an API key with its usage."""
        key, usage = used
        used_at, maker = usage.last_used_at, key.created_by_id
        return cls(
            **key_fields(key), last_used_at=used_at, created_by_id=maker, networks=key.networks
        )


class ApiKeyList(PageBody):
    """A page of API keys."""

    model_config = example(api_keys=[USED_EXAMPLE], total=132, cursor=CURSOR)

    api_keys: list[ApiKeySummary] = field("The keys of this page, newest first.")
    total: Total
    cursor: NextCursor


def key_fields(key: ApiKey) -> dict[str, Any]:
    """Return the members that every response with an API key has, by name."""
    return {name: getattr(key, name) for name in (*KEY_EXAMPLE, "role")}
