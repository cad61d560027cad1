"""API keys: list, create, get, revoke, delete, authenticate a request, describe its caller."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from shared.errors import InvalidApiKey, InvalidRequest, NotFound
from shared.model import api_keys as model
from shared.model import service_accounts, times
from shared.model.api_keys import ApiKey, ApiKeyStatus, Credential, Usage
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.differences import changed_details
from shared.model.identifiers import API_KEY, PERSON, SERVICE_ACCOUNT, is_identifier
from shared.model.items import Partition
from shared.model.lists.tombstones import Tombstone, TombstoneStatus
from shared.model.tenants import TenantSettings
from shared.operations.access import api_key_creation, api_key_end
from shared.operations.access.api_key_creation import CreatedKey
from shared.operations.base import allowance, audit, tenants
from shared.operations.base.allowance import find
from shared.operations.base.idempotency import Keep, idempotent, of_record, secret_shown
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page, PageQueryPlan, count
from shared.operations.lists import records as srl_records
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Increment, VersionIs

_MAKERS: Final = (PERSON, SERVICE_ACCOUNT, API_KEY)


def authenticate(
    ports: Ports,
    secret: str,
    *,
    source_ip: str | None = None,
    refusing: Callable[[], object] = lambda: None,
) -> Credential:
    """Return the credential of a key string, with one consistent read (AUTH-3).

    Raises `InvalidApiKey` if it is not accepted, after a second read, and `Unavailable` if the
    store does not respond. `refusing` is called before the second read, and may raise instead.
    """
    digest = model.digest(secret)
    # A malformed key is looked up like any other, so response times reveal no information.
    credential = Credential.from_optional(ports.store.get(model.credential_address(digest)))
    refusal = credential.refusal(ports.now(), source_ip) if credential else None
    is_well_formed = model.is_well_formed(secret)
    if credential and is_well_formed and not refusal:
        return credential
    refusing()
    # Each refusal costs this read (AUTH-2).
    if ports.store.get(model.revocation_note_address(digest)) is not None:
        refusal = "The API key was revoked."
    if refusal and is_well_formed:
        raise InvalidApiKey(refusal)
    raise InvalidApiKey


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page(
    ports: Ports,
    caller: Caller,
    *,
    before: str | None,
    limit: int,
    account_id: str | None = None,
    maker_id: str | None = None,
) -> Page[tuple[ApiKey, Usage]]:
    """Return the tenant's keys, newest first (API-19), optionally of one account or by one maker.

    The page is empty if the tenant has no such account or maker (APIKEY-9, APIKEY-12). Raises
    `InvalidRequest` if both are given.
    """
    if maker_id is not None:
        if account_id is not None:
            raise InvalidRequest("created_by_id: cannot be combined with service_account_id.")
        if not any(is_identifier(maker_id, kind=each) for each in _MAKERS):
            return Page([], 0, None)
        listed = model.made_by(caller.tenant_id, maker_id)
        return _page_of(ports, caller, listed, ports.store.count(listed), before, limit)
    if account_id is not None:
        try:
            return page_of_account(ports, caller, account_id=account_id, before=before, limit=limit)
        except NotFound:
            return Page([], 0, None)
    records, usage_of = model.records(caller.tenant_id), model.usage(caller.tenant_id)
    (keys, next_before), rows, total = ports.gather(
        lambda: PageQueryPlan(records, ApiKey.from_item, before, limit).run(ports),
        lambda: [*ports.store.query(usage_of, before=before, newest_first=True, limit=limit)],
        lambda: count(ports, model.count_address(caller.tenant_id)),
    )
    # A usage has the same identifier as its key.
    usages = {row.sk: row.item for row in rows}
    # Keys may have been created or deleted between the two queries: read the missing ones.
    missing = [usage_of.address(key.id) for key in keys if key.id not in usages]
    if missing:
        usages |= {place.sk: item for place, item in ports.store.get_many(missing).items()}
    # The usage of a key is deleted with the key.
    pairs = [(key, Usage.from_item(usages[key.id])) for key in keys if key.id in usages]
    return Page(pairs, total, next_before)


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page_of_account(
    ports: Ports, caller: Caller, *, account_id: str, before: str | None, limit: int
) -> Page[tuple[ApiKey, Usage]]:
    """Return the keys of a service account, newest first, with revoked ones. Raises `NotFound`."""
    account = api_key_creation.find_account(ports, caller, account_id)
    owned_by = model.owned_by(caller.tenant_id, account.id)
    return _page_of(ports, caller, owned_by, account.api_key_count, before, limit)


def _page_of(
    ports: Ports, caller: Caller, partition: Partition, total: int, before: str | None, limit: int
) -> Page[tuple[ApiKey, Usage]]:
    """Return a page of the keys with identifiers in a partition."""
    rows = ports.store.query(partition, before=before, newest_first=True, limit=limit + 1)
    ids = [row.sk for row in rows]
    records, usage_of = model.records(caller.tenant_id), model.usage(caller.tenant_id)
    items = ports.store.get_many(of.address(each) for each in ids for of in (records, usage_of))
    keys = [
        (
            ApiKey.from_item(items[records.address(each)]),
            Usage.from_item(items[usage_of.address(each)]),
        )
        for each in ids[:limit]
        # A key that was deleted since the query has neither item.
        if {records.address(each), usage_of.address(each)} <= items.keys()
    ]
    next_before = ids[limit - 1] if len(ids) > limit else None
    return Page(keys, total, next_before)


def _created_id(created_key: CreatedKey) -> str:
    return created_key.api_key.id


@idempotent(Scope.ADMIN, keeps=secret_shown(_created_id), fresh=True)
def create(  # noqa: PLR0913 (callers pass no `keep`)
    ports: Ports,
    caller: Caller,
    keep: Keep[CreatedKey],
    *,
    name: str,
    scopes: tuple[Scope, ...],
    expires_at: datetime | None = None,
    service_account_id: str | None = None,
    role: str | None = None,
    networks: tuple[str, ...] = (),
) -> CreatedKey:
    """Create an active key (APIKEY-3).

    Raises `InvalidRequest` if not exactly one of scopes and role is given, if the account or role
    is unknown, or if `expires_at` has passed. Also raises it if the key would outlive the calling
    key (APIKEY-4) or have other networks. Raises `InvalidState` if the account is disabled, and
    `Conflict` if it has the maximum number of keys.
    """
    allowance.check_end(ports, expires_at)
    api_key_creation.check_outlives(caller, expires_at)
    api_key_creation.check_role(ports, caller, scopes, role)
    settings = tenants.settings(ports, caller.tenant_id)
    account = api_key_creation.joinable(ports, caller, service_account_id)
    maker = api_key_creation.find_maker(ports, caller)
    created, changes = api_key_creation.creation(
        ports,
        settings,
        name=name,
        scopes=scopes,
        expires_at=expires_at,
        account=account,
        role=role,
        networks=networks,
        maker=maker,
    )
    details = changed_details(name, None, created.api_key)
    action, key_id = AuditAction.API_KEY_CREATE, created.api_key.id
    entry = audit.entry(ports, caller, action, key_id, settings=settings, **details)
    approval = api_key_creation.admin_key_approval_changes(ports, caller, created.api_key, details)
    ports.store.write(
        *changes,
        *api_key_creation.account_key_count_changes(account),
        entry,
        *approval,
        *keep(created),
    )
    return created


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def get(ports: Ports, caller: Caller, *, key_id: str) -> tuple[ApiKey, Usage]:
    """Return a key of the tenant and its usage. Raises `NotFound`."""
    key = _find(ports, caller, key_id)
    item = ports.store.get(model.usage(caller.tenant_id).address(key_id))
    if item is None:
        raise NotFound
    return key, Usage.from_item(item)


@idempotent(Scope.ADMIN, keeps=of_record(ApiKey), fresh=True)
def revoke(ports: Ports, caller: Caller, keep: Keep[ApiKey], *, key_id: str) -> ApiKey:
    """Revoke a key. The next request with it fails (APIKEY-5). A revoked key is returned unchanged.

    Raises `NotFound`; `Conflict` if it is the last admin key (APIKEY-7).
    """
    key = _find(ports, caller, key_id)
    if key.status is ApiKeyStatus.REVOKED:
        return key
    return api_key_end.revoke(ports, caller, key, keep)


@operation(Scope.ADMIN, fresh=True)
def delete(ports: Ports, caller: Caller, *, key_id: str) -> None:
    """Delete a key in any state (APIKEY-6).

    Raises `NotFound`; `Conflict` if it is the last admin key (APIKEY-7).
    """
    key = _find(ports, caller, key_id)
    leaving = list[Change]()
    if key.service_account_id is not None:
        account_at = service_accounts.accounts(key.tenant_id).address(key.service_account_id)
        owned_at = api_key_creation.account_key_address(key.service_account_id, key)
        leaving = [
            Increment(account_at, {"api_key_count": -1, "version": 1}, Expect.PRESENT),
            Delete(owned_at, Expect.PRESENT),
        ]
    details = changed_details(key.name, key, None)
    ports.store.write(
        Delete(key.address, VersionIs(key.version)),
        *api_key_end.deletion_changes(key),
        Delete(model.usage(key.tenant_id).address(key.id), Expect.PRESENT),
        Increment(model.count_address(key.tenant_id), {"count": -1}, Expect.PRESENT),
        *leaving,
        *api_key_end.guard(
            ports, caller, losing=[key], addresses=[each.address for each in leaving]
        ),
        *srl_records.tombstone_changes(
            key.tenant_id, Tombstone(key.id, TombstoneStatus.DELETED, ports.now(), key.digest)
        ),
        audit.entry(ports, caller, AuditAction.API_KEY_DELETE, key.id, settings=None, **details),
    )


def _find(ports: Ports, caller: Caller, key_id: str) -> ApiKey:
    return find(ports, model.records(caller.tenant_id), key_id, kind=API_KEY, record=ApiKey)


@dataclass(frozen=True, slots=True)
class CallerProfile:
    """A caller with the settings of its tenant and the record of its API key, if it has one."""

    caller: Caller
    settings: TenantSettings
    key: ApiKey | None
    can_create_until: datetime | None


@operation(*Scope, rate_limited=True)
def introduce(ports: Ports, caller: Caller) -> CallerProfile:
    """Return the current caller (AUTH-13). Raises `InvalidApiKey` if the key was deleted."""
    if caller.session_id is not None:
        settings, until = tenants.settings(ports, caller.tenant_id), caller.bounds_keys_at
        if caller.person_id is not None:
            until = times.truncate_to_second(ports.now()) + timedelta(
                days=settings.person_key_max_days
            )
        return CallerProfile(caller, settings, None, until)
    records = model.records(caller.tenant_id)
    try:
        settings, key = ports.gather(
            lambda: tenants.settings(ports, caller.tenant_id),
            lambda: find(ports, records, caller.key_id or "", kind=API_KEY, record=ApiKey),
        )
    except NotFound:
        raise InvalidApiKey from None
    return CallerProfile(caller, settings, key, caller.bounds_keys_at)
