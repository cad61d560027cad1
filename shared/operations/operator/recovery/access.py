"""Recovery of API keys and service accounts (docs/adr/14).

The last admin key is not protected here (APIKEY-7). Revoked keys must stay revoked, and the
operator can create an admin key.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from shared.model import api_keys, service_accounts, times
from shared.model.api_keys import ApiKey, Credential
from shared.model.audit.audit_log import AuditAction
from shared.model.lists import tombstones as model
from shared.model.lists.tombstones import Tombstone, TombstoneStatus
from shared.model.service_accounts import ServiceAccount
from shared.operations.access import api_key_end
from shared.operations.lists import records as srl_records
from shared.operations.operator.recovery.run import RecoveryRun
from shared.ports.store import Change, Delete, Expect, Increment, Put, VersionIs


def apply_to_keys(run: RecoveryRun, tombstones: Iterable[Tombstone]) -> None:
    """Revoke or delete the API keys of these tombstones again, and delete their credentials."""
    for tombstone in tombstones:
        run.settle(partial(_apply_to_key, run, tombstone))


def apply_to_accounts(
    run: RecoveryRun, tombstones: Iterable[Tombstone], *, is_behind: bool
) -> None:
    """Delete or disable the accounts of these tombstones again.

    Accounts are disabled only if the table of keys is behind the newest SRL. Otherwise they may
    have been enabled since.
    """
    for tombstone in tombstones:
        if is_behind or tombstone.status is TombstoneStatus.DELETED:
            run.settle(partial(_apply_to_account, run, tombstone))


def _apply_to_key(run: RecoveryRun, tombstone: Tombstone) -> str | None:
    address = api_keys.records(run.tenant_id).address(tombstone.id)
    key = ApiKey.from_optional(run.ports.store.get(address))
    if key is None:
        _store_tombstone(run, tombstone)
        return _delete_credential(run, tombstone)
    if tombstone.status is TombstoneStatus.DELETED:
        changes = [
            Delete(key.address, VersionIs(key.version)),
            *api_key_end.deletion_changes(key),
            Delete(api_keys.usage(run.tenant_id).address(key.id), Expect.ANYTHING),
            Increment(api_keys.count_address(run.tenant_id), {"count": -1}, Expect.ANYTHING),
        ]
        if (owner := key.service_account_id) is not None:
            account = service_accounts.accounts(run.tenant_id).address(owner)
            listed = api_keys.owned_by(run.tenant_id, owner).address(key.id)
            changes.append(Delete(listed, Expect.ANYTHING))
            if run.ports.store.get(account) is not None:
                amounts = {"api_key_count": -1, "version": 1}
                changes.append(Increment(account, amounts, Expect.PRESENT))
        changes += srl_records.tombstone_changes(run.tenant_id, tombstone)
        changes.append(run.entry(AuditAction.API_KEY_DELETE, key.id, name=key.name))
        run.ports.store.write(*changes)
        return f'Deleted again: API key {key.id} "{key.name}"'
    if key.status is api_keys.ApiKeyStatus.REVOKED:
        return _delete_credential(run, tombstone)
    if tombstone.status is TombstoneStatus.ROTATED:
        return _expire_rotated_key(run, key, tombstone)
    at = tombstone.at or run.ports.now()
    revoked = replace(
        key, status=api_keys.ApiKeyStatus.REVOKED, revoked_at=at, version=key.version + 1
    )
    run.ports.store.write(
        Put(key.address, revoked.to_item(), VersionIs(key.version)),
        *api_key_end.revocation_changes(key, at, Expect.ANYTHING),
        *srl_records.tombstone_counter_changes(run.tenant_id),
        run.entry(AuditAction.API_KEY_REVOKE, key.id, name=key.name),
    )
    return f'Revoked again: API key {key.id} "{key.name}"'


def _expire_rotated_key(run: RecoveryRun, key: ApiKey, tombstone: Tombstone) -> str | None:
    """Expire a rotated key when its grace period ends."""
    if key.successor_id is not None:
        return None
    until = tombstone.at or run.ports.now()
    until = min(until, key.expires_at or until)
    ending = replace(
        key, expires_at=until, successor_id=tombstone.successor_id, version=key.version + 1
    )
    changes: list[Change] = [Put(key.address, ending.to_item(), VersionIs(key.version))]
    item = run.ports.store.get(api_keys.credential_address(key.digest))
    if item is not None:
        credential = replace(Credential.from_item(item), expires_at=until)
        changes.append(Put(credential.address, credential.to_item(), Expect.PRESENT))
    run.ports.store.write(
        *changes,
        *srl_records.tombstone_counter_changes(run.tenant_id),
        run.entry(
            AuditAction.API_KEY_ROTATE, key.id, name=key.name, expires_at=times.format_utc(until)
        ),
    )
    return f'Retired again: API key {key.id} "{key.name}", which was rotated'


def _delete_credential(run: RecoveryRun, tombstone: Tombstone) -> str | None:
    """Delete the credential of a key that is revoked or has no record, if there is one."""
    address = api_keys.credential_address(tombstone.digest or "")
    if tombstone.digest is None or run.ports.store.get(address) is None:
        return None
    run.ports.store.write(
        Delete(address, Expect.PRESENT), run.entry(AuditAction.API_KEY_REVOKE, tombstone.id)
    )
    return f"Removed: the credential of the API key {tombstone.id}"


def _apply_to_account(run: RecoveryRun, tombstone: Tombstone) -> str | None:
    address = service_accounts.accounts(run.tenant_id).address(tombstone.id)
    account = ServiceAccount.from_optional(run.ports.store.get(address))
    if account is None:
        _store_tombstone(run, tombstone)
        return None
    if tombstone.status is TombstoneStatus.DELETED and not account.api_key_count:
        run.ports.store.write(
            Delete(account.address, VersionIs(account.version)),
            Increment(
                service_accounts.count_address(run.tenant_id), {"count": -1}, Expect.ANYTHING
            ),
            *srl_records.tombstone_changes(run.tenant_id, tombstone),
            run.entry(AuditAction.SERVICE_ACCOUNT_DELETE, account.id, name=account.name),
        )
        return f'Deleted again: service account {account.id} "{account.name}"'
    owned = run.ports.store.query(api_keys.owned_by(run.tenant_id, account.id))
    records = api_keys.records(run.tenant_id)
    items = run.ports.store.get_many(records.address(each.sk) for each in owned)
    keys = map(ApiKey.from_item, items.values())
    items = run.ports.store.get_many([api_keys.credential_address(key.digest) for key in keys])
    credentials = [
        Put(credential.address, replace(credential, disabled=True).to_item(), Expect.PRESENT)
        for credential in map(Credential.from_item, items.values())
        if not credential.disabled
    ]
    if account.status is service_accounts.AccountStatus.DISABLED and not credentials:
        return None
    disabled = replace(
        account, status=service_accounts.AccountStatus.DISABLED, version=account.version + 1
    )
    run.ports.store.write(
        Put(account.address, disabled.to_item(), VersionIs(account.version)),
        *credentials,
        *srl_records.tombstone_counter_changes(run.tenant_id),
        run.entry(AuditAction.SERVICE_ACCOUNT_DISABLE, account.id, name=account.name),
    )
    return f'Disabled again: service account {account.id} "{account.name}"'


def _store_tombstone(run: RecoveryRun, tombstone: Tombstone) -> None:
    """Store a tombstone without a record, because a later restore may bring the record back."""
    address = model.deleted_partition(run.tenant_id).address(tombstone.id)
    if run.ports.store.get(address) is None:
        run.ports.store.write(*srl_records.tombstone_changes(run.tenant_id, tombstone))
