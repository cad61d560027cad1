"""Pages of a list, newest first (decisions 1, pagination)."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from shared.model.items import Entry, Key, Partition
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
    ports: Ports, partition: Partition, *, before: str | None, limit: int
) -> tuple[list[Entry], str | None]:
    """Up to `limit` entries older than the identifier `before`, and the next page's `before`."""
    query = ports.store.query(partition, before=before, newest_first=True, limit=limit + 1)
    found = list(query)
    page = found[:limit]
    return page, page[-1].sk if len(found) > limit else None


def count(ports: Ports, *keys: Key) -> int:
    """The sum of the attribute `count` of these items, absent ones counting zero."""
    return sum(integer(item, "count") for item in ports.store.get_many(keys).values())
