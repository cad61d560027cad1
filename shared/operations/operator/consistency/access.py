"""Consistency of access: API keys and service accounts.

An API key has a record, credential or note, usage, count, listings by its makers, and tombstone.
The repair of an incomplete key deletes its credential or revokes its record.

An account has a record, name, count, owned keys, and credentials. If its record or a credential is
disabled, the repair disables the account.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from shared.model import api_keys, service_accounts
from shared.model.api_keys import ApiKey, ApiKeyStatus, Credential, Usage
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import identity
from shared.model.items import Partition, Table
from shared.model.lists import tombstones as tombstones_model
from shared.model.lists.tombstones import Tombstone
from shared.model.revocations import LOST
from shared.model.service_accounts import AccountStatus, ServiceAccount
from shared.operations.access import api_key_end
from shared.operations.base import tenants
from shared.operations.lists import records as srl_records
from shared.operations.operator.consistency.inconsistency import (
    Inconsistency,
    RepairEvent,
    check_counter,
)
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Expect, Put, VersionIs


def check_api_keys(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant's API keys. Raises `DataCorrupt`, `Unavailable`."""
    count_address = api_keys.count_address(tenant_id)
    before = ports.store.get(count_address)
    entries = ports.store.query(api_keys.records(tenant_id))
    keys = {entry.sk: ApiKey.from_item(entry.item) for entry in entries}
    if ports.store.get(count_address) == before:
        yield from check_counter(count_address, before, {"count": len(keys)}, what="API keys")
    usages = {e.sk: Usage.from_item(e.item) for e in ports.store.query(api_keys.usage(tenant_id))}
    found = Tombstone.from_rows(ports.store.query(tombstones_model.deleted_partition(tenant_id)))
    deleted = {each.id: each.digest for each in found if each.digest}
    for key_id in sorted(deleted.keys() & keys.keys()):
        yield _deletion(keys.pop(key_id))
    digests = deleted | {each: usage.digest for each, usage in usages.items() if usage.digest}
    yield from _credentials(ports, tenant_id, keys, digests)
    yield from _notes(ports, tenant_id, keys, digests)
    yield from _usages(tenant_id, keys, set(usages))
    yield from _listings(ports, keys)


def _deletion(key: ApiKey) -> Inconsistency:
    """Delete a key that has a tombstone. Later checks repair its usage and account."""
    return Inconsistency(
        f"the API key {key.id} was deleted, but still exists",
        (
            Delete(key.address, VersionIs(key.version)),
            *api_key_end.deletion_changes(key),
        ),
    )


def _credentials(
    ports: Ports, tenant_id: str, keys: dict[str, ApiKey], digests: dict[str, str]
) -> Iterator[Inconsistency]:
    """Check that exactly the active keys have a credential. `digests` may include more keys."""
    addresses = {
        key_id: api_keys.credential_address(digest)
        for key_id, digest in (digests | {key.id: key.digest for key in keys.values()}).items()
    }
    items = ports.store.get_many(addresses.values())
    for key_id, address in addresses.items():
        item, key = items.get(address), keys.get(key_id)
        if key is not None and key.status is ApiKeyStatus.ACTIVE:
            if item is None or _differs(Credential.from_item(item), key):
                problem = f"the API key {key.id} is active, but has no credential"
                yield _revocation(ports, key, problem)
        elif item is not None:
            record = api_keys.records(tenant_id).address(key_id)
            unchanged = Check(record, Expect.ABSENT if key is None else VersionIs(key.version))
            state = "has no record" if key is None else "is revoked"
            yield Inconsistency(
                f"the API key {key_id} {state}, but is still accepted",
                (Delete(address, Expect.PRESENT), unchanged),
            )


def _differs(credential: Credential, key: ApiKey) -> bool:
    # The name gives no access.
    wanted = replace(
        credential,
        tenant_id=key.tenant_id,
        key_id=key.id,
        scopes=key.scopes,
        expires_at=key.expires_at,
        role=key.role,
        networks=key.networks,
    )
    return credential != wanted


