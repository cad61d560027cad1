"""Pages of a list, newest first (decisions 1, pagination)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.model.items import Item, Key, Partition
from shared.model.records import integer
from shared.ports import Ports

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some of a list. `next_before` is the next page's `before`, None on the last page."""

    entries: list[T]
    total: int
    next_before: str | None


@dataclass(frozen=True, slots=True)
class Walk(Generic[T]):
    """The way to a page: up to `limit` records older than the identifier `before`.

    `keep` leaves records out; then the walk goes on until the page is full, or to the identifier
    `after`.
    """

    partition: Partition
    read: Callable[[Item], T]
    before: str | None
    limit: int
    keep: Callable[[T], bool] | None = None
    after: str | None = None

    def run(self, ports: Ports) -> tuple[list[T], str | None]:
        """The records, and the next page's `before`."""
        most = None if self.keep else self.limit + 1
        entries = ports.store.query(
            self.partition,
            after=self.after,
            before=self.before,
            newest_first=True,
            limit=most,
        )
        found: list[tuple[str, T]] = []
        for entry in entries:
            record = self.read(entry.item)
            if self.keep is None or self.keep(record):
                found.append((entry.sk, record))
            if len(found) > self.limit:
                break
        page = found[: self.limit]
        return [record for _, record in page], page[-1][0] if len(found) > self.limit else None


def newest(ports: Ports, walk: Walk[T], *, total: Callable[[], int]) -> Page[T]:
    """The page that the walk leads to, and the `total` of the list."""
    (entries, next_before), counted = ports.together(lambda: walk.run(ports), total)
    return Page(entries, counted, next_before)


def count(ports: Ports, *keys: Key, names: Iterable[str] = ("count",)) -> int:
    """The sum of these attributes of these items, absent ones counting zero."""
    items = ports.store.get_many(keys).values()
    return sum(integer(item, name) for item in items for name in names if name in item)
