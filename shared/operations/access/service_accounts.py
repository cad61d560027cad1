"""Service accounts: create, list, get, disable, enable, delete (ACCOUNT-4)."""

from dataclasses import replace
from typing import Final

from shared.errors import Conflict
from shared.model import api_keys
from shared.model import service_accounts as model
from shared.model.api_keys import ApiKey, Credential
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope, identity
from shared.model.differences import changed_details
from shared.model.identifiers import SERVICE_ACCOUNT
from shared.model.identities.approvals import ProtectedAction
from shared.model.identities.providers import IdentityProvider, providers
from shared.model.lists.tombstones import Tombstone, TombstoneStatus
from shared.model.service_accounts import AccountStatus, ServiceAccount
from shared.model.tenants import TenantSettings
from shared.operations.access import api_key_end
from shared.operations.access.api_key_creation import find_account
from shared.operations.base import allowance, audit, tenants
from shared.operations.base.idempotency import Keep, idempotent, of_record
from shared.operations.base.operation import operation, wait_for_writes
from shared.operations.base.paging import Page, PageQueryPlan, count, newest
from shared.operations.identities import protected_acts, roles
from shared.operations.lists import records as srl_records
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Increment, Put, VersionIs

_SWITCHED: Final = {
    AccountStatus.DISABLED: AuditAction.SERVICE_ACCOUNT_DISABLE,
    AccountStatus.ACTIVE: AuditAction.SERVICE_ACCOUNT_ENABLE,
}


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page(ports: Ports, caller: Caller, *, before: str | None, limit: int) -> Page[ServiceAccount]:
    """Return a page of the tenant's accounts, newest first."""
    partition = model.accounts(caller.tenant_id)
    walk = PageQueryPlan(partition, ServiceAccount.from_item, before, limit)
    return newest(ports, walk, total=lambda: count(ports, model.count_address(caller.tenant_id)))


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def get(ports: Ports, caller: Caller, *, account_id: str) -> ServiceAccount:
    """Return an account of the tenant. Raises `NotFound`."""
    return find_account(ports, caller, account_id)


@idempotent(Scope.ADMIN, keeps=of_record(ServiceAccount), fresh=True)
def create(
    ports: Ports,
    caller: Caller,
    keep: Keep[ServiceAccount],
    *,
    name: str,
    description: str | None = None,
) -> ServiceAccount:
    """Create an active account. Raises `Conflict` if an account has, or had, this name."""
    settings = tenants.settings(ports, caller.tenant_id)
    if ports.store.get(model.name_address(caller.tenant_id, name)) is not None:
        raise Conflict("name: belongs or belonged to a service account; choose another.")
    account = new(ports, settings, name=name, description=description)
    ports.store.write(
        *creation(account),
        audit.entry(
            ports,
            caller,
            AuditAction.SERVICE_ACCOUNT_CREATE,
            account.id,
            settings=settings,
            name=name,
            description=description,
        ),
        *keep(account),
    )
    return account


@idempotent(Scope.ADMIN, keeps=of_record(ServiceAccount), fresh=True)
def disable(
    ports: Ports, caller: Caller, keep: Keep[ServiceAccount], *, account_id: str
) -> ServiceAccount:
    """Disable all keys of an account at once. A disabled account is returned unchanged.

    Raises `NotFound`; `Conflict` if no admin key would be left (APIKEY-7).
    """
    return _switch(ports, caller, keep, account_id, AccountStatus.DISABLED)


@idempotent(Scope.ADMIN, keeps=of_record(ServiceAccount), fresh=True)
def enable(
    ports: Ports, caller: Caller, keep: Keep[ServiceAccount], *, account_id: str
) -> ServiceAccount:
    """Enable an account and its keys that are not revoked.

    Raises `NotFound`; `ApprovalRequired` if that gives the scope `admin` (APPROVAL-1).
    """
    return _switch(ports, caller, keep, account_id, AccountStatus.ACTIVE)


