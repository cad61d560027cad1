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
        rows = ports.store.query(
            self.partition, after=self.after, before=self.before, newest_first=True, limit=most
        )
        page: list[T] = []
        last_of_page, last, read = "", "", 0
        for row in rows:
            last, read = row.sk, read + 1
            record = self.read(row.item)
            if self.keep is None or self.keep(record):
                if len(page) == self.limit:
                    return page, last_of_page
                page.append(record)
                last_of_page = last
        is_cut_off = self.keep is not None and read >= _READ_MAX
        return page, last if is_cut_off else None


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

    def read(partition: Partition, most: int) -> list[ItemRow]:
        rows = ports.store.query(partition, newest_first=newest_first, limit=most, **bounds)
        return list(rows)

    def merge(runs: Iterable[list[ItemRow]]) -> list[ItemRow]:
        rows = heapq.merge(*runs, key=lambda row: row.sk, reverse=newest_first)
        return list(islice(rows, limit))

    reads: list[Callable[[], Any]] = [partial(read, each, share) for each in partitions]
    answers = ports.gather(*reads, *counters)
    runs: dict[Partition, list[ItemRow]] = dict(zip(partitions, answers, strict=False))
    first = merge(runs.values())
    last = first[-1].sk if len(first) == limit else None
    short = [
        each
        for each, run in runs.items()
        if len(run) == share and (last is None or (run[-1].sk > last) is newest_first)
    ]
    if short and share < limit:
        rest = ports.gather(*(partial(read, each, limit) for each in short))
        first = merge((runs | dict(zip(short, rest, strict=True))).values())
    return first, sum(answers[len(partitions) :])


def count(ports: Ports, *addresses: Address, names: Iterable[str] = ("count",)) -> int:
    """Sum the attributes `names` of the items at `addresses`; a missing one counts as zero."""
    items = ports.store.get_many(addresses).values()
    return sum(integer(item, name) for item in items for name in names if name in item)
