"""Roles: list, get, put, delete, and their holders (AUTH-18)."""

from dataclasses import replace
from typing import Final

from shared.errors import Conflict, InvalidRequest, NotFound
from shared.model import signing_keys
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.differences import changed_details
from shared.model.identities import roles as model
from shared.model.identities.roles import BUILT_IN, Role
from shared.model.identities.sessions import AccessRecord, access_address
from shared.model.items import Value
from shared.operations.base import audit
from shared.operations.base.operation import operation
from shared.operations.identities import approvers, protected_acts
from shared.operations.identities.authentication import read_access
from shared.ports import Ports
from shared.ports.store import Change, Put, expect_version

_BUILT_IN: Final = "This role is built in; choose another name."


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def every(ports: Ports, caller: Caller) -> list[Role]:
    """Return all roles of the tenant: the built-in ones, then the others by name."""
    by_name = of_tenant(ports, caller.tenant_id)
    custom_names = sorted(by_name.keys() - BUILT_IN.keys())
    return [*BUILT_IN.values(), *(by_name[each] for each in custom_names)]


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def get(ports: Ports, caller: Caller, *, name: str) -> Role:
    """Return a role. Raises `NotFound`."""
    role = of_tenant(ports, caller.tenant_id).get(name)
    if role is None:
        raise NotFound
    return role


@operation(Scope.ADMIN, fresh=True)
def put_role(ports: Ports, caller: Caller, *, role: Role) -> Role:
    """Create or change a role. Its holders have the new role at their next requests.

    Raises `Conflict` if it is built in, or the tenant has `ROLES_MAX`; `InvalidRequest` if a
    signing key does not exist; `TooFewApprovers` (APPROVAL-5).
    """
    if role.is_built_in:
        raise Conflict(_BUILT_IN)
    access, item = read_access(ports, caller.tenant_id), role.to_item()
    before = access.roles.get(role.name)
    is_new = before != item
    details = changed_details(role.name, _parse_role(before), role)
    approval = protected_acts.access_changed(
        ports, caller, role.name, details, version=access.version, is_needed=is_new
    )
    if not is_new:
        return role
    if role.name not in access.roles and len(access.roles) >= model.ROLES_MAX:
        raise Conflict(f"The tenant has {model.ROLES_MAX} roles; delete one.")
    keys = signing_keys.keys(caller.tenant_id)
    named = {keys.address(each) for each in role.signing_keys}
    if named and len(ports.store.get_many(named)) != len(named):
        raise InvalidRequest("signing_keys: must be identifiers of signing keys.")
    stored = replace(access, roles=access.roles | {role.name: item})
    entry = audit.entry(ports, caller, AuditAction.ROLE_PUT, role.name, settings=None, **details)
    _write(ports, caller, stored, entry, *approval)
    return role


@operation(Scope.ADMIN, fresh=True)
def delete(ports: Ports, caller: Caller, *, name: str) -> None:
    """Delete a role. Its holders lose access immediately.

    Raises `NotFound`; `Conflict` if it is built in; `TooFewApprovers` (APPROVAL-5).
    """
    if name in BUILT_IN:
        raise Conflict(_BUILT_IN)
    access = read_access(ports, caller.tenant_id)
    if name not in access.roles:
        raise NotFound
    details = changed_details(name, _parse_role(access.roles[name]), None)
    approval = protected_acts.access_changed(ports, caller, name, details, version=access.version)
    rest = {each: role for each, role in access.roles.items() if each != name}
    entry = audit.entry(ports, caller, AuditAction.ROLE_DELETE, name, settings=None, **details)
    _write(ports, caller, replace(access, roles=rest), entry, *approval)


def of_tenant(ports: Ports, tenant_id: str) -> dict[str, Role]:
    """Return all roles of a tenant by name."""
    return model.of_tenant(read_access(ports, tenant_id))


def _parse_role(item: Value) -> Role | None:
    return Role.from_item(item) if isinstance(item, dict) else None


def _write(ports: Ports, caller: Caller, access: AccessRecord, *changes: Change) -> None:
    checks = approvers.keep_two(ports, caller, after=access, extra_changes=changes)
    stored = replace(access, version=access.version + 1)
    put = Put(access_address(caller.tenant_id), stored.to_item(), expect_version(access.version))
    ports.store.write(put, *changes, *checks)
