"""Bodies of the API key endpoints (APIKEY-3)."""

from typing import Annotated, Self

from pydantic import Field

from shared.model.api_keys import GRACE_SECONDS_MAX, ApiKey, ApiKeyStatus, Usage
from shared.model.identifiers import API_KEY, SERVICE_ACCOUNT
from shared.operations.access import api_key_creation
from shared.operations.access.api_key_rotation import RotatedKey
from shared.web.api_keys import (
    APPROXIMATE,
    KEY_EXAMPLE,
    KEY_ROLE,
    USED_EXAMPLE,
    ApiKeySummary,
    Created,
    Expires,
    GivenNetworks,
    GivenScopes,
    KeyName,
    KeyStatus,
    Scopes,
    key_fields,
)
from shared.web.fields import (
    ApiKeyId,
    MomentIn,
    MomentOut,
    Name,
    RecordBody,
    RequestBody,
    ResponseBody,
    example,
    field,
    identifier,
    omittable,
    optional,
)
from shared.web.paging import PageQuery


class CreateApiKey(RequestBody):
    """The API key to create."""

    model_config = example(name="gateway", scopes=["authorizer"], expires_at="2099-01-01T00:00:00Z")

    name: Name = Field(description="Display name. Leading and trailing white space is removed.")
    scopes: GivenScopes | None = omittable("Scopes of the key. Required unless `role` is given.")
    role: str | None = omittable(
        "Name of a role from `GET /v1/roles`. The key gets the scopes of the role."
    )
    expires_at: MomentIn | None = omittable(
        "Expiry of the key. It must be in the future. If omitted, the key does not expire."
    )
    service_account_id: str | None = omittable(
        "Identifier of the service account that owns the key. If omitted, the key has no owner "
        "and acts under its own identity.",
        **identifier(SERVICE_ACCOUNT),
    )
    networks: GivenNetworks = Field(
        default=[],
        description="At most 10 networks in CIDR notation, such as `192.0.2.0/24`. The key is "
        "accepted only from these networks. If omitted, it is accepted from any address.",
    )


class ApiKeyQuery(PageQuery):
    """The query of GET /v1/api-keys."""

    service_account_id: str | None = omittable(
        "Return only API keys owned by this service account."
    )
    created_by_id: str | None = omittable(
        "Return only API keys created by this person, service account or API key. For a person, "
        "the result includes keys that the person rotated, and keys created or rotated by such "
        "keys."
    )


class ApiKeyDetail(ApiKeySummary):
    """An API key and its usage, without its secret."""

    model_config = example(**USED_EXAMPLE, request_count=2880)

    request_count: int = field(f"Number of requests with this key. {APPROXIMATE}", minimum=0)

    @classmethod
    def of(cls, used: tuple[ApiKey, Usage]) -> Self:
        """Return the body for an API key with its usage."""
        key, usage = used
        summary = ApiKeySummary.of((key, usage))
        return cls(**dict(summary), request_count=usage.request_count)


class CreatedApiKey(ResponseBody):
    """A new API key with its secret, which no other response shows."""

    model_config = example(**KEY_EXAMPLE, key="svc_" + "Zm9vYmFy" * 5 + "Zm8")

    id: ApiKeyId
    name: KeyName
    key: str = Field(
        repr=False,
        description="The secret. Send it as `Authorization: Bearer <key>`.",
        json_schema_extra={"pattern": "^svc_[A-Za-z0-9_-]{43}$"},
    )
    scopes: Scopes
    role: str | None = optional(KEY_ROLE)
    status: KeyStatus
    created_at: Created
    expires_at: Expires

    @classmethod
    def of(cls, created_key: api_key_creation.CreatedKey) -> Self:
        """Return the body for a new API key with its secret."""
        return cls(**key_fields(created_key.api_key), key=created_key.secret)


class RotateApiKey(RequestBody):
    """The rotation of an API key."""

    model_config = example(grace_seconds=3600)

    grace_seconds: Annotated[int, Field(ge=0, le=GRACE_SECONDS_MAX)] = Field(
        description="Time in seconds during which the old secret remains accepted. 0 revokes the "
        "old key immediately."
    )
    expires_at: MomentIn | None = omittable(
        "Expiry of the new key. It must be in the future. If omitted, the new key has the same "
        "lifetime as the old one."
    )


class RotatedApiKey(CreatedApiKey):
    """The successor of a rotated API key, with its secret."""

    model_config = example(
        **KEY_EXAMPLE,
        key="svc_" + "Zm9vYmFy" * 5 + "Zm8",
        predecessor_id="svc_ak_01kbm9h2r5c8e1f4g7j0k3m6np",
        predecessor_accepted_until="2026-11-21T13:00:00Z",
    )

    predecessor_id: ApiKeyId = field("Identifier of the rotated key.", **identifier(API_KEY))
    predecessor_accepted_until: MomentOut = field("Time from which the old secret is rejected.")

    @classmethod
    def of_rotation(cls, rotated_key: RotatedKey) -> Self:
        """Return the body for a new key with its secret, and for its predecessor."""
        return cls(
            **key_fields(rotated_key.created.api_key),
            key=rotated_key.created.secret,
            predecessor_id=rotated_key.predecessor.id,
            predecessor_accepted_until=rotated_key.accepted_until,
        )


class RevokedApiKey(RecordBody):
    """A revoked API key."""

    model_config = example(
        id=KEY_EXAMPLE["id"], status="revoked", revoked_at="2026-11-21T13:00:00Z"
    )

    id: ApiKeyId
    status: ApiKeyStatus = field("`revoked`.")
    revoked_at: MomentOut = field("Time of the revocation.")
