"""Tenant settings: get, update (TENANT-2)."""

from dataclasses import replace

from shared.model.audit_log import Action
from shared.model.callers import Caller, Scope
from shared.model.tenants import SettingsChange, TenantSettings
from shared.operations.rules import audit, tenants
from shared.operations.rules.operation import operation
from shared.ports import Ports
from shared.ports.store import At, Put


@operation(Scope.ADMIN, Scope.READ_ONLY)
def get(ports: Ports, caller: Caller) -> TenantSettings:
    """The caller's tenant's settings."""
    return tenants.settings(ports, caller.tenant_id)


@operation(Scope.ADMIN)
def update(ports: Ports, caller: Caller, *, change: SettingsChange) -> TenantSettings:
    """Change any of the settings that can be written; the list follows when next due.

    What is so already is not written.
    """
    settings = tenants.settings(ports, caller.tenant_id)
    changed = change.beside(settings)
    if not changed:
        return settings
    updated = replace(settings, version=settings.version + 1, **changed)
    ports.store.write(
        Put(settings.address, updated.to_item(), At(settings.version)),
        audit.entry(
            ports,
            caller,
            Action.TENANT_UPDATE_SETTINGS,
            caller.tenant_id,
            # A shorter retention must not shorten the life of the entry that tells of it.
            settings=max(settings, updated, key=lambda each: each.audit_retention_days),
            **{name: {"old": getattr(settings, name), "new": new} for name, new in changed.items()},
        ),
    )
    return updated
