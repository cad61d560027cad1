"""Migration of the formats of the first release (docs/adr/0036).

It stored the names of all revoked signers in one item. They are read from that item until a
migration, or the next revocation of a key, has created a marker for each. The item is replaced
after all markers exist, so a revoked key is always in one of the two places.
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
    """Return the markers of the revoked signers that `item` names, or of those in `signers`.

    Time and reason come from the record of each key. Raises `Corrupt`, `Unavailable`.
    """
    named = {Signer.parse(each) for each in FirstEdition.from_item(item).signers}
    records = _records(ports, tenant_id, named if signers is None else named.intersection(signers))
    return {signer: _marker(ports, key) for signer, key in records.items()}


def migrate(ports: Ports, tenant_id: str) -> bool:
    """Store a marker for each revoked signer, then replace the old item by a count.

    An interruption or a concurrent revocation loses nothing. Returns whether there was anything
    to migrate. Raises `Corrupt`, `Unavailable`.
    """
    return settle(lambda: _migrate(ports, tenant_id))


def forget_heads(ports: Ports, tenant_id: str) -> None:
    """Delete the heads of old lists, all of which the first release kept. Raises `Unavailable`."""
    history = publications(tenant_id)
    # Sort keys of old heads are versions, which sort before "head"; no others have this length.
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
    # The version stays the same, because the content of the list does.
    after = replace(count, version=before.version)
    ports.store.write(Put(address, after.to_item(), At(before.version)))
    return True


def _marker(ports: Ports, key: SigningKey | None) -> Marker:
    """Return the marker of a key; its time and reason are defaults if the record lacks them."""
    if key is None or key.revoked_at is None:
        return Marker(ports.now(), LOST)
    return Marker(key.revoked_at, key.revoked_reason or LOST)


def _records(
    ports: Ports, tenant_id: str, signers: Collection[Signer]
) -> dict[Signer, SigningKey | None]:
    """Read the record of each signer, a key or a superseded version; None if it is missing."""
    keys, pointers = signing_keys.keys(tenant_id), _pointers(tenant_id, signers)
    pointed = ports.store.get_many(pointers.values())
    ids = {each: each.key_id for each in signers} | {
        each: str(pointed.get(address, {}).get("id")) for each, address in pointers.items()
    }
    items = ports.store.get_many(keys.address(each) for each in ids.values())
    found = {each: items.get(keys.address(record_id)) for each, record_id in ids.items()}
    return {each: SigningKey.from_item(item) if item else None for each, item in found.items()}


def _pointers(tenant_id: str, signers: Collection[Signer]) -> dict[Signer, Address]:
    """Return the address of the item that names the record of each superseded version."""
    return {
        each: signing_keys.versions(tenant_id, each.key_id).address(
            signing_keys.version_sk(each.key_version)
        )
        for each in signers
        if each.key_version is not None
    }
