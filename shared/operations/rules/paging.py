"""Pages of a list, newest first (API-19, API-22)."""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

from shared.model.items import Address, Item, Partition, Row
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
    (entries, next_before), counted = ports.gather(lambda: walk.run(ports), total)
    return Page(entries, counted, next_before)


def merged(
    ports: Ports,
    partitions: Sequence[Partition],
    *,
    limit: int,
    beside: Sequence[Callable[[], int]] = (),
    **bounds: Any,
) -> tuple[list[Row], int]:
    """The `limit` newest entries of all partitions together, newest first; `bounds` are of `query`.

    Their sort keys must differ. Each partition is asked for its share and some more, at once with
    the others and with what is to be read `beside`, whose sum is returned too. Those partitions
    that have more than their share among the newest are asked once more.
    """
    share = min(limit, -(-limit // len(partitions)) + _spare(limit))
    answers = ports.gather(*_reads(ports, partitions, share, bounds), *beside)
    runs: dict[Partition, list[Row]] = dict(zip(partitions, answers, strict=False))
    newest = _first(runs.values(), limit)
    last = newest[-1].sk if len(newest) == limit else ""
    short = [each for each, run in runs.items() if len(run) == share and run[-1].sk > last]
    if short and share < limit:
        runs |= zip(short, ports.gather(*_reads(ports, short, limit, bounds)), strict=True)
    return _first(runs.values(), limit), sum(answers[len(partitions) :])


def _spare(limit: int) -> int:
    """How many more than its share a partition out of eight seldom has among the newest entries."""
    return 3 + limit // 16


def _reads(
    ports: Ports, partitions: Sequence[Partition], limit: int, bounds: Mapping[str, Any]
) -> list[Callable[[], Any]]:
    def read(partition: Partition) -> list[Row]:
        return list(ports.store.query(partition, newest_first=True, limit=limit, **bounds))

    return [partial(read, each) for each in partitions]


def _first(runs: Iterable[list[Row]], limit: int) -> list[Row]:
    return list(islice(heapq.merge(*runs, key=lambda entry: entry.sk, reverse=True), limit))


def count(ports: Ports, *keys: Address, names: Iterable[str] = ("count",)) -> int:
    """The sum of these attributes of these items, absent ones counting zero."""
    items = ports.store.get_many(keys).values()
    return sum(integer(item, name) for item in items for name in names if name in item)
