"""Pages of a collection, newest first (API-19, API-22)."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final, Generic, TypedDict, TypeVar, Unpack

from shared.model.items import Address, Item, ItemRow, Partition
from shared.model.records import integer
from shared.ports import Ports
from shared.ports.store import ItemFilter

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page. `next_before` is the `before` of the next page, or None on the last page.

    `total` is None if the collection is not counted.
    """

    entries: list[T]
    total: int | None
    next_before: str | None


# The most records that a filtered page reads. It takes rate limit tokens for them (AUTH-14).
_READ_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class PageQueryPlan(Generic[T]):
    """The query for a page: up to `limit` records older than the identifier `before`.

    `keep` filters the records of the page. The query then continues until the page is full or the
    identifier `after` is reached. It reads at most `_READ_MAX` records. At that limit the page is
    shorter, and the next page continues after the last record that was read.
    """

    partition: Partition
    read: Callable[[Item], T]
    before: str | None
    limit: int
    keep: Callable[[T], bool] | None = None
    after: str | None = None

    def run(self, ports: Ports) -> tuple[list[T], str | None]:
        """Return the records, and `before` for the next page or None."""
        most = _READ_MAX if self.keep else self.limit + 1
        entries = ports.store.query(
            self.partition, after=self.after, before=self.before, newest_first=True, limit=most
        )
        found: list[tuple[str, T]] = []
        last, read = "", 0
        for entry in entries:
            last, read = entry.sk, read + 1
            record = self.read(entry.item)
            if self.keep is None or self.keep(record):
                found.append((entry.sk, record))
            if len(found) > self.limit:
                break
        page = found[: self.limit]
        if len(found) > self.limit:
            last = page[-1][0]
        elif read < _READ_MAX or not self.keep:
            return [record for _, record in page], None
        return [record for _, record in page], last


def newest(ports: Ports, walk: PageQueryPlan[T], *, total: Callable[[], int]) -> Page[T]:
    """Return the page of `walk`; `total` counts the whole collection."""
    (entries, next_before), counted = ports.gather(lambda: walk.run(ports), total)
    return Page(entries, counted, next_before)


class RowBounds(TypedDict, total=False):
    """The rows of a partition to return, as arguments of `Store.query`."""

    after: str | None
    before: str | None
    where: ItemFilter


def merge_partitions(
    ports: Ports,
    partitions: Sequence[Partition],
    *,
    limit: int,
    newest_first: bool = True,
    counters: Sequence[Callable[[], int]] = (),
    **bounds: Unpack[RowBounds],
) -> tuple[list[ItemRow], int]:
    """Return the first `limit` rows of all partitions in order, and the sum of `counters`.

    Sort keys must be unique across the partitions. Each partition is first queried for its share
    and a few more rows, concurrently with `counters`. A partition that may have more of the first
    rows is queried again for `limit` rows.
    """
    # A partition rarely exceeds its share by more rows, if there are eight partitions.
    spare = 3 + limit // 16
    share = min(limit, -(-limit // len(partitions)) + spare)
    read = partial(_reads, ports, bounds=bounds, newest_first=newest_first)
    answers = ports.gather(*read(partitions, share), *counters)
    runs: dict[Partition, list[ItemRow]] = dict(zip(partitions, answers, strict=False))
    first = _first(runs.values(), limit, newest_first=newest_first)
    last = first[-1].sk if len(first) == limit else None

    def is_short(run: list[ItemRow]) -> bool:
        return len(run) == share and (last is None or (run[-1].sk > last) is newest_first)

    short = [each for each, run in runs.items() if is_short(run)]
    if short and share < limit:
        runs |= zip(short, ports.gather(*read(short, limit)), strict=True)
    rows = _first(runs.values(), limit, newest_first=newest_first)
    return rows, sum(answers[len(partitions) :])


def _reads(
    ports: Ports,
    partitions: Sequence[Partition],
    limit: int,
    *,
    bounds: RowBounds,
    newest_first: bool,
) -> list[Callable[[], Any]]:
    def read(partition: Partition) -> list[ItemRow]:
        found = ports.store.query(partition, newest_first=newest_first, limit=limit, **bounds)
        return list(found)

    return [partial(read, each) for each in partitions]


def _first(runs: Iterable[list[ItemRow]], limit: int, *, newest_first: bool) -> list[ItemRow]:
    in_order = heapq.merge(*runs, key=lambda entry: entry.sk, reverse=newest_first)
    return list(islice(in_order, limit))


def count(ports: Ports, *addresses: Address, names: Iterable[str] = ("count",)) -> int:
    """Sum the attributes `names` of the items at `addresses`; a missing one counts as zero."""
    items = ports.store.get_many(addresses).values()
    return sum(integer(item, name) for item in items for name in names if name in item)
