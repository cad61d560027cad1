"""Bodies of the tenant settings endpoints (decisions 3, tenant settings)."""

from typing import Annotated, Any, Final

from pydantic import Field

from shared.model.tenants import (
    AUDIT_RETENTION_DAYS_MAX,
    AUDIT_RETENTION_DAYS_MIN,
    SRL_TTL_SECONDS_MAX,
    SRL_TTL_SECONDS_MIN,
)
from shared.web.fields import MomentOut, Name, RecordBody, RequestBody, example


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


_OPTIONAL: Final = Field(json_schema_extra=_without_default)


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


class TenantSettings(RecordBody):
    """A tenant's settings, with the limits that hold for every tenant."""

    tenant_id: str
    name: str
    srl_ttl_seconds: int
    audit_retention_days: int
    rate_limit_per_second: int
    rate_limit_burst: int
    created_at: MomentOut
