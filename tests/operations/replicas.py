"""A store and its copy in another region, which gets single items and blobs in any order, late."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, NamedTuple

from shared.model.items import Address, Item
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Check, Delete, Expect, Put
from tests.kit.intercepted import Call, Intercepted


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
