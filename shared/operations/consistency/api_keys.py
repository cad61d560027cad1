"""API keys: record, credential, usage, count, digest, and the account that owns the key.

A key that is not whole is refused: its credential goes, or its record becomes revoked.
"""

from collections.abc import Iterator
from dataclasses import replace

from shared.model import api_keys as model
from shared.model.api_keys import ApiKey, Credential, Status, Usage
from shared.model.audit_log import Action
from shared.model.items import Key
from shared.operations.consistency.inconsistency import LOST, Event, Inconsistency, recounted
from shared.ports import Ports
from shared.ports.store import At, Check, Delete, Expect, Put


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """What does not agree about the tenant's API keys. Raises `Unavailable`."""
    count_key = model.count_key(tenant_id)
    before = ports.store.get(count_key)
    entries = ports.store.query(model.records(tenant_id))
    keys = {entry.sk: ApiKey.from_item(entry.item) for entry in entries}
    if ports.store.get(count_key) == before:
        yield from recounted(count_key, before, {"count": len(keys)}, what="API keys")
    yield from _credentials(ports, tenant_id, keys)
    yield from _usages(ports, tenant_id, keys)


def _credentials(ports: Ports, tenant_id: str, keys: dict[str, ApiKey]) -> Iterator[Inconsistency]:
    digests = {e.sk: str(e.item["digest"]) for e in ports.store.query(model.digests(tenant_id))}
    digests |= {key.id: key.digest for key in keys.values()}
    places = {key_id: model.credential_key(digest) for key_id, digest in digests.items()}
    items = ports.store.get_many(places.values())
    for key_id, place in places.items():
        item, key = items.get(place), keys.get(key_id)
        if key is not None and key.status is Status.ACTIVE:
            if item is None or _differs(Credential.from_item(item), key):
                yield _revocation(ports, place, key)
        elif item is not None:
            record = model.records(tenant_id).key(key_id)
            unchanged = Check(record, Expect.ABSENT if key is None else At(key.version))
            state = "has no record" if key is None else "is revoked"
            yield Inconsistency(
                f"the API key {key_id} {state}, and is still accepted",
                (Delete(place, Expect.PRESENT), unchanged),
            )


def _differs(credential: Credential, key: ApiKey) -> bool:
    wanted = replace(
        credential,
        tenant_id=key.tenant_id,
        key_id=key.id,
        scopes=key.scopes,
        expires_at=key.expires_at,
    )
    return credential != wanted


def _revocation(ports: Ports, place: Key, key: ApiKey) -> Inconsistency:
    """Whether it was made in half or revoked in half is not known; so it is revoked."""
    revoked = replace(key, status=Status.REVOKED, revoked_at=ports.now(), version=key.version + 1)
    return Inconsistency(
        f"the API key {key.id} is active, and has no credential of its own",
        (Put(key.key, revoked.to_item(), At(key.version)), Delete(place, Expect.ANYTHING)),
        Event(Action.API_KEY_REVOKE, key.id, {"reason": LOST}),
    )


def _usages(ports: Ports, tenant_id: str, keys: dict[str, ApiKey]) -> Iterator[Inconsistency]:
    partition = model.usage(tenant_id)
    found = {entry.sk for entry in ports.store.query(partition)}
    for key_id in sorted(keys.keys() - found):
        change = Put(partition.key(key_id), Usage().to_item(), Expect.ABSENT)
        yield Inconsistency(f"the API key {key_id} has no usage, and is in no list", (change,))
    for key_id in sorted(found - keys.keys()):
        absent = Check(model.records(tenant_id).key(key_id), Expect.ABSENT)
        yield Inconsistency(
            f"the usage of the API key {key_id} has no key",
            (Delete(partition.key(key_id), Expect.PRESENT), absent),
        )
