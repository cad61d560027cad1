"""Bodies of the tenant settings endpoints (decisions 3, tenant settings)."""

from datetime import timedelta
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from shared.model.tenants import (
    AUDIT_RETENTION_DAYS_MAX,
    AUDIT_RETENTION_DAYS_MIN,
    ROTATION_GRACE_SECONDS_MAX,
    ROTATION_GRACE_SECONDS_MIN,
    SRL_TTL_SECONDS_MAX,
    SRL_TTL_SECONDS_MIN,
)
from shared.web.fields import MomentOut, Name, RecordBody, RequestBody, example


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


_OPTIONAL: Final = Field(json_schema_extra=_without_default)


def _seconds(value: Any) -> Any:
    return int(value.total_seconds()) if isinstance(value, timedelta) else value


# A span of time, shown in whole seconds.
Seconds = Annotated[int, BeforeValidator(_seconds)]


class UpdateSettings(RequestBody):
    """The body of PATCH /v1/tenant/settings: any of the fields, none of them null."""

    model_config = example(srl_ttl_seconds=7200)

    # The defaults stand for "not given": only what was set is read.
    name: Annotated[Name, _OPTIONAL] = ""
    srl_ttl_seconds: Annotated[
        int, Field(ge=SRL_TTL_SECONDS_MIN, le=SRL_TTL_SECONDS_MAX), _OPTIONAL
    ] = 0
    audit_retention_days: Annotated[
        int, Field(ge=AUDIT_RETENTION_DAYS_MIN, le=AUDIT_RETENTION_DAYS_MAX), _OPTIONAL
    ] = 0
    rotation_grace_seconds: Annotated[
        int, Field(ge=ROTATION_GRACE_SECONDS_MIN, le=ROTATION_GRACE_SECONDS_MAX), _OPTIONAL
    ] = 0


class TenantSettings(RecordBody):
    """A tenant's settings, with the limits that hold for every tenant."""

    tenant_id: str
    name: str
    srl_ttl_seconds: int
    audit_retention_days: int
    rotation_grace_seconds: Seconds = Field(validation_alias="rotation_grace")
    rate_limit_per_second: int
    rate_limit_burst: int
    created_at: MomentOut