def _notes(
    ports: Ports, tenant_id: str, keys: dict[str, ApiKey], digests: dict[str, str]
) -> Iterator[Inconsistency]:
    """Check that only revoked keys have a note."""
    revoked = {each for each, key in keys.items() if key.status is ApiKeyStatus.REVOKED}
    addresses = {
        key_id: api_keys.revocation_note_address(digest)
        for key_id, digest in (digests | {key.id: key.digest for key in keys.values()}).items()
        if key_id not in revoked
    }
    found = ports.store.get_many(addresses.values()) if addresses else {}
    for key_id, address in addresses.items():
        if address in found and key_id in keys:
            problem = f"the API key {key_id} is active, but has a revocation note"
            yield _revocation(ports, keys[key_id], problem)
        elif address in found:
            absent = Check(api_keys.records(tenant_id).address(key_id), Expect.ABSENT)
            yield Inconsistency(
                f"the API key {key_id} has no record, but has a revocation note",
                (Delete(address, Expect.PRESENT), absent),
            )


def _revocation(ports: Ports, key: ApiKey, problem: str) -> Inconsistency:
    """Revoke a key if its creation or its revocation is incomplete, because either is possible."""
    now = ports.now()
    revoked = replace(key, status=ApiKeyStatus.REVOKED, revoked_at=now, version=key.version + 1)
    return Inconsistency(
        problem,
        (
            Put(key.address, revoked.to_item(), VersionIs(key.version)),
            *api_key_end.revocation_changes(key, now, Expect.ANYTHING),
            *srl_records.tombstone_counter_changes(key.tenant_id),
        ),
        RepairEvent(AuditAction.API_KEY_REVOKE, key.id, {"reason": LOST}),
    )


def _listings(ports: Ports, keys: dict[str, ApiKey]) -> Iterator[Inconsistency]:
    """Check that makers list their keys. The lists serve to revoke the keys of a person."""
    places = {place: key for key in keys.values() for place in key.listings}
    found = ports.store.get_many(places) if places else {}
    for place in sorted(places.keys() - found.keys(), key=lambda each: (each.pk, each.sk)):
        key = places[place]
        unchanged = Check(key.address, VersionIs(key.version))
        yield Inconsistency(
            f"the API key {key.id} is missing from the list of its creator",
            (Put(place, {"id": key.id}, Expect.ABSENT), unchanged),
        )


def _usages(tenant_id: str, keys: dict[str, ApiKey], ids: set[str]) -> Iterator[Inconsistency]:
    partition = api_keys.usage(tenant_id)
    for key_id in sorted(keys.keys() - ids):
        change = Put(
            partition.address(key_id), Usage(digest=keys[key_id].digest).to_item(), Expect.ABSENT
        )
        yield Inconsistency(
            f"the API key {key_id} has no usage record, and is missing from all lists", (change,)
        )
    for key_id in sorted(ids - keys.keys()):
        absent = Check(api_keys.records(tenant_id).address(key_id), Expect.ABSENT)
        yield Inconsistency(
            f"the usage record of the API key {key_id} has no key",
            (Delete(partition.address(key_id), Expect.PRESENT), absent),
        )


