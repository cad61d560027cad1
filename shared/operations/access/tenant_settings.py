"""Tenant settings: get, update (TENANT-2)."""

from dataclasses import replace

from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.differences import changed_details
from shared.model.identities.approvals import ProtectedAction
from shared.model.tenants import SettingsChange, TenantSettings
from shared.operations.base import audit, tenants
from shared.operations.base.idempotency import Keep, idempotent, of_record
from shared.operations.base.operation import operation
from shared.operations.identities import protected_acts
from shared.ports import Ports
from shared.ports.store import Put, VersionIs


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def get(ports: Ports, caller: Caller) -> TenantSettings:
    """Return the settings of the caller's tenant."""
    return tenants.settings(ports, caller.tenant_id)


@idempotent(Scope.ADMIN, keeps=of_record(TenantSettings), fresh=True)
def update(
    ports: Ports, caller: Caller, keep: Keep[TenantSettings], *, change: SettingsChange
) -> TenantSettings:
    """Change settings. The SRL uses them from its next publication on.

    Writes no data if the settings are unchanged. Raises `ApprovalRequired` (APPROVAL-1).
    """
    settings = tenants.settings(ports, caller.tenant_id)
    changed = change.changed_values(settings)
    updated = replace(settings, version=settings.version + 1, **changed)
    details = changed_details(updated.name, settings, updated)
    approval = protected_acts.approval_changes(
        ports,
        caller,
        ProtectedAction.WEAKEN_SETTINGS,
        "settings",
        details,
        version=settings.version,
        is_needed=updated.weakens(settings),
    )
    if not changed:
        return settings
    ports.store.write(
        Put(settings.address, updated.to_item(), VersionIs(settings.version)),
        audit.entry(
            ports,
            caller,
            AuditAction.TENANT_UPDATE_SETTINGS,
            caller.tenant_id,
            # If the retention becomes shorter, keep this entry for the longer one.
            settings=max(settings, updated, key=lambda each: each.audit_retention_days),
            **details,
        ),
        *approval,
        *keep(updated),
    )
    return updated
