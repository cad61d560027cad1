"""Records and blobs in memory, with no more than the ports promise (shared/ports/store.py).

A write is accepted as a whole; its items may be shown one by one. Until an item is shown, readers
find what was there before, and other writes wait for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from shared.adapters.preconditions import added, check_blob_name, check_write
from shared.errors import BlobExists, ExpectationLost
from shared.model.records import integer
from shared.ports.store import (
    EVERYTHING,
    Address,
    At,
    Change,
    Check,
    ColumnPage,
    Delete,
    Expect,
    Expectation,
    Increment,
    Item,
    Partition,
    Put,
    Row,
    Table,
    Where,
)

Rows = dict[str, Item]


@dataclass
class Records:
    """The items of all tables: as they are shown, and those that are accepted and not shown yet."""

    rows: dict[Partition, Rows] = field(default_factory=dict)
    coming: dict[Address, Item | None] = field(default_factory=dict)
    made: str = ""

    def copy(self) -> "Records":
        """The same items, all of them shown."""
        other = Records({place: dict(rows) for place, rows in self.rows.items()}, made=self.made)
        for address, item in self.coming.items():
            other._set(address, item)
        return other

    def made_at(self) -> str:
        return self.made

    def get(self, address: Address) -> Item | None:
        return self.rows.get(_partition(address), {}).get(address.sk)

    def peek(self, address: Address) -> Item | None:
        """The item as it was accepted, whether or not it is shown."""
        return self.coming[address] if address in self.coming else self.get(address)

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Item]:
        found = {each: self.get(each) for each in addresses}
        return {each: item for each, item in found.items() if item is not None}

    def query(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        where: Where = EVERYTHING,
    ) -> Iterator[Row]:
        rows = self.rows.get(partition, {})
        names = [
            sk
            for sk, item in rows.items()
            if (after is None or after < sk) and (before is None or sk < before)
            if where is EVERYTHING or where.holds(item)
        ]
        names.sort(reverse=newest_first)
        return (Row(sk, rows[sk]) for sk in names[:limit])

    def count(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        where: Where = EVERYTHING,
    ) -> int:
        return sum(1 for _ in self.query(partition, after=after, before=before, where=where))

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[ColumnPage]:
        rows = list(self.query(partition, after=after))
        if rows:
            yield ColumnPage.of([row.sk for row in rows], rows, attribute)

    def everything(self, table: Table) -> Iterator[tuple[Address, Item]]:
        found = [(place, dict(rows)) for place, rows in self.rows.items() if place.table is table]
        return ((place.address(sk), item) for place, rows in found for sk, item in rows.items())

    def write(self, *changes: Change) -> None:
        for address in self.accept(changes):
            self.show(address)

    def waits(self, changes: Iterable[Change]) -> bool:
        """Whether the write has to wait for another one to be shown."""
        return any(each.address in self.coming for each in changes)

    def accept(self, changes: Sequence[Change]) -> list[Address]:
        """Accept a write; return the items that are to be shown. Raises `ExpectationLost`."""
        check_write(changes)
        lost = [each.address for each in changes if not _holds(each.expect, self.get(each.address))]
        if lost:
            raise ExpectationLost(lost)
        new = {each.address: self._after(each) for each in changes if not isinstance(each, Check)}
        self.coming |= new
        return list(new)

    def show(self, address: Address) -> None:
        """Let readers find an item as it was written."""
        self._set(address, self.coming.pop(address))

    def _after(self, change: Change) -> Item | None:
        match change:
            case Put(item=item):
                return deepcopy(dict(item))
            case Increment(address=address):
                return added(self.get(address) or {}, change)
            case Delete() | Check():
                return None

    def _set(self, address: Address, item: Item | None) -> None:
        rows = self.rows.setdefault(_partition(address), {})
        if item is None:
            rows.pop(address.sk, None)
        else:
            rows[address.sk] = item


def _partition(address: Address) -> Partition:
    return Partition(address.table, address.pk)


def _holds(expected: Expectation, item: Item | None) -> bool:
    if isinstance(expected, At):
        return (
            item is not None and "version" in item and integer(item, "version") == expected.version
        )
    return expected is Expect.ANYTHING or (item is None) == (expected is Expect.ABSENT)


@dataclass
class Blobs:
    """Blobs by name, and when each was put, in seconds."""

    found: dict[str, bytes] = field(default_factory=dict)

    def put(self, name: str, data: bytes) -> None:
        check_blob_name(name)
        if name in self.found:
            raise BlobExists
        self.found[name] = data

    def get(self, name: str) -> bytes | None:
        check_blob_name(name)
        return self.found.get(name)

    def file(self, _name: str, *, sha256: str) -> Path | None:  # noqa: ARG002 - of the port
        return None

    def names(self, folder: str) -> Iterator[str]:
        return iter(sorted(each for each in self.found if each.startswith(f"{folder}/")))

    def discard(
        self,
        folder: str,
        *,
        before: str,
        older_than_seconds: float | None = None,
        any_age_before: str = "",
        at_most: int | None = None,
    ) -> None:
        limit = before if older_than_seconds is None else min(before, any_age_before)
        own = (each for each in self.names(folder) if "/" not in each[len(folder) + 1 :])
        old = [each for each in own if each[len(folder) + 1 :] < limit]
        for each in islice(old, at_most):
            del self.found[each]

    def remove(self, name: str) -> None:
        self.found.pop(name, None)

    def url(self, name: str, *, ttl_seconds: int) -> str:
        return f"https://blobs.invalid/{name}?{ttl_seconds}"
