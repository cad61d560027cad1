"""What a call reads from the store: trips, items, and read units by DynamoDB's rules.

    with reading(ports) as (watched, reads):
        …

`tests/kit/calls.py` counts the same on the wire, for data that moto can hold.
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import cbor2

from shared.ports import Ports, sequentially
from shared.ports.store import Address, ColumnPage, Item, ItemRow, Partition, Store
from tests.kit.intercepted import OneByOne

_UNIT_BYTES = 4096


@dataclass
class Reads:
    """Calls that read, the items that they read or found missing, and the units that these cost."""

    trips: int = 0
    items: int = 0
    units: int = 0


@contextmanager
def reading(ports: Ports) -> Iterator[tuple[Ports, Reads]]:
    """Ports like these, and what is read through them."""
    reads = Reads()
    yield replace(ports, store=_Watched(ports.store, reads), gather=sequentially), reads


class _Watched(OneByOne):
    """A store that counts what is read from the one inside."""

    def __init__(self, inner: Store, reads: Reads) -> None:
        super().__init__(inner)
        self._reads = reads

    def get(self, address: Address) -> Item | None:
        item: Item | None = self.inner.get(address)
        self._count([item or {}], units=_units(item or {}))
        return item

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Item]:
        addresses = list(dict.fromkeys(addresses))
        found: dict[Address, Item] = self.inner.get_many(addresses)
        items = [found.get(address, {}) for address in addresses]
        self._count(items, units=sum(map(_units, items)))
        return found

    def query(self, partition: Partition, **bounds: Any) -> Iterator[ItemRow]:
        self._count([], units=0)
        size = 0
        for entry in self.inner.query(partition, **bounds):
            before, size = size, size + _size(entry.item)
            self._reads.items += 1
            self._reads.units += math.ceil(size / _UNIT_BYTES) - math.ceil(before / _UNIT_BYTES)
            yield entry

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[ColumnPage]:
        # The engine reads whole items, whatever it sends.
        for entry in self.query(partition, after=after):
            yield ColumnPage.of([entry.sk], [entry], attribute)

    def count(self, partition: Partition, **bounds: Any) -> int:
        return sum(1 for _ in self.query(partition, **bounds))

    def _count(self, items: list[Item], *, units: int) -> None:
        self._reads.trips += bool(items) or units == 0
        self._reads.items += len(items)
        self._reads.units += units


def _units(item: Item) -> int:
    return max(1, math.ceil(_size(item) / _UNIT_BYTES))


def _size(item: Item) -> int:
    return len(cbor2.dumps(dict(item)))
