"""Consistency of service accounts: record, name, count, owned keys, and credentials.

If its record or a credential says that an account is disabled, the repair disables it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from shared.model import api_keys
from shared.model import service_accounts as model
from shared.model.api_keys import ApiKey, Credential
from shared.model.audit.audit_log import Action
from shared.model.callers import identity
from shared.model.items import Partition, Table
from shared.model.revoked_signers import LOST
from shared.model.service_accounts import AccountStatus, ServiceAccount
from shared.operations.base import tenants
from shared.operations.lists import records as srl_records
from shared.operations.operator.consistency.inconsistency import (
    Inconsistency,
    RepairEvent,
    recounted,
)
from shared.ports import Ports
from shared.ports.store import At, Change, Check, Delete, Expect, Put


@dataclass(frozen=True, slots=True)
class _FoundAccount:
    """Records of an account's keys, identifiers that the account lists, and credentials."""

    keys: dict[str, ApiKey]
    listed: set[str]
    credentials: list[Credential]


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant's service accounts. Raises `Corrupt`, `Unavailable`."""
    count_address = model.count_address(tenant_id)
    before = ports.store.get(count_address)
    entries = ports.store.query(model.accounts(tenant_id))
    accounts = {entry.sk: ServiceAccount.from_item(entry.item) for entry in entries}
    if ports.store.get(count_address) == before:
        yield from recounted(
            count_address, before, {"count": len(accounts)}, what="service accounts"
        )
    records = ports.store.query(api_keys.records(tenant_id))
    keys = [ApiKey.from_item(entry.item) for entry in records]
    owners = {key.service_account_id for key in keys if key.service_account_id}
    names = _names(ports, tenant_id)
    for account_id in sorted(owners | accounts.keys()):
        own = {key.id: key for key in keys if key.service_account_id == account_id}
        found = _found(ports, tenant_id, account_id, own)
        if (account := accounts.get(account_id)) is None:
            yield _lost(ports, tenant_id, account_id, names.get(account_id), found)
            continue
        if names.get(account_id) != account.name:
            change = Put(
                model.name_address(tenant_id, account.name), {"id": account_id}, Expect.ABSENT
            )
            yield Inconsistency(f"the name of the account {account_id} is not taken", (change,))
        yield from _owned(account, found)
        yield from _disabled(account, found)


def _names(ports: Ports, tenant_id: str) -> dict[str, str]:
    prefix = model.name_address(tenant_id, "").sk
    entries = ports.store.query(Partition(Table.KEYS, tenant_id), after=prefix, before=prefix + "~")
    return {str(entry.item["id"]): entry.sk.removeprefix(prefix) for entry in entries}


def _found(ports: Ports, tenant_id: str, account_id: str, keys: dict[str, ApiKey]) -> _FoundAccount:
    listed = ports.store.query(api_keys.owned_by(tenant_id, account_id))
    addresses = [api_keys.credential_address(key.digest) for key in keys.values()]
    items = ports.store.get_many(addresses) if addresses else {}
    credentials = [
        Credential.from_item(items[address]) for address in addresses if address in items
    ]
    return _FoundAccount(keys, {entry.sk for entry in listed}, credentials)


def _lost(
    ports: Ports, tenant_id: str, account_id: str, name: str | None, found: _FoundAccount
) -> Inconsistency:
    """Restore an account that owns keys but has no record; disabled if one of its keys is."""
    problem = f"the account {account_id} owns API keys, but has no record"
    if name is None:
        named = (each.identity.partition("@")[0] for each in found.credentials)
        name = next(named, account_id.replace("_", "-"))
    disabled = not found.credentials or any(each.disabled for each in found.credentials)
    account = ServiceAccount(
        id=account_id,
        tenant_id=tenant_id,
        name=name,
        email=identity(name, handle=tenants.settings(ports, tenant_id).handle),
        description=None,
        status=AccountStatus.DISABLED if disabled else AccountStatus.ACTIVE,
        created_at=min(key.created_at for key in found.keys.values()),
        api_key_count=len(found.keys),
    )
    return Inconsistency(problem, (Put(account.address, account.to_item(), Expect.ABSENT),))


def _owned(account: ServiceAccount, found: _FoundAccount) -> Iterator[Inconsistency]:
    partition = api_keys.owned_by(account.tenant_id, account.id)
    records = api_keys.records(account.tenant_id)
    changes: list[Change] = [
        Put(partition.address(key_id), {"id": key_id}, Expect.ABSENT)
        for key_id in sorted(found.keys.keys() - found.listed)
    ]
    for key_id in sorted(found.listed - found.keys.keys()):
        changes.append(Delete(partition.address(key_id), Expect.PRESENT))
        changes.append(Check(records.address(key_id), Expect.ABSENT))
    if changes or account.api_key_count != len(found.keys):
        counted = replace(account, api_key_count=len(found.keys), version=account.version + 1)
        yield Inconsistency(
            f"the account {account.id} counts {account.api_key_count} API keys and lists "
            f"{len(found.listed)}, but there are {len(found.keys)}",
            (Put(account.address, counted.to_item(), At(account.version)), *changes),
        )


def _disabled(account: ServiceAccount, found: _FoundAccount) -> Iterator[Inconsistency]:
    is_disabled = account.status is AccountStatus.DISABLED
    if all(each.disabled is is_disabled for each in found.credentials):
        return
    disabled = replace(account, status=AccountStatus.DISABLED, version=account.version + 1)
    yield Inconsistency(
        f"the account {account.id} is {account.status}, but some of its API keys are not",
        (
            Put(account.address, disabled.to_item(), At(account.version)),
            *(
                Put(each.address, replace(each, disabled=True).to_item(), Expect.PRESENT)
                for each in found.credentials
                if not each.disabled
            ),
            *srl_records.noted(account.tenant_id),
        ),
        RepairEvent(Action.SERVICE_ACCOUNT_DISABLE, account.id, {"reason": LOST}),
    )
