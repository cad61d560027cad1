"""Bodies of the tenant settings endpoints (TENANT-2)."""

from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from shared.model.identifiers import TENANT
from shared.model.tenants import (
    AUDIT_RETENTION_DAYS_MAX,
    AUDIT_RETENTION_DAYS_MIN,
    AUTHORIZERS_MAX_MAX,
    AUTHORIZERS_MAX_MIN,
    FEED_WINDOW_MS_MAX,
    FEED_WINDOW_MS_MIN,
    PERSON_KEY_MAX_DAYS_MAX,
    PERSON_KEY_MAX_DAYS_MIN,
    ROTATION_GRACE_SECONDS_MAX,
    ROTATION_GRACE_SECONDS_MIN,
    SRL_TTL_SECONDS_MAX,
    SRL_TTL_SECONDS_MIN,
    UNUSED_KEY_DAYS_MAX,
    UNUSED_KEY_DAYS_MIN,
    SrlPublicationPolicy,
    UnrevokePolicy,
)
from shared.web.fields import (
    MomentOut,
    Name,
    RecordBody,
    RequestBody,
    attribute,
    example,
    field,
    identifier,
    sample,
)


def _remove_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def _optional(description: str) -> Any:
    return Field(description=description, json_schema_extra=_remove_default)


_NAME: Final = "Display name."
_TTL: Final = "Lifetime of a published Signed Revocation List (SRL), in seconds."
_RETENTION: Final = "Retention of audit entries, in days."
_GRACE: Final = (
    "Time in seconds for which a new SRL signer is pending before it can be activated without "
    "`force`. The default is the SRL lifetime."
)
_WINDOW: Final = (
    "Minimum interval between two feed entries, in milliseconds. A longer window combines "
    "changes into fewer entries, and delays consecutive changes. On AWS, a change that would "
    "wait for more than 1.5 seconds is published within about a minute."
)
_PUBLICATION: Final = (
    "When SRLs are published. `scheduled`: within about a minute of a change. `immediate`: "
    "also after a feed entry, for at most one twentieth of the time."
)
_UNREVOKE_POLICY: Final = (
    "Revocations that a caller without the scope `admin` may remove. `any`: all. `own`: "
    "revocations made by its own identity that no other identity repeated."
)


_AUTHORIZERS: Final = (
    "Maximum number of authorizers per service account, or per API key without a service "
    "account. A relay registers many."
)


_PERSON_KEYS: Final = (
    "Maximum lifetime of API keys that people create, in days. With the scope `admin` it is "
    "at most 90 days."
)
_UNUSED: Final = (
    "Number of days without use after which API keys are revoked: 7 to 3650, or 0 to revoke "
    "none. The last admin key is never revoked."
)


def _days_or_off(value: int) -> int:
    if 0 < value < UNUSED_KEY_DAYS_MIN:
        raise ValueError(f"must be 0, or {UNUSED_KEY_DAYS_MIN} to {UNUSED_KEY_DAYS_MAX}")
    return value


def _seconds(value: Any) -> Any:
    return int(value.total_seconds()) if isinstance(value, timedelta) else value


# Strict mode would reject the text of an enumeration member.
OnePublication = Annotated[SrlPublicationPolicy, Field(strict=False)]
OneUnrevokePolicy = Annotated[UnrevokePolicy, Field(strict=False)]

# A duration, shown in whole seconds.
Seconds = Annotated[int, BeforeValidator(_seconds)]


class UpdateTenantSettings(RequestBody):
    """The settings to change."""

    model_config = example(srl_ttl_seconds=7200)

    # Only fields that were set are read; the defaults mean "not given".
    name: Annotated[Name, _optional(_NAME)] = ""
    srl_ttl_seconds: Annotated[
        int, Field(ge=SRL_TTL_SECONDS_MIN, le=SRL_TTL_SECONDS_MAX), _optional(_TTL)
    ] = 0
    audit_retention_days: Annotated[
        int, Field(ge=AUDIT_RETENTION_DAYS_MIN, le=AUDIT_RETENTION_DAYS_MAX), _optional(_RETENTION)
    ] = 0
    rotation_grace_seconds: Annotated[
        int, Field(ge=ROTATION_GRACE_SECONDS_MIN, le=ROTATION_GRACE_SECONDS_MAX), _optional(_GRACE)
    ] = 0
    feed_window_ms: Annotated[
        int, Field(ge=FEED_WINDOW_MS_MIN, le=FEED_WINDOW_MS_MAX), _optional(_WINDOW)
    ] = 0
    srl_publication: Annotated[OnePublication, _optional(_PUBLICATION)] = (
        SrlPublicationPolicy.SCHEDULED
    )
    max_authorizers: Annotated[
        int, Field(ge=AUTHORIZERS_MAX_MIN, le=AUTHORIZERS_MAX_MAX), _optional(_AUTHORIZERS)
    ] = 0
    unrevoke_policy: Annotated[OneUnrevokePolicy, _optional(_UNREVOKE_POLICY)] = UnrevokePolicy.ANY
    person_key_max_days: Annotated[
        int,
        Field(ge=PERSON_KEY_MAX_DAYS_MIN, le=PERSON_KEY_MAX_DAYS_MAX),
        _optional(_PERSON_KEYS),
    ] = 1
    unused_key_days: Annotated[
        int,
        Field(ge=0, le=UNUSED_KEY_DAYS_MAX),
        AfterValidator(_days_or_off),
        _optional(_UNUSED),
    ] = 0


class TenantSettingsBody(RecordBody):
    """The settings of a tenant, with the limits that apply to every tenant."""

    model_config = example(
        tenant_id=sample(TENANT),
        name="Acme",
        srl_ttl_seconds=3600,
        audit_retention_days=400,
        rotation_grace_seconds=3600,
        feed_window_ms=500,
        srl_publication="scheduled",
        max_authorizers=200,
        unrevoke_policy="own",
        person_key_max_days=365,
        unused_key_days=0,
        rate_limit_per_second=1000,
        rate_limit_burst=2000,
        created_at="2026-11-21T12:00:00Z",
        delete_after="2026-12-21T12:00:00Z",
    )

    tenant_id: str = field("Identifier of the tenant.", **identifier(TENANT))
    name: str = field(_NAME)
    srl_ttl_seconds: int = field(_TTL)
    audit_retention_days: int = field(_RETENTION)
    rotation_grace_seconds: Seconds = attribute("rotation_grace", _GRACE)
    feed_window_ms: int = field(_WINDOW)
    srl_publication: SrlPublicationPolicy = field(_PUBLICATION)
    max_authorizers: int = field(_AUTHORIZERS)
    unrevoke_policy: UnrevokePolicy = field(_UNREVOKE_POLICY)
    person_key_max_days: int = field(_PERSON_KEYS)
    unused_key_days: int = field(_UNUSED)
    rate_limit_per_second: int = field("Maximum sustained number of requests per second.")
    rate_limit_burst: int = field("Maximum number of requests in a burst after a pause.")
    created_at: MomentOut = field("Time of creation.")
    delete_after: MomentOut | None = field(
        "Time after which the operator may delete the tenant with all its data; null if no "
        "deletion is scheduled."
    )
