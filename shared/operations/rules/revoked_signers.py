"""The revoked signers of a tenant: signing keys, and superseded versions of them (docs/adr/0036).

Each has a marker item, and one item counts them. A check of warrants reads only the markers of
the keys that signed them, and none if the count is zero.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict

from shared.errors import Corrupt
from shared.model import revoked_signers as model
from shared.model.items import Item
from shared.model.revoked_signers import Count, Marker
from shared.model.signing_keys import Signer
from shared.operations.rules.operation import reread
from shared.ports import Ports
from shared.ports.store import Change, Expect, Increment, Put


def read(ports: Ports, tenant_id: str) -> tuple[str, ...]:
    """Return all revoked signers of the tenant as text, sorted.

    Raises `Corrupt` if there are fewer than the count says, also after `reread`; `Unavailable`.
    """
    return reread(lambda: _read(ports, tenant_id))


def _read(ports: Ports, tenant_id: str) -> tuple[str, ...]:
    # Read before the markers: all that are counted here must then be found.
    item = ports.store.get(model.count_address(tenant_id))
    pages = ports.store.column(model.markers(tenant_id), "revoked_at")
    found = tuple(signer for page in pages for signer, _ in page)
    if len(found) < Count.of(item).signers:
        raise Corrupt("the marker of a revoked key is missing")
    return found


def found(
    ports: Ports, tenant_id: str, item: Item | None, signers: Collection[Signer]
) -> dict[Signer, Marker]:
    """Return the markers of those of `signers` that are revoked.

    `item` is the stored count. Reads at most one item for each signer. Raises `Corrupt`,
    `Unavailable`.
    """
    if item is None:
        return {}
    count = Count.from_item(item)
    whole = count.signers - count.versions
    # Most tenants revoke no versions, or no keys at all: this saves reading their markers.
    asked = [each for each in signers if (whole if each.key_version is None else count.versions)]
    addresses = {each: model.marker_address(tenant_id, each) for each in asked}
    items = ports.store.get_many(addresses.values()) if addresses else {}
    return {
        each: Marker.from_item(items[address])
        for each, address in addresses.items()
        if address in items
    }


def added(ports: Ports, tenant_id: str, revoked: Mapping[Signer, Marker]) -> list[Change]:
    """Return the changes that mark these signers as revoked, for the write that revokes their keys.

    The first is the count; another follows for each signer without a marker (after a restore, a
    signer may have one). Raises `Unavailable`.
    """
    address = model.count_address(tenant_id)
    addresses = {each: model.marker_address(tenant_id, each) for each in revoked}
    items = ports.store.get_many([address, *addresses.values()])
    new = {each: marker for each, marker in revoked.items() if addresses[each] not in items}
    expected = Expect.PRESENT if address in items else Expect.ABSENT
    count = Increment(address, asdict(Count.counting(new)), expected)
    return [count, *(marked(tenant_id, each, marker) for each, marker in new.items())]


def marked(tenant_id: str, signer: Signer, marker: Marker) -> Put:
    """Return the change that stores a marker; it expects that the signer has none."""
    return Put(model.marker_address(tenant_id, signer), marker.to_item(), Expect.ABSENT)
