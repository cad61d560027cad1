"""Tenants for the operator: show, rename, delete after a grace period (TENANT-6, TENANT-7).

A deletion is requested, and may be withdrawn during the grace period. `removal` then removes all
data.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from shared.errors import Conflict
from shared.model import api_keys, service_accounts, text, times
from shared.model import tenants as model
from shared.model.audit.audit_log import AuditAction
from shared.model.items import Value
from shared.model.lists.head import SrlHead
from shared.model.tenants import DirectoryEntry, TenantSettings
from shared.operations.base import audit, tenants
from shared.operations.base.operation import settle
from shared.operations.lists import in_force
from shared.operations.operator import onboarding
from shared.ports import Ports
from shared.ports.store import Change, Expect, Put, VersionIs

GRACE_DEFAULT: Final = timedelta(days=30)
GRACE_MIN: Final = timedelta(days=1)
GRACE_MAX: Final = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class TenantSummary:
    """A tenant, its numbers of keys and accounts, and its current SRL."""

    settings: TenantSettings
    api_keys: int
    service_accounts: int
    list: SrlHead


def show(ports: Ports, *, handle: str) -> TenantSummary:
    """Return the summary of a tenant. Raises `NotFound`, `Unavailable`."""
    settings = tenants.find(ports, handle)
    tenant_id = settings.tenant_id
    keys, accounts = api_keys.count_address(tenant_id), service_accounts.count_address(tenant_id)
    counts = ports.store.get_many([keys, accounts])
    numbers = [int(str(counts.get(each, {}).get("count", 0))) for each in (keys, accounts)]
    return TenantSummary(settings, numbers[0], numbers[1], in_force.read_srl_head(ports, tenant_id))


def rename(ports: Ports, *, handle: str, new: str, user: str | None = None) -> TenantSettings:
    """Change the handle of a tenant.

    The old handle stays reserved for the tenant, because identities in the audit log contain it.
    Identities of existing accounts do not change. `user` is the operator's account on the machine.
    Raises `ValueError` if `new` is not valid, `NotFound`, and `Conflict` if another tenant has the
    handle.
    """
    text.label(new)

    def changes(settings: TenantSettings) -> list[Change]:
        address = model.handle_address(new)
        taken = ports.store.get(address)
        if taken is not None and taken["tenant_id"] != settings.tenant_id:
            raise Conflict("A tenant with this name exists; choose another name.")
        entry = DirectoryEntry(settings.tenant_id, new, settings.created_at)
        expected = Expect.PRESENT if taken else Expect.ABSENT
        owner: dict[str, Value] = {"tenant_id": settings.tenant_id}
        return [
            Put(address, owner, expected),
            Put(entry.address, entry.to_item(), Expect.PRESENT),
        ]

    return settle(
        lambda: _change(ports, handle, user, AuditAction.TENANT_RENAME, {"handle": new}, changes)
    )


def delete(
    ports: Ports, *, handle: str, grace: timedelta = GRACE_DEFAULT, user: str | None = None
) -> TenantSettings:
    """Allow the removal of a tenant after the grace period, 1 to 365 days from now.

    The tenant is served as before until it is removed, so a mistake locks out no user. Raises
    `ValueError` if the grace period is not allowed, `NotFound`.
    """
    if not GRACE_MIN <= grace <= GRACE_MAX:
        raise ValueError(f"the grace period must be {GRACE_MIN.days} to {GRACE_MAX.days} days")

    removal = {"delete_after": times.truncate_to_second(ports.now() + grace)}
    return settle(lambda: _change(ports, handle, user, AuditAction.TENANT_DELETE, removal))


def cancel_delete(ports: Ports, *, handle: str, user: str | None = None) -> TenantSettings:
    """Withdraw the deletion of a tenant.

    Raises `NotFound`; `InvalidState` if its removal has begun.
    """
    return settle(
        lambda: _change(
            ports, handle, user, AuditAction.TENANT_CANCEL_DELETE, {"delete_after": None}
        )
    )


def _change(
    ports: Ports,
    handle: str,
    user: str | None,
    action: AuditAction,
    values: Mapping[str, Any],
    more: Callable[[TenantSettings], list[Change]] = lambda _settings: [],
) -> TenantSettings:
    """Write settings with an audit entry that has the old and the new values."""
    operator = onboarding.operator(ports, handle=handle, user=user)
    before = tenants.settings(ports, operator.tenant_id)
    after = replace(before, **values)
    if after == before:
        return before
    after = replace(after, version=before.version + 1)
    details: dict[str, Value] = {
        name: {
            "old": _format_value(getattr(before, name)),
            "new": _format_value(getattr(after, name)),
        }
        for name in values
    }
    ports.store.write(
        Put(after.address, after.to_item(), VersionIs(before.version)),
        *more(before),
        audit.entry(ports, operator, action, before.tenant_id, settings=before, **details),
    )
    return after


def _format_value(value: object) -> Value:
    return value if isinstance(value, str | None) else times.format_utc(value)  # type: ignore[arg-type]
