"""Create API keys, for a caller, a rotation, or a new tenant."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from shared.errors import Conflict, InvalidApiKey, InvalidRequest, InvalidState, NotFound
from shared.model import api_keys as model
from shared.model import service_accounts, times
from shared.model.api_keys import ApiKey, ApiKeyStatus, Credential, Usage
from shared.model.callers import Caller, Scope, identity
from shared.model.identifiers import API_KEY, SERVICE_ACCOUNT
from shared.model.items import Address, Value
from shared.model.service_accounts import ServiceAccount
from shared.model.tenants import PERSON_ADMIN_KEY_MAX_DAYS, TenantSettings
from shared.operations.base.allowance import find
from shared.ports import Ports
from shared.ports.store import Change, Check, Expect, Increment, Put, VersionIs

if TYPE_CHECKING:
    from shared.model.identities.roles import Role


# The caller computes the expiry with its own clock.
_SKEW: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """A new key and its secret, which is returned once and not stored."""

    api_key: ApiKey
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Maker:
    """The maker of a key, and the people who may see its secret. Both are empty for an operator.

    A write that creates a key includes `checks`, so the maker cannot end concurrently. `networks`
    limit a maker that is a key. If the first key was rotated, `creator_ids` are its makers.
    """

    id: str | None = None
    people_ids: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    networks: tuple[str, ...] = ()
    creator_ids: tuple[str, ...] | None = None


def find_maker(ports: Ports, caller: Caller) -> Maker:
    """Read the maker for a caller. Raises `InvalidApiKey` if it has ended.

    Raises `InsufficientScope` if a disabled person may know the secret of the calling key.
    """
    # Imported here so that requests with API keys do not load it.
    from shared.model.identities import people  # noqa: PLC0415
    from shared.operations.base.effects import check_makers  # noqa: PLC0415

    if caller.key_id is not None:
        item = ports.store.get(model.records(caller.tenant_id).address(caller.key_id))
        key = ApiKey.from_optional(item)
        if key is None or key.status is not ApiKeyStatus.ACTIVE:
            raise InvalidApiKey
        checks = (Check(key.address, VersionIs(key.version)), *check_makers(ports.store, key))
        return Maker(key.id, key.people_ids, checks, key.networks)
    if caller.person_id is None:
        return Maker(caller.owner_id)
    place = people.people(caller.tenant_id).address(caller.person_id)
    person = people.Person.from_optional(ports.store.get(place))
    if person is None or not person.is_active:
        raise InvalidApiKey("The session has ended; sign in again.")
    return Maker(person.id, (person.id,), (Check(place, VersionIs(person.version)),))


def creation(  # noqa: PLR0913 (callers pass them by name)
    ports: Ports,
    settings: TenantSettings,
    *,
    name: str,
    scopes: tuple[Scope, ...],
    expires_at: datetime | None = None,
    account: ServiceAccount | None = None,
    role: str | None = None,
    networks: tuple[str, ...] = (),
    maker: Maker | None = None,
) -> tuple[CreatedKey, list[Change]]:
    """Return a new key, and the changes that store it. The caller writes them.

    Raises `InvalidRequest` if a key of this `maker` may not have these networks or this expiry, and
    `Conflict` if too many people may know its secret.
    """
    maker = maker or Maker()
    if maker.networks and {*networks} != {*maker.networks}:
        only = ", ".join(maker.networks)
        raise InvalidRequest(
            f"networks: must be {only}, because the calling key is limited to them."
        )
    if len(maker.people_ids) > model.PEOPLE_MAX:
        raise Conflict(
            f"More than {model.PEOPLE_MAX} people created or rotated the predecessors of this "
            "key; create another key from a session."
        )
    secret = model.new_secret()
    key = ApiKey(
        id=ports.new_id(API_KEY),
        tenant_id=settings.tenant_id,
        name=name,
        scopes=scopes,
        status=ApiKeyStatus.ACTIVE,
        digest=model.digest(secret),
        created_at=ports.now(),
        expires_at=expires_at,
        service_account_id=account.id if account else None,
        role=role,
        created_by_id=maker.id,
        people_ids=maker.people_ids,
        creator_ids=maker.people_ids if maker.creator_ids is None else maker.creator_ids,
        networks=networks,
    )
    latest = find_latest_end(ports, settings, maker, key)
    if latest is not None and (expires_at is None or expires_at > latest + _SKEW):
        raise InvalidRequest(
            f"expires_at: must be {times.format_utc(latest)} or earlier. Keys that people create "
            f"expire within {settings.person_key_max_days} days (person_key_max_days), and within "
            f"{PERSON_ADMIN_KEY_MAX_DAYS} days with the scope admin."
        )
    accepted, usage = credential(key, settings, account), Usage(digest=key.digest)
    usage_at = model.usage(key.tenant_id).address(key.id)
    listings = [account_key_address(account.id, key)] if account else []
    return CreatedKey(key, secret), [
        Put(key.address, key.to_item(), Expect.ABSENT),
        Put(accepted.address, accepted.to_item(), Expect.ABSENT),
        Put(usage_at, usage.to_item(), Expect.ABSENT),
        Increment(model.count_address(key.tenant_id), {"count": 1}, Expect.ANYTHING),
        *(Put(each, {"id": key.id}, Expect.ABSENT) for each in (*listings, *key.listings)),
        *maker.checks,
    ]


def credential(key: ApiKey, settings: TenantSettings, account: ServiceAccount | None) -> Credential:
    """Return the credential of an active key. Its account, if any, must be active."""
    return Credential(
        digest=key.digest,
        tenant_id=key.tenant_id,
        key_id=key.id,
        identity=account.email if account else identity(key.id, handle=settings.handle),
        scopes=key.scopes,
        expires_at=key.expires_at,
        name=key.name,
        role=key.role,
        networks=key.networks,
    )


def check_role(ports: Ports, caller: Caller, scopes: tuple[Scope, ...], role: str | None) -> None:
    """Raise `InvalidRequest` unless a key gets either scopes or an existing role (AUTH-18)."""
    if bool(scopes) is (role is not None):
        raise InvalidRequest("scopes: give either scopes, or a role.")
    if role is not None and _role(ports, caller.tenant_id, role) is None:
        raise InvalidRequest("role: must be one of GET /v1/roles.")


def admin_key_approval_changes(
    ports: Ports,
    caller: Caller,
    key: ApiKey,
    details: Mapping[str, Value],
    *,
    predecessor: ApiKey | None = None,
) -> list[Change]:
    """Return the approval changes for a new admin key, if it is protected (APPROVAL-1).

    A key may rotate itself, because the new key has no further access. Raises `ApprovalRequired`.
    """
    # Imported here so that requests with API keys do not load it.
    from shared.model.identities.approvals import ProtectedAction  # noqa: PLC0415
    from shared.operations.identities import protected_acts  # noqa: PLC0415

    is_own = predecessor is not None and predecessor.id == caller.key_id
    return protected_acts.approval_changes(
        ports,
        caller,
        ProtectedAction.CREATE_ADMIN_KEY,
        predecessor.id if predecessor else "api key",
        details,
        version=predecessor.version if predecessor else 0,
        is_needed=not is_own and Scope.ADMIN in _scopes(ports, key),
    )


def _scopes(ports: Ports, key: ApiKey) -> tuple[Scope, ...]:
    """Return the scopes of a key, from its role if it has one."""
    if key.role is None:
        return key.scopes
    role = _role(ports, key.tenant_id, key.role)
    return role.scopes if role else ()


def _role(ports: Ports, tenant_id: str, name: str) -> "Role | None":
    # Imported here so that requests with API keys do not load it.
    from shared.operations.identities import roles  # noqa: PLC0415

    return roles.of_tenant(ports, tenant_id).get(name)


def check_outlives(caller: Caller, expires_at: datetime | None) -> None:
    """Raise `InvalidRequest` if a key would outlive the key that creates it (APIKEY-4)."""
    end = caller.bounds_keys_at
    if end is not None and (expires_at is None or expires_at > end):
        raise InvalidRequest(
            f"expires_at: must be {times.format_utc(end)} or earlier, because the calling key "
            "expires then."
        )


def find_latest_end(
    ports: Ports, settings: TenantSettings, maker: Maker, key: ApiKey
) -> datetime | None:
    """Return the latest allowed expiry of such a key, or None if no person is involved."""
    if not maker.people_ids:
        return None
    days = settings.person_key_max_days
    if Scope.ADMIN in _scopes(ports, key):
        days = min(days, PERSON_ADMIN_KEY_MAX_DAYS)
    return times.truncate_to_second(ports.now()) + timedelta(days=days)


def find_account(ports: Ports, caller: Caller, account_id: str) -> ServiceAccount:
    """Read a service account of the caller's tenant. Raises `NotFound`."""
    accounts = service_accounts.accounts(caller.tenant_id)
    return find(ports, accounts, account_id, kind=SERVICE_ACCOUNT, record=ServiceAccount)


