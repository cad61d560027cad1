"""Consistency of API keys: record, credential or note, usage, count and tombstone.

The repair of an incomplete key deletes its credential or revokes its record.
"""

from collections.abc import Iterator
from dataclasses import replace

from shared.model import api_keys as model
from shared.model.api_keys import ApiKey, ApiKeyStatus, Credential, Usage
from shared.model.audit.audit_log import Action
from shared.model.lists import tombstones as tombstones_model
from shared.model.lists.tombstones import Tombstone
from shared.model.revoked_signers import LOST
from shared.operations.access import api_key_end
from shared.operations.lists import records
from shared.operations.operator.consistency.inconsistency import (
    Inconsistency,
    RepairEvent,
    recounted,
)
from shared.ports import Ports
from shared.ports.store import At, Check, Delete, Expect, Put


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant's API keys. Raises `Corrupt`, `Unavailable`."""
    count_address = model.count_address(tenant_id)
    before = ports.store.get(count_address)
    entries = ports.store.query(model.records(tenant_id))
    keys = {entry.sk: ApiKey.from_item(entry.item) for entry in entries}
    if ports.store.get(count_address) == before:
        yield from recounted(count_address, before, {"count": len(keys)}, what="API keys")
    usages = {e.sk: Usage.from_item(e.item) for e in ports.store.query(model.usage(tenant_id))}
    deleted = _deleted(ports, tenant_id)
    for key_id in sorted(deleted.keys() & keys.keys()):
        yield _deletion(keys.pop(key_id))
    digests = deleted | {each: usage.digest for each, usage in usages.items() if usage.digest}
    yield from _credentials(ports, tenant_id, keys, digests)
    yield from _notes(ports, tenant_id, keys, digests)
    yield from _usages(tenant_id, keys, set(usages))


def _deleted(ports: Ports, tenant_id: str) -> dict[str, str]:
    """Read the digests of deleted keys, by identifier."""
    entries = ports.store.query(tombstones_model.deleted(tenant_id))
    found = [Tombstone.from_item(entry.item) for entry in entries]
    return {each.id: each.digest for each in found if each.digest}


def _deletion(key: ApiKey) -> Inconsistency:
    """Delete a key that has a tombstone; later checks repair its usage and account."""
    return Inconsistency(
        f"the API key {key.id} was deleted, but still exists",
        (
            Delete(key.address, At(key.version)),
            *api_key_end.deleted(key),
        ),
    )


def _credentials(
    ports: Ports, tenant_id: str, keys: dict[str, ApiKey], digests: dict[str, str]
) -> Iterator[Inconsistency]:
    """Check that exactly the active keys have a credential; `digests` may be of more keys."""
    addresses = {
        key_id: model.credential_address(digest)
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
            record = model.records(tenant_id).address(key_id)
            unchanged = Check(record, Expect.ABSENT if key is None else At(key.version))
            state = "has no record" if key is None else "is revoked"
            yield Inconsistency(
                f"the API key {key_id} {state}, but is still accepted",
                (Delete(address, Expect.PRESENT), unchanged),
            )


def _differs(credential: Credential, key: ApiKey) -> bool:
    # The name gives no access, and release 0.3.0 did not store it.
    wanted = replace(
        credential,
        tenant_id=key.tenant_id,
        key_id=key.id,
        scopes=key.scopes,
        expires_at=key.expires_at,
        is_session=key.is_session,
    )
    return credential != wanted


def _notes(
    ports: Ports, tenant_id: str, keys: dict[str, ApiKey], digests: dict[str, str]
) -> Iterator[Inconsistency]:
    """Check that only revoked keys have a note. Release 0.3.0 wrote none of any key."""
    revoked = {each for each, key in keys.items() if key.status is ApiKeyStatus.REVOKED}
    addresses = {
        key_id: model.revocation_note_address(digest)
        for key_id, digest in (digests | {key.id: key.digest for key in keys.values()}).items()
        if key_id not in revoked
    }
    found = ports.store.get_many(addresses.values()) if addresses else {}
    for key_id, address in addresses.items():
        if address in found and key_id in keys:
            problem = f"the API key {key_id} is active, but a note says that it was revoked"
            yield _revocation(ports, keys[key_id], problem)
        elif address in found:
            absent = Check(model.records(tenant_id).address(key_id), Expect.ABSENT)
            yield Inconsistency(
                f"the API key {key_id} has no record, but a note says that it was revoked",
                (Delete(address, Expect.PRESENT), absent),
            )


def _revocation(ports: Ports, key: ApiKey, problem: str) -> Inconsistency:
    """Revoke a key: it is not known whether its creation or its revocation is incomplete."""
    now = ports.now()
    revoked = replace(key, status=ApiKeyStatus.REVOKED, revoked_at=now, version=key.version + 1)
    return Inconsistency(
        problem,
        (
            Put(key.address, revoked.to_item(), At(key.version)),
            *api_key_end.revoked(key, now, Expect.ANYTHING),
            *records.noted(key.tenant_id),
        ),
        RepairEvent(Action.API_KEY_REVOKE, key.id, {"reason": LOST}),
    )


def _usages(tenant_id: str, keys: dict[str, ApiKey], found: set[str]) -> Iterator[Inconsistency]:
    partition = model.usage(tenant_id)
    for key_id in sorted(keys.keys() - found):
        change = Put(
            partition.address(key_id), Usage(digest=keys[key_id].digest).to_item(), Expect.ABSENT
        )
        yield Inconsistency(f"the API key {key_id} has no usage, and is in no list", (change,))
    for key_id in sorted(found - keys.keys()):
        absent = Check(model.records(tenant_id).address(key_id), Expect.ABSENT)
        yield Inconsistency(
            f"the usage of the API key {key_id} has no key",
            (Delete(partition.address(key_id), Expect.PRESENT), absent),
        )
