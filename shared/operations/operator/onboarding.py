"""Create tenants and admin keys for the operator (TENANT-1, TENANT-4)."""

from dataclasses import replace
from datetime import datetime

from shared.errors import Conflict, InvalidState
from shared.model import tenants as model
from shared.model import text
from shared.model.audit.audit_log import AuditAction, AuditEntry
from shared.model.callers import Caller, Scope
from shared.model.identifiers import TENANT
from shared.model.tenants import DirectoryEntry, TenantSettings
from shared.operations.access import api_key_creation, api_keys, service_accounts
from shared.operations.access.api_key_creation import CreatedKey
from shared.operations.base import audit, tenants
from shared.operations.base.operation import settle
from shared.operations.lists import marks, publication, records, signers
from shared.operations.operator import deployment, restored
from shared.ports import Ports
from shared.ports.store import Expect, Put

_ADMIN = "admin"
_OPERATOR = "operator"


def create_tenant(
    ports: Ports, *, handle: str, user: str | None = None
) -> tuple[TenantSettings, CreatedKey]:
    """Create a tenant with two SRL signers, SRL version 1, an account and an admin key.

    All are created in one write. `user` is the operator's account on the machine, for the audit
    log. Raises `ValueError` if `handle` is not valid, `Conflict` if it is in use.
    """
    text.label(handle)
    deployment.mark_if_new(ports)
    restored.are_other_tables(ports)
    return settle(lambda: _create_tenant(ports, handle, user))


def _create_tenant(
    ports: Ports, handle: str, user: str | None
) -> tuple[TenantSettings, CreatedKey]:
    settings = TenantSettings.initial(ports.new_id(TENANT), handle, ports.now())
    if ports.store.get(model.handle_address(handle)) is not None:
        raise Conflict("A tenant with this name exists; choose another name.")
    signer = signers.create_signer(ports, settings.tenant_id)
    account = replace(service_accounts.new(ports, settings, name=_ADMIN), api_key_count=1)
    created, changes = api_key_creation.creation(
        ports, settings, name=_ADMIN, scopes=(Scope.ADMIN,), account=account
    )
    caller = Caller.inside(settings.tenant_id, name=_OPERATOR, handle=handle, operator=user)
    entry = DirectoryEntry(settings.tenant_id, handle, settings.created_at)
    ports.store.write(
        Put(model.handle_address(handle), {"tenant_id": settings.tenant_id}, Expect.ABSENT),
        Put(settings.address, settings.to_item(), Expect.ABSENT),
        Put(entry.address, entry.to_item(), Expect.ABSENT),
        Put(signer.address, signer.to_item(), Expect.ABSENT),
        signers.standby_change(ports, settings.tenant_id),
        # Wakes the process with the root key, which then creates the first trust document.
        *([] if ports.root else [marks.trust_mark(settings.tenant_id)]),
        *service_accounts.creation(account),
        *changes,
        *publication.create_first(ports, settings, signer),
        records.end_index_complete_change(settings.tenant_id),
        audit.entry(
            ports,
            caller,
            AuditAction.TENANT_CREATE,
            settings.tenant_id,
            settings=settings,
            name=handle,
            api_key_id=created.api_key.id,
        ),
    )
    return settings, created


def mint_admin_key(
    ports: Ports,
    *,
    handle: str,
    user: str | None = None,
    expires_at: datetime | None = None,
) -> CreatedKey:
    """Create an admin key for a tenant that is locked out.

    `user` is the same as in `create_tenant`. Raises `NotFound`; `InvalidRequest` if `expires_at`
    has passed.
    """
    caller = operator(ports, handle=handle, user=user)
    return api_keys.create(ports, caller, name=_ADMIN, scopes=(Scope.ADMIN,), expires_at=expires_at)


def is_of_operator(entry: AuditEntry) -> bool:
    """Return whether an audit entry belongs to a command of an operator.

    A change by an operator's session came over HTTP.
    """
    return entry.request_id is None and entry.actor.startswith(f"system+{_OPERATOR}@")


def operator(ports: Ports, *, handle: str, user: str | None = None) -> Caller:
    """Return the operator as caller for the tenant with this handle, current or former.

    `user` is the same as in `create_tenant`. Raises `NotFound`; `InvalidState` if the tenant's
    removal has begun.
    """
    tenant_id = tenants.identifier(ports, handle)
    item = ports.store.get(model.DIRECTORY.address(tenant_id))
    if item is not None:
        entry = DirectoryEntry.from_item(item)
        if entry.removal_began:
            raise InvalidState("The removal of this tenant has begun; complete it.")
        handle = entry.handle
    return Caller.inside(tenant_id, name=_OPERATOR, handle=handle, operator=user)
