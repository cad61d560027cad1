"""Rotate API keys: a new key replaces an old one, which expires after a grace period."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from shared.errors import InvalidState
from shared.model import api_keys as model
from shared.model import times
from shared.model.api_keys import ApiKey, ApiKeyStatus, Credential
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.differences import changed_details
from shared.model.identifiers import API_KEY
from shared.operations.access import api_key_creation, api_key_end
from shared.operations.access.api_key_creation import CreatedKey, Maker
from shared.operations.base import allowance, audit, tenants
from shared.operations.base.idempotency import Keep, idempotent, secret_shown
from shared.operations.lists import records as srl_records
from shared.ports import Ports
from shared.ports.store import Change, Expect, Put, VersionIs

_LAST: Final = datetime.max.replace(tzinfo=UTC, microsecond=0)


@dataclass(frozen=True, slots=True)
class RotatedKey:
    """The new key, its predecessor, and the time from which the predecessor is refused."""

    created: CreatedKey
    predecessor: ApiKey
    accepted_until: datetime


def _created_id(rotated_key: RotatedKey) -> str:
    return rotated_key.created.api_key.id


@idempotent(Scope.ADMIN, keeps=secret_shown(_created_id), fresh=True)
def rotate(
    ports: Ports,
    caller: Caller,
    keep: Keep[RotatedKey],
    *,
    key_id: str,
    grace_seconds: int,
    expires_at: datetime | None = None,
) -> RotatedKey:
    """Create a key with the name, scopes and account of another, which ends soon (APIKEY-10).

    The old key is accepted for `grace_seconds`, but not longer than before. With 0 it is revoked.
    Without `expires_at`, the new key gets the original lifetime of the old one.

    Raises `NotFound`; `InvalidState` if the old key ended or was rotated, or if its account is
    disabled; `Conflict` if the account has the maximum number of keys, or if no admin key would be
    left (APIKEY-7); `InvalidRequest` if `expires_at` has passed, or if the new key would outlive
    the calling key (APIKEY-4) or have other networks.
    """
    records, now = model.records(caller.tenant_id), times.truncate_to_second(ports.now())
    key = allowance.find(ports, records, key_id, kind=API_KEY, record=ApiKey)
    _check_rotates(key, now)
    settings = tenants.settings(ports, caller.tenant_id)
    account = api_key_creation.joinable(ports, caller, key.service_account_id)
    maker = _find_maker(ports, caller, key)
    latest = api_key_creation.find_latest_end(ports, settings, maker, key)
    allowance.check_end(ports, expires_at)
    if expires_at is None:
        if key.expires_at is not None:
            lifetime = key.expires_at - times.truncate_to_second(key.created_at)
            expires_at = now + min(lifetime, _LAST - now)
        if latest is not None:
            expires_at = min(expires_at or latest, latest)
    api_key_creation.check_outlives(caller, expires_at)
    created, changes = api_key_creation.creation(
        ports,
        settings,
        name=key.name,
        scopes=key.scopes,
        expires_at=expires_at,
        account=account,
        role=key.role,
        networks=key.networks,
        maker=maker,
    )
    until = min(key.expires_at or _LAST, now + timedelta(seconds=grace_seconds))
    ending = _ending(key, created.api_key.id, until, is_at_once=not grace_seconds)
    details = changed_details(key.name, None, created.api_key)
    rotated = RotatedKey(created, ending, until)
    joined = api_key_creation.account_key_count_changes(account)
    approval = api_key_creation.admin_key_approval_changes(
        ports, caller, created.api_key, details, predecessor=key
    )
    ports.store.write(
        *changes,
        *approval,
        # Conflicts with a concurrent write that disables the account.
        *joined,
        *_guard(ports, caller, key, max(until, expires_at or _LAST), [*joined, *maker.checks]),
        *_expiry_changes(key, ending, api_key_creation.credential(ending, settings, account)),
        *srl_records.tombstone_counter_changes(caller.tenant_id),
        audit.entry(
            ports,
            caller,
            AuditAction.API_KEY_ROTATE,
            key.id,
            settings=settings,
            **details,
            successor_id=created.api_key.id,
            accepted_until=times.format_utc(until),
        ),
        *keep(rotated),
    )
    return rotated


def _find_maker(ports: Ports, caller: Caller, key: ApiKey) -> Maker:
    """Return the maker of the successor: the original maker, and the people behind the caller.

    The people of earlier rotations have not seen the new secret.
    """
    by = api_key_creation.find_maker(ports, caller)
    # The write already has the version of the key as a precondition, even if it rotates itself.
    checks = tuple(each for each in by.checks if each.address != key.address)
    people_ids = tuple(dict.fromkeys((*key.creator_ids, *by.people_ids)))
    return Maker(key.created_by_id, people_ids, checks, by.networks, key.creator_ids)


def _check_rotates(key: ApiKey, now: datetime) -> None:
    if key.successor_id is not None:
        raise InvalidState(f"The API key was rotated; rotate its successor {key.successor_id}.")
    if key.status is ApiKeyStatus.REVOKED:
        raise InvalidState("The API key is revoked; create another one.")
    if times.has_passed(key.expires_at, now):
        raise InvalidState("The API key has expired; create another one.")


def _guard(
    ports: Ports, caller: Caller, key: ApiKey, last: datetime, extra_changes: Sequence[Change]
) -> list[Change]:
    """Return the preconditions of a write with `extra_changes` that ends both keys by `last`.

    Raises `Conflict` if they end soon and earlier than the old key did, and no admin key would be
    left.
    """
    is_soon = times.has_passed(last, ports.now() + api_key_end.REMAINING)
    if not is_soon or last >= (key.expires_at or _LAST):
        return []
    written = [each.address for each in extra_changes]
    return api_key_end.guard(ports, caller, losing=[key], addresses=written)


def _ending(key: ApiKey, successor_id: str, until: datetime, *, is_at_once: bool) -> ApiKey:
    ending = replace(key, successor_id=successor_id, version=key.version + 1)
    if is_at_once:
        return replace(ending, status=ApiKeyStatus.REVOKED, revoked_at=until)
    return replace(ending, expires_at=until)


def _expiry_changes(key: ApiKey, ending: ApiKey, credential: Credential) -> list[Change]:
    """Return the changes that end the old key and its secret according to `ending`."""
    accepted: list[Change] = [Put(credential.address, credential.to_item(), Expect.PRESENT)]
    if ending.revoked_at is not None:
        accepted = api_key_end.revocation_changes(key, ending.revoked_at, Expect.PRESENT)
    return [Put(ending.address, ending.to_item(), VersionIs(key.version)), *accepted]
