"""Records and blobs in memory, with no more than the ports promise (shared/ports/store.py).

A write is accepted as a whole; its items may be shown one by one. Until an item is shown, actors
find what was there before (`Records.seen`), and other writes wait for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared.adapters.preconditions import apply_increment, check_blob_name, check_write
from shared.errors import BlobExists, PreconditionFailed
from shared.ports.store import (
    EVERYTHING,
    Address,
    Change,
    Check,
    ColumnPage,
    Delete,
    Expect,
    Expectation,
    Increment,
    Item,
    ItemFilter,
    ItemRow,
    Partition,
    Put,
    Table,
    VersionIs,
)

Rows = dict[str, Item]
# What became of an item, None if it was deleted; or the bytes of a new blob, by its name.
Updates = list[tuple[Address | str, Item | bytes | None]]


@dataclass
class Records:
    """The items of all tables; of those that are not shown yet, also what was `hidden` by it."""

    rows: dict[Partition, Rows] = field(default_factory=dict)
    hidden: dict[Address, Item | None] = field(default_factory=dict)
    made: str = ""
    updates: Updates = field(default_factory=list)

    def copy(self) -> "Records":
        """The same items, all of them shown."""
        return Records({place: dict(rows) for place, rows in self.rows.items()}, made=self.made)

    def become(self, other: "Records") -> None:
        """Have the items of another one from now on, all of them shown."""
        self.rows, self.hidden, self.made = other.copy().rows, {}, other.made

    def seen(self, partition: Partition) -> "Records":
        """The records as actors find them in a partition."""
        hidden = {each: old for each, old in self.hidden.items() if _partition(each) == partition}
        if not hidden:
            return self
        found = Records({partition: dict(self.rows.get(partition, {}))})
        for address, item in hidden.items():
            found._set(address, item)
        return found

    def made_at(self) -> str:
        return self.made

    def get(self, address: Address) -> Item | None:
        return self.rows.get(_partition(address), {}).get(address.sk)

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
        where: ItemFilter = EVERYTHING,
    ) -> Iterator[ItemRow]:
        rows = self.rows.get(partition, {})
        names = [
            sk
            for sk, item in rows.items()
            if (after is None or after < sk) and (before is None or sk < before)
            if where is EVERYTHING or where.holds(item)
        ]
        names.sort(reverse=newest_first)
        return (ItemRow(sk, rows[sk]) for sk in names[:limit])

    def query_many(
        self,
        partitions: Iterable[Partition],
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> dict[Partition, list[ItemRow]]:
        bounds: dict[str, Any] = {"after": after, "before": before, "limit": limit}
        return {each: list(self.query(each, **bounds)) for each in partitions}

    def count(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        where: ItemFilter = EVERYTHING,
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
        self.accept(changes)

    def accept(self, changes: Sequence[Change], *, hides: bool = False) -> list[Address]:
        """Apply a write; return the items that it changed. Raises `PreconditionFailed`.

        If it `hides` them, they are to be shown.
        """
        check_write(changes)
        lost = [each.address for each in changes if not _holds(each.expect, self.get(each.address))]
        if lost:
            raise PreconditionFailed(lost)
        new = {each.address: self._after(each) for each in changes if not isinstance(each, Check)}
        if hides:
            self.hidden |= {each: self.get(each) for each in new}
        for address, item in new.items():
            self._set(address, item)
        self.updates += new.items()
        return list(new)

    def show(self, address: Address) -> None:
        """Let actors find an item as it was written."""
        del self.hidden[address]

    def _after(self, change: Change) -> Item | None:
        match change:
            case Put(item=item):
                return deepcopy(dict(item))
            case Increment(address=address):
                return apply_increment(self.get(address) or {}, change)
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
    if isinstance(expected, VersionIs):
        version = None if item is None else item.get("version")
        return type(version) is int and version == expected.version
    return expected is Expect.ANYTHING or (item is None) == (expected is Expect.ABSENT)


@dataclass
class Blobs:
    """Blobs by name, and when each was put, in seconds."""

    found: dict[str, bytes] = field(default_factory=dict)
    updates: Updates = field(default_factory=list)

    def put(self, name: str, data: bytes) -> None:
        check_blob_name(name)
        if name in self.found:
            raise BlobExists
        self.found[name] = data
        self.updates.append((name, data))

    def get(self, name: str) -> bytes | None:
        check_blob_name(name)
        return self.found.get(name)

    def get_file(self, _name: str, *, sha256: str) -> Path | None:  # noqa: ARG002 - of the port
        return None

    def names(self, folder: str) -> Iterator[str]:
        return iter(sorted(each for each in self.found if each.startswith(f"{folder}/")))

    def discard(
        self,
        folder: str,
        *,
        before: str,
        start: str = "",
        older_than_seconds: float | None = None,
        any_age_before: str = "",
    ) -> None:
        limit = before if older_than_seconds is None else min(before, any_age_before)
        own = (each for each in self.names(folder) if "/" not in each[len(folder) + 1 :])
        old = [each for each in own if start <= each[len(folder) + 1 :] < limit]
        for each in old:
            del self.found[each]

    def remove(self, name: str) -> None:
        self.found.pop(name, None)

    def url(self, name: str, *, ttl_seconds: int) -> str:
        return f"https://blobs.invalid/{name}?{ttl_seconds}"
