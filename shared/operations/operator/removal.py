"""Remove a tenant after its grace period, and export its data (TENANT-7).

The first step is final. It deletes credentials first, then all other items, and last the items that
identify the tenant. A removal that was interrupted can therefore be repeated.
"""

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from shared.errors import ApprovalRequired, InvalidState, Unavailable
from shared.model import tenants as model
from shared.model import times
from shared.model.identities.approvals import Approval, ProtectedAction
from shared.model.items import Address, Item, Table, Value
from shared.model.tenants import DirectoryEntry, TenantSettings
from shared.operations.base import tenants
from shared.operations.base.operation import settle
from shared.operations.identities import approvals, protected_acts
from shared.operations.operator import onboarding
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Change, Check, Delete, Expect, Put, VersionIs

# Passes over the tables. If items remain after them, some program is still writing.
_PASSES: Final = 20
_SECRET: Final = frozenset(
    {"digest", "former_secret", "order", "sealed_client_secret", "sealed_secret", "sealed_seed"}
)
_REMOVE: Final = ProtectedAction.REMOVE_TENANT
_CREDENTIALS: Final = ("api-key#", "session#", "ticket#")


def export(ports: Ports, tenant_id: str) -> Iterator[str]:
    """Yield the lines of an export: a JSON object for each item and each blob of the tenant.

    Omits secrets: wrapped private keys, and hashes of API keys and sessions. Bytes are in base64.
    The last line has the number of the lines before it and their SHA-256. Raises `Unavailable`.
    """
    lines, digest = 0, hashlib.sha256()
    for document in _list_documents(ports, tenant_id):
        line = json.dumps(document, sort_keys=True, ensure_ascii=False) + "\n"
        digest.update(line.encode())
        lines += 1
        yield line
    yield json.dumps({"lines": lines, "sha256": digest.hexdigest()}) + "\n"


def _list_documents(ports: Ports, tenant_id: str) -> Iterator[dict[str, object]]:
    for table in Table:
        for address, item in ports.store.everything(table):
            if model.is_of(tenant_id, address, item) and not address.pk.startswith(_CREDENTIALS):
                yield {**address._asdict(), "table": table.value, "item": _plain(item)}
    for folder in model.blob_folders(tenant_id):
        for name in ports.blobs.names(folder):
            blob = ports.blobs.get(name)
            if blob is not None:
                yield {"blob": name, "base64": base64.b64encode(blob).decode()}


def _plain(value: Value | Item) -> object:
    match value:
        case bytes():
            return {"base64": base64.b64encode(value).decode()}
        case list():
            return [_plain(each) for each in value]
        case dict():
            # Outcomes of requests contain whole records.
            return {name: _plain(each) for name, each in value.items() if name not in _SECRET}
        case _:
            return value


def check_due(ports: Ports, *, handle: str) -> str:
    """Return the identifier of a tenant that may be removed now.

    Raises `NotFound`; `InvalidState` if its deletion was not requested, or its grace period has not
    ended.
    """
    entry = _read_directory_entry(ports, tenants.identifier(ports, handle))
    if not entry.removal_began:
        _check_grace(ports, tenants.settings(ports, entry.tenant_id))
    return entry.tenant_id


def _check_grace(ports: Ports, settings: TenantSettings) -> None:
    if settings.delete_after is None:
        raise InvalidState(
            "The tenant is not scheduled for removal; first run `rescind tenant schedule-delete`."
        )
    if not times.has_passed(settings.delete_after, ports.now()):
        moment = times.format_utc(settings.delete_after)
        raise InvalidState(f"The tenant cannot be removed before {moment}.")


def request(ports: Ports, *, handle: str, reason: str, user: str | None = None) -> Approval:
    """Request the approval of the removal by the tenant's people.

    `user` is the same as in `create_tenant`. Raises the errors of `check_due`; `InvalidState` if
    the removal needs no approval.
    """
    tenant_id = check_due(ports, handle=handle)
    operator = onboarding.operator(ports, handle=handle, user=user)
    if not protected_acts.read_protected_actions(ports, tenant_id).has(_REMOVE):
        raise InvalidState("The removal of this tenant requires no approval.")
    return approvals.create_request(ports, operator, _REMOVE, tenant_id, reason=reason, details={})


def remove(
    ports: Ports, *, handle: str, user: str | None = None, approval_id: str | None = None
) -> int:
    """Remove all data of a tenant after its grace period; return the number of items.

    Raises the errors of `check_due`, `ApprovalRequired` if the removal needs an approval and
    `approval_id` is not valid for it, and `Unavailable`. Repeat the call after `Unavailable`.
    """
    tenant_id = check_due(ports, handle=handle)
    settle(lambda: _begin(ports, tenant_id, handle, user, approval_id))
    removed = _delete_items(ports, _find_in_keys(ports, tenant_id, *_CREDENTIALS))
    removed += _delete_items(ports, iter([model.settings_address(tenant_id)]))
    for _ in range(_PASSES):
        for folder in model.blob_folders(tenant_id):
            for name in list(ports.blobs.names(folder)):
                ports.blobs.remove(name)
        # The directory entry and the handles identify the tenant, so they are deleted last.
        others = (
            address
            for table in Table
            for address, item in ports.store.everything(table)
            if not (table is Table.KEYS and address.pk.startswith("tenant"))
            and model.is_of(tenant_id, address, item)
        )
        count = _delete_items(ports, others)
        removed += count
        if not count:
            return removed + _delete_items(ports, _find_in_keys(ports, tenant_id, "tenant"))
    raise Unavailable(
        "other processes still write records of the tenant; stop other writers, and repeat"
    )


def _begin(
    ports: Ports, tenant_id: str, handle: str, user: str | None, approval_id: str | None
) -> None:
    """Take the first step of a removal, with its approval if it needs one."""
    entry = _read_directory_entry(ports, tenant_id)
    if entry.removal_began:
        return
    settings = tenants.settings(ports, tenant_id)
    _check_grace(ports, settings)
    began = replace(entry, removal_began=True)
    operator = onboarding.operator(ports, handle=handle, user=user)
    approval_changes: list[Change] = []
    if protected_acts.read_protected_actions(ports, tenant_id).has(_REMOVE):
        if approval_id is None:
            raise ApprovalRequired(
                "The removal requires an approval; request it with --request-approval."
            )
        approval = approvals.usable(ports, operator, approval_id, [_REMOVE], tenant_id)
        approval_changes = approvals.use_changes(ports, operator, approval, 1)
    ports.store.write(
        Put(began.address, began.to_item(), Expect.ANYTHING),
        Check(settings.address, VersionIs(settings.version)),
        *approval_changes,
    )


def _read_directory_entry(ports: Ports, tenant_id: str) -> DirectoryEntry:
    item = ports.store.get(model.DIRECTORY.address(tenant_id))
    if item is not None:
        return DirectoryEntry.from_item(item)
    settings = tenants.settings(ports, tenant_id)
    return DirectoryEntry(tenant_id, settings.handle, settings.created_at)


def _find_in_keys(ports: Ports, tenant_id: str, *prefixes: str) -> Iterator[Address]:
    """Yield the tenant's items in partitions of table `keys` with one of these `prefixes`."""
    for address, item in ports.store.everything(Table.KEYS):
        if address.pk.startswith(prefixes) and model.is_of(tenant_id, address, item):
            yield address


def _delete_items(ports: Ports, addresses: Iterator[Address]) -> int:
    deleted = 0
    while some := list(islice(addresses, MOST_CHANGES)):
        ports.store.write(*(Delete(each, Expect.ANYTHING) for each in some))
        deleted += len(some)
    return deleted
