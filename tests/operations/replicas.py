"""A store and its copy in another region, which gets single items and blobs in any order, late."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from random import Random
from typing import Any, NamedTuple

from shared.model import revocations
from shared.model.items import Address, Item, Table
from shared.model.revocations import Revocation
from shared.model.warrants import WarrantState, warrant_address
from shared.operations.lists import records as list_records
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Check, Delete, Expect, Put
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant


class Update(NamedTuple):
    """What became of an item, None if it was deleted; or the bytes of a new blob, by its name."""

    place: Address | str
    now: Item | bytes | None


@dataclass
class Original:
    """Ports whose writes are noted, in the order in which the copy might get them."""

    ports: Ports
    updates: list[Update] = field(default_factory=list)

    @classmethod
    def of(cls, ports: Ports) -> "Original":
        made = cls(ports)
        made.ports = replace(
            ports,
            store=Intercepted(ports.store, made._note_items),
            blobs=Intercepted(ports.blobs, made._note_blob),
        )
        return made

    def _note_items(self, call: Call) -> Any:
        answer = call()
        if call.verb == "write":
            changed = [each.address for each in call.arguments if not isinstance(each, Check)]
            self.updates += [Update(each, call.port.get(each)) for each in changed]
        return answer

    def _note_blob(self, call: Call) -> Any:
        answer = call()
        # The copy keeps what is removed here.
        if call.verb == "put":
            self.updates.append(Update(*call.arguments))
        return answer


Image = dict[Address | str, Item | bytes | None]


def arrived(updates: Sequence[Update], random: Random, *, late: int) -> Image:
    """What a copy has, if of the last `late` updates any number arrived, in any order.

    The updates of one item arrive in their order, since the newest one of them stays.
    """
    whole = len(updates) - late
    image: Image = dict(updates[: max(whole, 0)])
    waiting: dict[Address | str, list[Item | bytes | None]] = {}
    for each in updates[max(whole, 0) :]:
        waiting.setdefault(each.place, []).append(each.now)
    for place, states in waiting.items():
        if of_these := random.randint(0, len(states)):
            image[place] = states[of_these - 1]
    return image


def put(ports: Ports, image: Image) -> None:
    """Write what arrived to a store."""
    items = {each: now for each, now in image.items() if isinstance(each, Address)}
    changes = [
        Delete(each, Expect.ANYTHING) if now is None else Put(each, _item(now), Expect.ANYTHING)
        for each, now in items.items()
    ]
    for start in range(0, len(changes), MOST_CHANGES):
        ports.store.write(*changes[start : start + MOST_CHANGES])
    for name, data in image.items():
        if isinstance(name, str) and isinstance(data, bytes) and ports.blobs.get(name) is None:
            ports.blobs.put(name, data)


def _item(now: Item | bytes) -> Item:
    assert not isinstance(now, bytes)
    return now


def revoked_here(ports: Ports, tenant: Tenant) -> set[str]:
    """Each warrant that some item calls revoked by itself."""
    walks = (ports.store.query(each) for each in revocations.records(tenant.id))
    found = {Revocation.from_item(row.item).warrant_id for row in chain.from_iterable(walks)}
    for shard in revocations.shards(tenant.id):
        found.update(row.sk for row in ports.store.query(shard, after="svc_wrt_"))
        found.update(each for each, _ in list_records.read_ended(ports, shard))
    for address, item in ports.store.everything(Table.REVOCATIONS):
        name = address.pk.rpartition("#")[2]
        if address == warrant_address(tenant.id, name) and WarrantState.of(item).revocation_id:
            found.add(name)
    return found
