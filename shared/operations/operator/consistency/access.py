"""Consistency of access: API keys and service accounts.

An API key has a record, credential or note, usage, count, listings by its makers, and tombstone.
The repair of an incomplete key deletes its credential or revokes its record.

An account has a record, name, count, owned keys, and credentials. If its record or a credential is
disabled, the repair disables the account.
"""

from collections.abc import Iterator
from dataclasses import replace

from shared.capabilities.inconsistency import Inconsistency, RepairEvent, check_counter
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
    rows = ports.store.query(tombstones_model.deleted_partition(tenant_id))
    deleted = {each.id: each.digest for each in Tombstone.from_rows(rows) if each.digest}
    for key_id in sorted(deleted.keys() & keys.keys()):
        # Later checks repair the usage and the account of the key.
        key = keys.pop(key_id)
        changes = Delete(key.address, VersionIs(key.version)), *api_key_end.deletion_changes(key)
        yield Inconsistency(f"the API key {key.id} was deleted, but still exists", changes)
    digests = deleted | {each: usage.digest for each, usage in usages.items() if usage.digest}
    digests |= {key.id: key.digest for key in keys.values()}
    yield from _check_credentials(ports, tenant_id, keys, digests)
    yield from _check_notes(ports, tenant_id, keys, digests)
    yield from _check_usages(tenant_id, keys, set(usages))
    # Makers list their keys. The lists serve to revoke the keys of a person.
    makers = {place: key for key in keys.values() for place in key.listings}
    listed = ports.store.get_many(makers) if makers else {}
    for place in sorted(makers.keys() - listed.keys(), key=lambda each: (each.pk, each.sk)):
        key = makers[place]
        unchanged = Check(key.address, VersionIs(key.version))
        yield Inconsistency(
            f"the API key {key.id} is missing from the list of its creator",
            (Put(place, {"id": key.id}, Expect.ABSENT), unchanged),
        )


def _check_credentials(
    ports: Ports, tenant_id: str, keys: dict[str, ApiKey], digests: dict[str, str]
) -> Iterator[Inconsistency]:
    """Check that exactly the active keys of `digests` have a credential."""
    addresses = {each: api_keys.credential_address(digest) for each, digest in digests.items()}
    items = ports.store.get_many(addresses.values())
    for key_id, address in addresses.items():
        item, key = items.get(address), keys.get(key_id)
        if key is not None and key.status is ApiKeyStatus.ACTIVE:
            credential = None if item is None else Credential.from_item(item)
            # The name gives no access.
            if credential is None or credential != replace(
                credential,
                tenant_id=key.tenant_id,
                key_id=key.id,
                scopes=key.scopes,
                expires_at=key.expires_at,
                role=key.role,
                networks=key.networks,
            ):
                problem = f"the API key {key.id} is active, but has no credential"
                yield _revoke_key(ports, key, problem)
        elif item is not None:
            record = api_keys.records(tenant_id).address(key_id)
            unchanged = Check(record, Expect.ABSENT if key is None else VersionIs(key.version))
            state = "has no record" if key is None else "is revoked"
            yield Inconsistency(
                f"the API key {key_id} {state}, but is still accepted",
                (Delete(address, Expect.PRESENT), unchanged),
            )


def _check_notes(
    ports: Ports, tenant_id: str, keys: dict[str, ApiKey], digests: dict[str, str]
) -> Iterator[Inconsistency]:
    """Check that only revoked keys have a note."""
    revoked = {each for each, key in keys.items() if key.status is ApiKeyStatus.REVOKED}
    addresses = {
        key_id: api_keys.revocation_note_address(digest)
        for key_id, digest in digests.items()
        if key_id not in revoked
    }
    notes = ports.store.get_many(addresses.values()) if addresses else {}
    for key_id, address in addresses.items():
        if address in notes and key_id in keys:
            problem = f"the API key {key_id} is active, but has a revocation note"
            yield _revoke_key(ports, keys[key_id], problem)
        elif address in notes:
            absent = Check(api_keys.records(tenant_id).address(key_id), Expect.ABSENT)
            yield Inconsistency(
                f"the API key {key_id} has no record, but has a revocation note",
                (Delete(address, Expect.PRESENT), absent),
            )


