"""The store of records: three tables of items. A partition key and a sort key identify an item.

The operations rely on the guarantees in `Store`. `tests/contracts/test_store.py` checks them for
each adapter.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import wraps
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from shared.model.items import Address as Address
from shared.model.items import ColumnPage as ColumnPage
from shared.model.items import Item as Item
from shared.model.items import ItemRow as ItemRow
from shared.model.items import Partition as Partition
from shared.model.items import Table as Table
from shared.model.items import Value as Value

MOST_CHANGES = 100

# The paths of text values by which a store can search, besides keys: attribute names joined by
# dots.
SEARCHED: Final[Mapping[Table, tuple[str, ...]]] = {
    Table.KEYS: (),
    Table.REVOCATIONS: (),
    Table.AUDIT: (
        "action",
        "actor",
        "actor_key_id",
        "resource_id",
        "details.batch_id",
        "details.summary_id",
        "details.warrant_id",
        "actor_id",
    ),
}


class Expect(Enum):
    """The expectation of a change about its item."""

    ABSENT = "absent"
    PRESENT = "present"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class VersionIs:
    """The item exists and its attribute `version` has this value.

    The record is responsible for it: the caller that puts an item writes the next number into it.
    """

    version: int


Expectation: TypeAlias = Expect | VersionIs


def expect_version(version: int) -> Expectation:
    """Return the expectation that an item has this version, or is absent for 0."""
    return VersionIs(version) if version else Expect.ABSENT


@dataclass(frozen=True, slots=True)
class Put:
    """Write the whole item, replacing any that is there."""

    address: Address
    item: Item
    expect: Expectation


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the item. If the expectation allows it, the item may be absent."""

    address: Address
    expect: Expectation


@dataclass(frozen=True, slots=True)
class Increment:
    """Add to integer attributes. An absent attribute, or an absent item, counts as zero.

    `assign` sets other attributes in the same change.
    """

    address: Address
    amounts: Mapping[str, int]
    expect: Expectation
    assign: Item = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """Change nothing, but make the whole write depend on this expectation."""

    address: Address
    expect: Expectation


Change: TypeAlias = Put | Delete | Increment | Check


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """A filter of items: all conditions must hold.

    `equal` has values by path (see `SEARCHED`). `alive_at` is in seconds since the epoch; an item
    matches if its attribute `expires` is later, or absent.
    """

    equal: Mapping[str, str] = field(default_factory=dict)
    alive_at: int | None = None

    def holds(self, item: Item) -> bool:
        """Return whether `item` matches."""
        if any(at_path(item, path) != value for path, value in self.equal.items()):
            return False
        expires = item.get("expires")
        return self.alive_at is None or type(expires) is not int or expires > self.alive_at


EVERYTHING: Final = ItemFilter()


def at_path(item: Item, path: str) -> Value:
    """Return the value at a path, which is attribute names joined by dots, or None."""
    found: Value = dict(item)
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


class Store(Protocol):
    """Items in tables, with strong consistency.

    The store may remove an item of the tables `audit` and `keys` at any time after its attribute
    `expires`, in seconds since the epoch. It never removes any other item.

    - A read sees every write that was acknowledged before the read began.
    - A write that is not acknowledged yet may be visible in part. Each of its items is visible as
      it was before the write or as it is after it, in any order; once an item is visible as it is
      after the write, it stays so. When the write is acknowledged, all items are.
    - Until an item is visible, any other write that changes it or depends on it waits.
    - A read is complete or raises: a missing item is absent, never "not processed".
    - Every failure (throttling, timeout, damage) raises `Unavailable`. The adapter retries after
      contention and throttling, with jitter, until a deadline.
    - It is safe to share between threads.
    """

    def made_at(self) -> str:
        """Return when, or by whom, the tables were made: another text after a restore.

        It is empty if it would be the same one. Only commands of the operator ask.
        Raises `Unavailable`.
        """
        ...

    def get(self, address: Address) -> Item | None:
        """Return the item, or None if there is none. Raises `Unavailable`."""
        ...

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Item]:
        """Return the items that exist among `addresses`, of any number, which may repeat.

        Each item is read consistently, but together they are not a snapshot. Raises `Unavailable`.
        """
        ...

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
        """Yield the rows of the partition in order of sort key (bytewise), or in reverse order.

        `after` and `before` are exclusive bounds of the sort key. At most `limit` rows that match
        `where` are returned. The iteration is not a snapshot, but an item that exists throughout it
        is returned exactly once. Each step may raise `Unavailable`; the rows so far must then not
        be used.
        """
        ...

    def query_many(
        self,
        partitions: Iterable[Partition],
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> dict[Partition, list[ItemRow]]:
        """Return the rows that `query` would yield of each of `partitions`, which have few.

        `limit` is for each of them. Together they are not a snapshot. Raises `Unavailable`.
        """
        ...

    def count(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        where: ItemFilter = EVERYTHING,
    ) -> int:
        """Return how many rows `query` would yield; no item is returned. Raises `Unavailable`."""
        ...

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[ColumnPage]:
        """Yield pages of the sort keys after `after`, in order, with one attribute.

        The guarantees are those of `query`. This is cheaper than `query` for many items.
        """
        ...

    def everything(self, table: Table) -> Iterator[tuple[Address, Item]]:
        """Yield all items of a table, in no particular order.

        It costs a read of the whole table: only commands of the operator use it. It is not a
        snapshot, but an item that exists throughout the iteration is yielded exactly once. Each
        step may raise `Unavailable`; the items so far must then not be taken for the whole table.
        """
        ...

    def write(self, *changes: Change) -> None:
        """Apply all changes or none, durably. There are at most `MOST_CHANGES`, one per item.

        A retry inside the adapter does not apply the changes twice.

        Raises `PreconditionFailed`, with the addresses whose expectation did not hold. Raises
        `Unavailable` if the outcome is unknown or still open; the write is never applied in part.
        """
        ...


_Call: TypeAlias = Callable[..., Any]


def wrap_store(store: Store, around: Callable[[str, _Call], _Call]) -> Store:
    """Return a store with all methods of another, on which it calls `around(name, method)`."""
    return cast("Store", _StoreProxy(store, around))


class _StoreProxy:
    """Has the methods of a store, whatever they are."""

    def __init__(self, store: Store, around: Callable[[str, _Call], _Call]) -> None:
        self._store, self._around = store, around
        # Now: from Python 3.12 on, `isinstance` with a protocol does not ask `__getattr__`.
        for name in dir(store):
            if callable(found := getattr(self, name, None)) and not name.startswith("_"):
                setattr(self, name, found)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        is_call = callable(found) and not name.startswith("_")
        return wraps(found)(self._around(name, found)) if is_call else found


class ConfigurationProblem(NamedTuple):
    """A fault of the database's configuration: sentences without full stops.

    It is a remark if no acknowledged change can be lost or misread by it, or if the store cannot
    know whether one can.
    """

    problem: str
    remedy: str
    is_remark: bool = False


@runtime_checkable
class ConfigurableStore(Protocol):
    """A store in a database whose configuration it can read."""

    def flaws(self) -> Iterator[ConfigurationProblem]:
        """Yield what is wrong with the configuration. Raises `Unavailable`."""
        ...