@operation(Scope.ADMIN, fresh=True)
def delete(ports: Ports, caller: Caller, *, account_id: str) -> None:
    """Delete an account. Raises `NotFound`; `Conflict` if it owns keys.

    Its name cannot be used again, because revocations and audit entries name accounts by e-mail.
    """
    account = find_account(ports, caller, account_id)
    if account.api_key_count:
        raise Conflict("The service account owns API keys; delete them first.")
    ports.store.write(
        Delete(account.address, VersionIs(account.version)),
        Increment(model.count_address(caller.tenant_id), {"count": -1}, Expect.PRESENT),
        *srl_records.tombstone_changes(
            caller.tenant_id, Tombstone(account.id, TombstoneStatus.DELETED, ports.now())
        ),
        audit.entry(
            ports, caller, AuditAction.SERVICE_ACCOUNT_DELETE, account.id, name=account.name
        ),
    )


def new(
    ports: Ports, settings: TenantSettings, *, name: str, description: str | None = None
) -> ServiceAccount:
    """Return a new active account without storing it."""
    return ServiceAccount(
        id=ports.new_id(SERVICE_ACCOUNT),
        tenant_id=settings.tenant_id,
        name=name,
        email=identity(name, handle=settings.handle),
        description=description,
        status=AccountStatus.ACTIVE,
        created_at=ports.now(),
    )


def creation(account: ServiceAccount) -> list[Change]:
    """Return the changes that store an account and reserve its name."""
    return [
        Put(account.address, account.to_item(), Expect.ABSENT),
        Put(model.name_address(account.tenant_id, account.name), {"id": account.id}, Expect.ABSENT),
        Increment(model.count_address(account.tenant_id), {"count": 1}, Expect.ANYTHING),
    ]


def _switch(
    ports: Ports, caller: Caller, keep: Keep[ServiceAccount], account_id: str, target: AccountStatus
) -> ServiceAccount:
    account = find_account(ports, caller, account_id)
    if account.status is target:
        allowance.check_asks_nothing(caller)
        return account
    # The items of a write that creates or rotates a key become visible one by one, possibly the
    # account first. After this, all keys of this account version are visible in their current
    # state.
    wait_for_writes()
    owned = ports.store.query(api_keys.owned_by(account.tenant_id, account.id))
    records = api_keys.records(account.tenant_id)
    items = ports.store.get_many(records.address(row.sk) for row in owned)
    keys = [ApiKey.from_item(item) for item in items.values()]
    switched = replace(account, status=target, version=account.version + 1)
    details = changed_details(account.name, account, switched)
    if target is AccountStatus.DISABLED:
        checks = api_key_end.guard(ports, caller, losing=keys)
    else:
        checks = protected_acts.approval_changes(
            ports,
            caller,
            ProtectedAction.CREATE_ADMIN_KEY,
            account.id,
            details,
            version=account.version,
            is_needed=_gives_admin(ports, account, keys),
        )
    # A revoked key has no credential, so enabling does not restore it.
    items = ports.store.get_many(api_keys.credential_address(key.digest) for key in keys)
    is_disabled = target is AccountStatus.DISABLED
    credentials = (
        replace(Credential.from_item(item), disabled=is_disabled) for item in items.values()
    )
    ports.store.write(
        # If a key of the account is created or deleted concurrently, the version differs.
        Put(account.address, switched.to_item(), VersionIs(account.version)),
        *(Put(each.address, each.to_item(), Expect.PRESENT) for each in credentials),
        *checks,
        *srl_records.tombstone_counter_changes(caller.tenant_id),
        audit.entry(ports, caller, _SWITCHED[target], account.id, settings=None, **details),
        *keep(switched),
    )
    return switched


def _gives_admin(ports: Ports, account: ServiceAccount, keys: list[ApiKey]) -> bool:
    """Return whether a key or a program's role mapping gives an account the scope `admin`."""
    live = [each for each in keys if each.is_live(ports.now())]
    sources = IdentityProvider.from_rows(ports.store.query(providers(account.tenant_id)))
    mappings = [each for source in sources for each in source.role_mapping_list]
    names = {each.role for each in mappings if each.service_account == account.name}
    names |= {each.role for each in live if each.role is not None}
    known = roles.of_tenant(ports, account.tenant_id)
    scopes = [each.scopes for each in live] + [known[each].scopes for each in names & known.keys()]
    return any(Scope.ADMIN in each for each in scopes)
