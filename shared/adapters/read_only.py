"""A store that can be read and not written, for a process that must change nothing (OPS-14)."""

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

from shared.errors import ReadOnly
from shared.ports.store import Address, Change, Item, Partition, Row, Store, Table, Value
from shared.ports.token_buckets import Used


class ReadOnlyStore:
    """Another store whose writes all raise `ReadOnly`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def made_at(self) -> str:
        """Return when the tables were made. Raises `Unavailable`."""
        return self._store.made_at()

    def get(self, address: Address) -> Item | None:
        """Return the item, or None if there is none. Raises `Unavailable`."""
        return self._store.get(address)

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Item]:
        """Return the items that exist. Raises `Unavailable`."""
        return self._store.get_many(addresses)

    def query(self, partition: Partition, **options: Any) -> Iterator[Row]:
        """Yield the rows of the partition in order. Raises `Unavailable`."""
        return self._store.query(partition, **options)

    def count(self, partition: Partition, **options: Any) -> int:
        """Return the number of rows that `query` would yield. Raises `Unavailable`."""
        return self._store.count(partition, **options)

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[list[tuple[str, Value]]]:
        """Yield the sort keys after `after`, each with one attribute. Raises `Unavailable`."""
        return self._store.column(partition, attribute, after=after)

    def everything(self, table: Table) -> Iterator[tuple[Address, Item]]:
        """Yield all items of a table. Raises `Unavailable`."""
        return self._store.everything(table)

    def write(self, *_changes: Change) -> NoReturn:
        """Raise `ReadOnly`."""
        raise ReadOnly


class ReadOnlyUsage:
    """Usage counts that are not kept: requests are served, and uncounted."""

    def add(self, used: Used) -> None:
        """Do nothing."""