def joinable(ports: Ports, caller: Caller, account_id: str | None) -> ServiceAccount | None:
    """Return the account of a new key, or None if there is none.

    Raises `InvalidRequest` if it is unknown, `InvalidState` if it is disabled, and `Conflict` if it
    has the maximum number of keys.
    """
    if account_id is None:
        return None
    try:
        account = find_account(ports, caller, account_id)
    except NotFound:
        message = "service_account_id: must be the identifier of a service account."
        raise InvalidRequest(message) from None
    if account.status is not service_accounts.AccountStatus.ACTIVE:
        raise InvalidState("The service account is disabled; enable it first.")
    if account.api_key_count >= service_accounts.API_KEYS_MAX:
        most = service_accounts.API_KEYS_MAX
        raise Conflict(f"The service account has {most} API keys; delete one first.")
    return account


def account_key_count_changes(account: ServiceAccount | None) -> list[Change]:
    """Return the changes of an account that a new key joins, or none without an account."""
    if account is None:
        return []
    # The precondition is the version at which the number of keys was checked.
    counted = replace(account, api_key_count=account.api_key_count + 1, version=account.version + 1)
    return [Put(account.address, counted.to_item(), VersionIs(account.version))]


def account_key_address(account_id: str, key: ApiKey) -> Address:
    """Return the address of a key among the keys of its account."""
    return model.owned_by(key.tenant_id, account_id).address(key.id)
