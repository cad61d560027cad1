"""Tenant settings over HTTP (TENANT-2)."""

from functions.tenant_settings.schemas import TenantSettingsBody, UpdateTenantSettings
from shared.model.tenants import SettingsChange
from shared.operations.access import tenant_settings
from shared.web.app import create_app, lambda_handler
from shared.web.routes import ApiRequest, router, serves

routes = router("Tenant settings")


@routes.get("/v1/tenant/settings")
@serves(tenant_settings.get)
async def get_tenant_settings(request: ApiRequest) -> TenantSettingsBody:
    """Get the settings of the tenant."""
    return TenantSettingsBody.of(request.run(tenant_settings.get))


@routes.patch("/v1/tenant/settings")
@serves(tenant_settings.update, is_protected=True)
async def update_tenant_settings(
    request: ApiRequest, body: UpdateTenantSettings
) -> TenantSettingsBody:
    """Change settings of the tenant.

    Settings that you omit do not change. A new lifetime applies to SRLs published after the change.
    """
    change = SettingsChange(**body.model_dump(exclude_unset=True))
    return TenantSettingsBody.of(request.run(tenant_settings.update, change=change))


app = create_app(routes)
handler = lambda_handler(app)
