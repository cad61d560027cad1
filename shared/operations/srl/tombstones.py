"""Tombstones of keys and accounts that were revoked, disabled or deleted (docs/adr/0024).

Those of revoked and disabled ones are made from their records. Deleted ones have no record, so
their tombstones are stored as items.
"""

from collections.abc import Iterator
from dataclasses import replace

from shared.model import api_keys, service_accounts, signing_keys
from shared.model.api_keys import ApiKey
from shared.model.identifiers import API_KEY, SERVICE_ACCOUNT, is_identifier
from shared.model.items import Partition
from shared.model.service_accounts import ServiceAccount
from shared.model.signing_keys import SigningKey
from shared.model.srl import tombstones as model
from shared.model.srl.tombstones import Status, Tombstone, Tombstones
from shared.operations.srl import marks
from shared.ports import Ports
from shared.ports.store import Change, Expect, Increment, Item, Put


def noted(tenant_id: str) -> list[Change]:
    """Return changes to add to a write that revokes, suspends, disables, rotates or enables.

    They make the next list due, whose state then contains the new tombstones.
    """
    counter = Increment(model.counter_address(tenant_id), {"changes": 1}, Expect.ANYTHING)
    return [counter, marks.on_keys(tenant_id)]


def left(tenant_id: str, tombstone: Tombstone) -> list[Change]:
    """Return changes to add to a write that deletes the subject of `tombstone`."""
    address = model.deleted(tenant_id).address(tombstone.id)
    return [Put(address, tombstone.to_item(), Expect.ANYTHING), *noted(tenant_id)]


def gathered(ports: Ports, tenant_id: str, *, changes: int) -> Tombstones:
    """Read all tombstones of the tenant; `changes` is their counter, which was read before.

    Raises `Corrupt`, `Unavailable`.
    """
    deleted, keys, accounts = ports.gather(
        lambda: [Tombstone.from_item(each) for each in _items(ports, model.deleted(tenant_id))],
        lambda: [_of_ended(key) for key in _ended(ports, tenant_id)],
        lambda: [Tombstone(each.id, Status.DISABLED) for each in _disabled(ports, tenant_id)],
    )
    signing = [replace(key, sealed_seed=None) for key in _not_as_made(ports, tenant_id)]
    return Tombstones(
        changes=changes,
        api_keys=model.sorted_by_id([*keys, *_of_kind(deleted, API_KEY)]),
        accounts=model.sorted_by_id([*accounts, *_of_kind(deleted, SERVICE_ACCOUNT)]),
        keys=tuple(signing),
    )


def _of_ended(key: ApiKey) -> Tombstone:
    if key.status is api_keys.Status.REVOKED:
        return Tombstone(key.id, Status.REVOKED, key.revoked_at, key.digest)
    return Tombstone(key.id, Status.ROTATED, key.expires_at, key.digest, key.successor_id)


def _items(ports: Ports, partition: Partition) -> Iterator[Item]:
    return (entry.item for entry in ports.store.query(partition))


def _ended(ports: Ports, tenant_id: str) -> Iterator[ApiKey]:
    """Read the API keys that are revoked or were rotated."""
    keys = map(ApiKey.from_item, _items(ports, api_keys.records(tenant_id)))
    return (key for key in keys if key.status is api_keys.Status.REVOKED or key.successor_id)


def _disabled(ports: Ports, tenant_id: str) -> Iterator[ServiceAccount]:
    found = map(ServiceAccount.from_item, _items(ports, service_accounts.accounts(tenant_id)))
    return (each for each in found if each.status is service_accounts.Status.DISABLED)


def _not_as_made(ports: Ports, tenant_id: str) -> Iterator[SigningKey]:
    """Read the signing keys that are not active or have been rotated."""
    keys = map(SigningKey.from_item, _items(ports, signing_keys.keys(tenant_id)))
    return (
        key for key in keys if key.status is not signing_keys.Status.ACTIVE or key.key_version > 1
    )


def _of_kind(tombstones: list[Tombstone], kind: str) -> list[Tombstone]:
    return [each for each in tombstones if is_identifier(each.id, kind=kind)]