def _revoke_key(ports: Ports, key: ApiKey, problem: str) -> Inconsistency:
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


def _check_usages(
    tenant_id: str, keys: dict[str, ApiKey], ids: set[str]
) -> Iterator[Inconsistency]:
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
    prefix = service_accounts.name_address(tenant_id, "").sk
    entries = ports.store.query(Partition(Table.KEYS, tenant_id), after=prefix, before=prefix + "~")
    names = {str(entry.item["id"]): entry.sk.removeprefix(prefix) for entry in entries}
    for account_id in sorted(owners | accounts.keys()):
        own = {key.id: key for key in keys if key.service_account_id == account_id}
        rows = ports.store.query(api_keys.owned_by(tenant_id, account_id))
        addresses = [api_keys.credential_address(key.digest) for key in own.values()]
        items = ports.store.get_many(addresses) if addresses else {}
        credentials = [Credential.from_item(items[each]) for each in addresses if each in items]
        listed = {row.sk for row in rows}
        if (account := accounts.get(account_id)) is None:
            handle = tenants.settings(ports, tenant_id).handle
            yield _restore_account(account_id, names.get(account_id), handle, own, credentials)
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
        yield from _check_account(account, own, listed, credentials)


def _restore_account(
    account_id: str,
    name: str | None,
    handle: str,
    keys: dict[str, ApiKey],
    credentials: list[Credential],
) -> Inconsistency:
    """Restore an account with keys but no record. It is disabled if one of its keys is."""
    if name is None:
        names = (each.identity.partition("@")[0] for each in credentials)
        name = next(names, account_id.replace("_", "-"))
    is_disabled = not credentials or any(each.disabled for each in credentials)
    account = ServiceAccount(
        id=account_id,
        tenant_id=next(iter(keys.values())).tenant_id,
        name=name,
        email=identity(name, handle=handle),
        description=None,
        status=AccountStatus.DISABLED if is_disabled else AccountStatus.ACTIVE,
        created_at=min(key.created_at for key in keys.values()),
        api_key_count=len(keys),
    )
    return Inconsistency(
        f"the service account {account_id} owns API keys, but has no record",
        (Put(account.address, account.to_item(), Expect.ABSENT),),
    )


def _check_account(
    account: ServiceAccount,
    keys: dict[str, ApiKey],
    listed: set[str],
    credentials: list[Credential],
) -> Iterator[Inconsistency]:
    """Check the count and the list of an account's keys, and that all are disabled with it."""
    partition = api_keys.owned_by(account.tenant_id, account.id)
    records = api_keys.records(account.tenant_id)
    changes: list[Change] = [
        Put(partition.address(key_id), {"id": key_id}, Expect.ABSENT)
        for key_id in sorted(keys.keys() - listed)
    ]
    for key_id in sorted(listed - keys.keys()):
        changes.append(Delete(partition.address(key_id), Expect.PRESENT))
        changes.append(Check(records.address(key_id), Expect.ABSENT))
    if changes or account.api_key_count != len(keys):
        counted = replace(account, api_key_count=len(keys), version=account.version + 1)
        yield Inconsistency(
            f"the service account {account.id} counts {account.api_key_count} API keys and lists "
            f"{len(listed)}, but there are {len(keys)}",
            (Put(account.address, counted.to_item(), VersionIs(account.version)), *changes),
        )
    is_disabled = account.status is AccountStatus.DISABLED
    if all(each.disabled is is_disabled for each in credentials):
        return
    disabled = replace(account, status=AccountStatus.DISABLED, version=account.version + 1)
    yield Inconsistency(
        f"the service account {account.id} is {account.status}, but some of its API keys are not",
        (
            Put(account.address, disabled.to_item(), VersionIs(account.version)),
            *(
                Put(each.address, replace(each, disabled=True).to_item(), Expect.PRESENT)
                for each in credentials
                if not each.disabled
            ),
            *srl_records.tombstone_counter_changes(account.tenant_id),
        ),
        RepairEvent(AuditAction.SERVICE_ACCOUNT_DISABLE, account.id, {"reason": LOST}),
    )
