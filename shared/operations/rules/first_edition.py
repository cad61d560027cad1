"""What the first edition stored in another way, and how it is migrated (docs/adr/0036).

It had all revoked signers in one item, which has only their names. They are read from that item
until a migration, or the next revocation of a key, has made a marker of each. The item is replaced
once all markers are there, so that a revoked key is never missing from both.
"""

from collections.abc import Collection
from dataclasses import replace
from itertools import islice

from shared.model import revoked_signers as model
from shared.model import signing_keys
from shared.model.items import Address, Item
from shared.model.revoked_signers import LOST, Count, FirstEdition, Marker
from shared.model.signing_keys import Signer, SigningKey
from shared.model.srl.blobs import VERSION_DIGITS
from shared.model.srl.head import publications
from shared.operations.rules.operation import settle
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, At, Delete, Expect, Put


def markers(
    ports: Ports, tenant_id: str, item: Item, signers: Collection[Signer] | None = None
) -> dict[Signer, Marker]:
    """The markers of those of `signers` that the item names, or of all.

    When and why a key was revoked is in its record. Raises `Corrupt`, `Unavailable`.
    """
    named = {Signer.parse(each) for each in FirstEdition.from_item(item).signers}
    records = _records(ports, tenant_id, named if signers is None else named.intersection(signers))
    return {signer: _marker(ports, key) for signer, key in records.items()}


def migrate(ports: Ports, tenant_id: str) -> bool:
    """Make a marker of each signer that one item names, then the count in place of that item.

    Whoever revokes a key meanwhile, or stops this anywhere, loses nothing. Returns whether there
    was anything to do. Raises `Corrupt`, `Unavailable`.
    """
    return settle(lambda: _migrate(ports, tenant_id))


def forget_heads(ports: Ports, tenant_id: str) -> None:
    """Remove the heads of old lists, of which the first edition kept each. Raises `Unavailable`."""
    history = publications(tenant_id)
    # No other sort key is as long, and "head" is later.
    entries = ports.store.query(history, before="head")
    old = (entry.sk for entry in entries if len(entry.sk) == VERSION_DIGITS)
    while batch := list(islice(old, MOST_CHANGES)):
        ports.store.write(*(Delete(history.address(sk), Expect.ANYTHING) for sk in batch))


def _migrate(ports: Ports, tenant_id: str) -> bool:
    address = model.count_address(tenant_id)
    item = ports.store.get(address)
    if item is None or not model.is_of_first_edition(item):
        return False
    made = [
        Put(model.marker_address(tenant_id, signer), marker.to_item(), Expect.ANYTHING)
        for signer, marker in markers(ports, tenant_id, item).items()
    ]
    for start in range(0, len(made), MOST_CHANGES):
        ports.store.write(*made[start : start + MOST_CHANGES])
    before = FirstEdition.from_item(item)
    count = Count.counting(map(Signer.parse, set(before.signers)))
    # The version stays: no list changes by this.
    after = replace(count, version=before.version)
    ports.store.write(Put(address, after.to_item(), At(before.version)))
    return True


def _marker(ports: Ports, key: SigningKey | None) -> Marker:
    """The marker of a key by its record; what the record does not tell revokes the key no less."""
    if key is None or key.revoked_at is None:
        return Marker(ports.now(), LOST)
    return Marker(key.revoked_at, key.revoked_reason or LOST)


def _records(
    ports: Ports, tenant_id: str, signers: Collection[Signer]
) -> dict[Signer, SigningKey | None]:
    """The record of each signer: that of a key, or of its superseded version."""
    keys, pointers = signing_keys.keys(tenant_id), _pointers(tenant_id, signers)
    pointed = ports.store.get_many(pointers.values())
    ids = {each: each.key_id for each in signers} | {
        each: str(pointed.get(address, {}).get("id")) for each, address in pointers.items()
    }
    items = ports.store.get_many(keys.address(each) for each in ids.values())
    found = {each: items.get(keys.address(record_id)) for each, record_id in ids.items()}
    return {each: SigningKey.from_item(item) if item else None for each, item in found.items()}


def _pointers(tenant_id: str, signers: Collection[Signer]) -> dict[Signer, Address]:
    """Where the identifier of a superseded version's record is found."""
    return {
        each: signing_keys.versions(tenant_id, each.key_id).address(
            signing_keys.version_sk(each.key_version)
        )
        for each in signers
        if each.key_version is not None
    }
