"""Bodies of the tenant settings endpoints (decisions 3, tenant settings)."""

from typing import Annotated, Any, Final, Self

from pydantic import Field

from shared.model import rate_limit
from shared.model.tenants import (
    AUDIT_RETENTION_DAYS_MAX,
    AUDIT_RETENTION_DAYS_MIN,
    SRL_TTL_SECONDS_MAX,
    SRL_TTL_SECONDS_MIN,
    Settings,
)
from shared.web.fields import MomentOut, Name, RequestBody, ResponseBody


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


_OPTIONAL: Final = Field(json_schema_extra=_without_default)


class UpdateSettings(RequestBody):
    """The body of PATCH /v1/tenant/settings: any of the fields, none of them null."""

    # The defaults stand for "not given": only what was set is read.
    name: Annotated[Name, _OPTIONAL] = ""
    srl_ttl_seconds: Annotated[
        int, Field(ge=SRL_TTL_SECONDS_MIN, le=SRL_TTL_SECONDS_MAX), _OPTIONAL
    ] = 0
    audit_retention_days: Annotated[
        int, Field(ge=AUDIT_RETENTION_DAYS_MIN, le=AUDIT_RETENTION_DAYS_MAX), _OPTIONAL
    ] = 0


class TenantSettings(ResponseBody):
    """A tenant's settings."""

    tenant_id: str
    name: str
    srl_ttl_seconds: int
    audit_retention_days: int
    rate_limit_per_second: int
    rate_limit_burst: int
    created_at: MomentOut

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The settings, with the limits that hold for every tenant."""
        return cls(
            tenant_id=settings.tenant_id,
            name=settings.name,
            srl_ttl_seconds=settings.srl_ttl_seconds,
            audit_retention_days=settings.audit_retention_days,
            rate_limit_per_second=rate_limit.RATE_PER_SECOND,
            rate_limit_burst=rate_limit.BURST,
            created_at=settings.created_at,
        )