@dataclass(frozen=True, slots=True)
class _FoundAccount:
    """Records of an account's keys, the key identifiers that the account lists, and credentials."""

    keys: dict[str, ApiKey]
    listed: set[str]
    credentials: list[Credential]


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant's service accounts.

    Raises `DataCorrupt`, `Unavailable`.
    """
    count_address = service_accounts.count_address(tenant_id)
    before = ports.store.get(count_address)
    entries = ports.store.query(service_accounts.accounts(tenant_id))
    accounts = {entry.sk: ServiceAccount.from_item(entry.item) for entry in entries}
    if ports.store.get(count_address) == before:
        yield from check_counter(
            count_address, before, {"count": len(accounts)}, what="service accounts"
        )
    keys = list(ApiKey.from_rows(ports.store.query(api_keys.records(tenant_id))))
    owners = {key.service_account_id for key in keys if key.service_account_id}
    names = _names(ports, tenant_id)
    for account_id in sorted(owners | accounts.keys()):
        own = {key.id: key for key in keys if key.service_account_id == account_id}
        found = _read_account_records(ports, tenant_id, account_id, own)
        if (account := accounts.get(account_id)) is None:
            yield _restore_account(ports, tenant_id, account_id, names.get(account_id), found)
            continue
        if names.get(account_id) != account.name:
            change = Put(
                service_accounts.name_address(tenant_id, account.name),
                {"id": account_id},
                Expect.ABSENT,
            )
            yield Inconsistency(
                f"the name of the service account {account_id} is not reserved", (change,)
            )
        yield from _check_account_keys(account, found)
        yield from _check_disabled_account(account, found)


def _names(ports: Ports, tenant_id: str) -> dict[str, str]:
    prefix = service_accounts.name_address(tenant_id, "").sk
    entries = ports.store.query(Partition(Table.KEYS, tenant_id), after=prefix, before=prefix + "~")
    return {str(entry.item["id"]): entry.sk.removeprefix(prefix) for entry in entries}


def _read_account_records(
    ports: Ports, tenant_id: str, account_id: str, keys: dict[str, ApiKey]
) -> _FoundAccount:
    listed = ports.store.query(api_keys.owned_by(tenant_id, account_id))
    addresses = [api_keys.credential_address(key.digest) for key in keys.values()]
    items = ports.store.get_many(addresses) if addresses else {}
    credentials = [
        Credential.from_item(items[address]) for address in addresses if address in items
    ]
    return _FoundAccount(keys, {entry.sk for entry in listed}, credentials)


def _restore_account(
    ports: Ports, tenant_id: str, account_id: str, name: str | None, found_account: _FoundAccount
) -> Inconsistency:
    """Restore an account with keys but no record. It is disabled if one of its keys is."""
    problem = f"the service account {account_id} owns API keys, but has no record"
    if name is None:
        named = (each.identity.partition("@")[0] for each in found_account.credentials)
        name = next(named, account_id.replace("_", "-"))
    disabled = not found_account.credentials or any(
        each.disabled for each in found_account.credentials
    )
    account = ServiceAccount(
        id=account_id,
        tenant_id=tenant_id,
        name=name,
        email=identity(name, handle=tenants.settings(ports, tenant_id).handle),
        description=None,
        status=AccountStatus.DISABLED if disabled else AccountStatus.ACTIVE,
        created_at=min(key.created_at for key in found_account.keys.values()),
        api_key_count=len(found_account.keys),
    )
    return Inconsistency(problem, (Put(account.address, account.to_item(), Expect.ABSENT),))


def _check_account_keys(
    account: ServiceAccount, found_account: _FoundAccount
) -> Iterator[Inconsistency]:
    partition = api_keys.owned_by(account.tenant_id, account.id)
    records = api_keys.records(account.tenant_id)
    changes: list[Change] = [
        Put(partition.address(key_id), {"id": key_id}, Expect.ABSENT)
        for key_id in sorted(found_account.keys.keys() - found_account.listed)
    ]
    for key_id in sorted(found_account.listed - found_account.keys.keys()):
        changes.append(Delete(partition.address(key_id), Expect.PRESENT))
        changes.append(Check(records.address(key_id), Expect.ABSENT))
    if changes or account.api_key_count != len(found_account.keys):
        counted = replace(
            account, api_key_count=len(found_account.keys), version=account.version + 1
        )
        yield Inconsistency(
            f"the service account {account.id} counts {account.api_key_count} API keys and lists "
            f"{len(found_account.listed)}, but there are {len(found_account.keys)}",
            (Put(account.address, counted.to_item(), VersionIs(account.version)), *changes),
        )


def _check_disabled_account(
    account: ServiceAccount, found_account: _FoundAccount
) -> Iterator[Inconsistency]:
    is_disabled = account.status is AccountStatus.DISABLED
    if all(each.disabled is is_disabled for each in found_account.credentials):
        return
    disabled = replace(account, status=AccountStatus.DISABLED, version=account.version + 1)
    yield Inconsistency(
        f"the service account {account.id} is {account.status}, but some of its API keys are not",
        (
            Put(account.address, disabled.to_item(), VersionIs(account.version)),
            *(
                Put(each.address, replace(each, disabled=True).to_item(), Expect.PRESENT)
                for each in found_account.credentials
                if not each.disabled
            ),
            *srl_records.tombstone_counter_changes(account.tenant_id),
        ),
        RepairEvent(AuditAction.SERVICE_ACCOUNT_DISABLE, account.id, {"reason": LOST}),
    )
