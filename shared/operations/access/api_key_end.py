"""The end of API keys (docs/adr/05). The last admin key cannot end (APIKEY-7)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from shared.errors import Conflict
from shared.model import api_keys as model
from shared.model import service_accounts
from shared.model.api_keys import ApiKey, ApiKeyStatus, CredentialTombstone
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller
from shared.model.differences import changed_details
from shared.model.items import Value
from shared.model.service_accounts import ServiceAccount
from shared.model.tenants import TenantSettings
from shared.operations.base import audit
from shared.operations.lists import records as srl_records
from shared.ports import Ports
from shared.ports.store import Address, Change, Check, Delete, Expect, Put, VersionIs

# The remaining admin key must be valid for at least this long.
REMAINING: Final = timedelta(hours=24)


def revoke(
    ports: Ports,
    caller: Caller,
    key: ApiKey,
    keep: Callable[[ApiKey], Sequence[Change]] = lambda _: (),
    *,
    is_last_kept: bool = True,
    settings: TenantSettings | None = None,
    **details: Value,
) -> ApiKey:
    """Revoke an active key, in one write with the changes of `keep`.

    `details` are for the audit log. Raises `Conflict` if it is the last admin key and
    `is_last_kept` (APIKEY-7).
    """
    now = ports.now()
    after = replace(key, status=ApiKeyStatus.REVOKED, revoked_at=now, version=key.version + 1)
    described = changed_details(key.name, key, after) | details
    ports.store.write(
        Put(key.address, after.to_item(), VersionIs(key.version)),
        *revocation_changes(key, now, Expect.PRESENT),
        *(guard(ports, caller, losing=[key]) if is_last_kept else ()),
        *srl_records.tombstone_counter_changes(key.tenant_id),
        audit.entry(
            ports, caller, AuditAction.API_KEY_REVOKE, key.id, settings=settings, **described
        ),
        *keep(after),
    )
    return after


def revocation_changes(key: ApiKey, at: datetime, expect: Expect) -> list[Change]:
    """Return the changes that revoke a key; `expect` is the precondition for its credential."""
    note = CredentialTombstone(key.digest, key.tenant_id, at)
    return [
        Delete(model.credential_address(key.digest), expect),
        Put(note.address, note.to_item(), Expect.ANYTHING),
    ]


def deletion_changes(key: ApiKey) -> list[Change]:
    """Return the changes for the write that deletes a key in any state."""
    return [
        Delete(model.credential_address(key.digest), Expect.ANYTHING),
        Delete(model.revocation_note_address(key.digest), Expect.ANYTHING),
        *(Delete(each, Expect.ANYTHING) for each in key.listings),
    ]


def guard(
    ports: Ports, caller: Caller, *, losing: Collection[ApiKey], addresses: Collection[Address] = ()
) -> list[Change]:
    """Return preconditions that another admin key remains after the keys `losing` end.

    Omits items at `addresses`, because the same write already has a precondition on them. Raises
    `Conflict` if `losing` contains a live admin key and no other admin key stays accepted for
    `REMAINING`.
    """
    now = ports.now()
    if not any(key.is_live_admin(now) for key in losing):
        return []
    ids, own = {key.id for key in losing}, None
    if caller.key_id is not None and caller.key_id not in ids:
        address = model.records(caller.tenant_id).address(caller.key_id)
        own = ApiKey.from_optional(ports.store.get(address))
    # The caller's own key almost always remains, which avoids reading all keys.
    stays = _another(ports, caller.tenant_id, [own] if own else [])
    stays = stays or _another(ports, caller.tenant_id, _all(ports, caller.tenant_id, ids))
    if stays is None:
        raise Conflict(
            "The tenant would have no active admin key; first create another admin key that does "
            "not expire within 24 hours."
        )
    # A concurrent write that ends that key or disables its account conflicts with this one.
    return [
        Check(each.address, VersionIs(each.version))
        for each in stays
        if each.address not in addresses
    ]


def is_left(ports: Ports, tenant_id: str) -> bool:
    """Return whether the tenant has an admin key that stays accepted for `REMAINING`."""
    return _another(ports, tenant_id, _all(ports, tenant_id, set())) is not None


def _all(ports: Ports, tenant_id: str, losing: set[str]) -> Iterator[ApiKey]:
    entries = ports.store.query(model.records(tenant_id), newest_first=True)
    return (ApiKey.from_item(entry.item) for entry in entries if entry.sk not in losing)


def _another(
    ports: Ports, tenant_id: str, keys: Iterable[ApiKey]
) -> tuple[ApiKey] | tuple[ApiKey, ServiceAccount] | None:
    """Return a remaining admin key among `keys`, with its account if it has one."""
    # A key that expires soon would leave no key that can create another one.
    until = ports.now() + REMAINING
    owned: dict[str, ApiKey] = {}
    for key in keys:
        if key.is_live_admin(until):
            if key.service_account_id is None:
                return (key,)
            owned.setdefault(key.service_account_id, key)
    accounts = service_accounts.accounts(tenant_id)
    items = ports.store.get_many(accounts.address(owner) for owner in owned)
    owners = map(ServiceAccount.from_item, items.values())
    active = next(
        (each for each in owners if each.status is service_accounts.AccountStatus.ACTIVE), None
    )
    return (owned[active.id], active) if active else None
