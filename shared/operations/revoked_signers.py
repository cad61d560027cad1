"""The tenant's revoked signers: one item that every check reads, and full ones that it names.

An item of DynamoDB holds 400 KB, and a revocation must never be refused: once the item has
`SIGNERS_AN_ITEM` signers, they move to an item of their own, which never changes again. It is
stored before the first item names it, so that whoever reads the name finds it (docs/adr/0010).
"""

from contextlib import suppress

from shared.errors import Conflict, Corrupt
from shared.model import signing_keys as model
from shared.model.items import Item
from shared.model.signing_keys import RevokedSigners
from shared.ports import Ports
from shared.ports.store import At, Expect, Put


def read(ports: Ports, tenant_id: str) -> RevokedSigners:
    """All revoked signers of the tenant. Raises `Corrupt`, `Unavailable`."""
    return completed(ports, tenant_id, ports.store.get(model.revoked_signers_key(tenant_id)))


def completed(ports: Ports, tenant_id: str, item: Item | None) -> RevokedSigners:
    """All revoked signers of the tenant, by the item that names the others.

    Raises `Corrupt`, `Unavailable`.
    """
    last = RevokedSigners.of(item)
    if not last.earlier:
        return last
    places = [model.earlier_signers_key(tenant_id, name) for name in last.earlier]
    items = ports.store.get_many(places)
    if len(items) != len(places):
        raise Corrupt("earlier revoked keys are missing")
    return last.after([RevokedSigners.from_item(items[place]) for place in places])


def added(ports: Ports, tenant_id: str, signers: tuple[str, ...]) -> Put:
    """The change that revokes these signers too, for the write that revokes their keys."""
    place = model.revoked_signers_key(tenant_id)
    last = RevokedSigners.of(ports.store.get(place))
    expected = At(last.version) if last.version else Expect.ABSENT
    if len(last.signers) + len(signers) > model.SIGNERS_AN_ITEM:
        name = str(last.version)
        moved = Put(model.earlier_signers_key(tenant_id, name), last.to_item(), Expect.ABSENT)
        # Of this name there is one content: a call that stopped here, or meets this one, stored it.
        with suppress(Conflict):
            ports.store.write(moved)
        last = last.moved(name)
    return Put(place, last.plus(signers).to_item(), expected)
