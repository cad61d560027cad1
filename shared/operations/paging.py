"""Pages of a list, newest first (decisions 1, pagination)."""

from collections.abc import Callable
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


def newest(
    ports: Ports,
    partition: Partition,
    *,
    read: Callable[[Item], T],
    before: str | None,
    limit: int,
    keep: Callable[[T], bool] | None = None,
) -> tuple[list[T], str | None]:
    """Up to `limit` records older than the identifier `before`, and the next page's `before`.

    `keep` leaves records out; then the walk goes on until the page is full.
    """
    most = None if keep else limit + 1
    found: list[tuple[str, T]] = []
    for entry in ports.store.query(partition, before=before, newest_first=True, limit=most):
        record = read(entry.item)
        if keep is None or keep(record):
            found.append((entry.sk, record))
        if len(found) > limit:
            break
    page = found[:limit]
    return [record for _, record in page], page[-1][0] if len(found) > limit else None


def count(ports: Ports, *keys: Key) -> int:
    """The sum of the attribute `count` of these items, absent ones counting zero."""
    return sum(integer(item, "count") for item in ports.store.get_many(keys).values())
