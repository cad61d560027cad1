"""The store of records: three tables of items with a partition key and a sort key.

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

# The paths of text values that a store can search besides its keys. A path is a list of attribute
# names joined by dots.
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
    """The precondition of a write on its item."""

    ABSENT = "absent"
    PRESENT = "present"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class VersionIs:
    """The item exists and its attribute `version` has this value.

    The store does not count versions: the caller that puts an item writes the next number.
    """

    version: int


Expectation: TypeAlias = Expect | VersionIs


def expect_version(version: int) -> Expectation:
    """Return the precondition that an item has this version, or is absent for 0."""
    return VersionIs(version) if version else Expect.ABSENT


@dataclass(frozen=True, slots=True)
class Put:
    """Write the whole item, and replace an existing one."""

    address: Address
    item: Item
    expect: Expectation


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the item. The item may be absent if the precondition allows it."""

    address: Address
    expect: Expectation


@dataclass(frozen=True, slots=True)
class Increment:
    """Add to integer attributes. An absent attribute or item counts as zero.

    `assign` sets other attributes in the same write.
    """

    address: Address
    amounts: Mapping[str, int]
    expect: Expectation
    assign: Item = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but make the whole write depend on this precondition."""

    address: Address
    expect: Expectation


Change: TypeAlias = Put | Delete | Increment | Check


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """A filter of items. An item matches if it fulfills all conditions.

    `equal` has the required values by path (see `SEARCHED`). `alive_at` is in seconds since the
    epoch; an item matches if its attribute `expires` is later, or absent.
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
    """Return the value at a path of attribute names joined by dots, or None."""
    found: Value = dict(item)
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


class Store(Protocol):
    """Items in tables, with strong consistency.

    The store may delete an item of the tables `audit` and `keys` at any time after its attribute
    `expires`, in seconds since the epoch. It never deletes any other item.

    - A read sees every write that was acknowledged before the read began.
    - A write that is not acknowledged yet may be partly visible. Each of its items has the state
      before or after the write, in any order, and never returns to the state before. When the write
      is acknowledged, all of its items are visible.
    - Any other write that changes an item or depends on it waits until the item is visible.
    - A read is complete or raises: a missing item is absent, never "not processed".
    - Every failure (throttling, timeout, damage) raises `Unavailable`. The adapter retries after
      contention and throttling, with jitter, until a deadline.
    - The store can be shared between threads.
    """

    def made_at(self) -> str:
        """Return a fingerprint of the tables that changes when they are restored.

        It is empty if the store cannot detect a restore. Only operator commands use it. Raises
        `Unavailable`.
        """
        ...

    def get(self, address: Address) -> Item | None:
        """Return the item, or None if it does not exist. Raises `Unavailable`."""
        ...

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Item]:
        """Return the existing items among any number of `addresses`, which may repeat.

        Each item is read consistently, but the result is not a snapshot. Raises `Unavailable`.
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
        """Yield the rows of the partition in bytewise order of sort key, or in reverse.

        `after` and `before` are exclusive bounds of the sort key. At most `limit` rows that match
        `where` are yielded. The iteration is not a snapshot, but yields an item that exists
        throughout it exactly once. Each step may raise `Unavailable`. The caller must then discard
        the rows yielded so far.
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
        """Return the rows that `query` would yield for each of several small partitions.

        `limit` applies to each partition. The result is not a snapshot. Raises `Unavailable`.
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
        """Return the number of rows that `query` would yield. Raises `Unavailable`."""
        ...

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[ColumnPage]:
        """Yield pages of the sort keys after `after`, in order, with one attribute.

        The guarantees are the same as for `query`. For many items, this method is cheaper.
        """
        ...

    def everything(self, table: Table) -> Iterator[tuple[Address, Item]]:
        """Yield all items of a table, in no particular order.

        This reads the whole table, so only operator commands use it. It is not a snapshot, but
        yields an item that exists throughout the iteration exactly once. Each step may raise
        `Unavailable`. The items so far are then not the whole table.
        """
        ...

    def write(self, *changes: Change) -> None:
        """Apply all writes or none, durably.

        There are at most `MOST_CHANGES` writes, one per item. A retry inside the adapter does not
        apply them twice.

        Raises `PreconditionFailed` with the addresses of the items that did not meet their
        preconditions. Raises `Unavailable` if the outcome is unknown or still open. The writes are
        never applied in part.
        """
        ...


_Call: TypeAlias = Callable[..., Any]


def wrap_store(store: Store, around: Callable[[str, _Call], _Call]) -> Store:
    """Return a store that wraps each method with `around(name, method)`."""
    return cast("Store", _StoreProxy(store, around))


class _StoreProxy:
    """Forwards all methods and attributes to a store."""

    def __init__(self, store: Store, around: Callable[[str, _Call], _Call]) -> None:
        self._store, self._around = store, around
        # Set the methods here: from Python 3.12 on, `isinstance` with a protocol ignores
        # `__getattr__`.
        for name in dir(store):
            if callable(found := getattr(self, name, None)) and not name.startswith("_"):
                setattr(self, name, found)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        is_call = callable(found) and not name.startswith("_")
        return wraps(found)(self._around(name, found)) if is_call else found


class ConfigurationProblem(NamedTuple):
    """A problem of the database configuration: sentences without full stops.

    `is_remark` means that the problem cannot cause loss or misreading of an acknowledged change, or
    that the store cannot determine whether it can.
    """

    problem: str
    remedy: str
    is_remark: bool = False


@runtime_checkable
class ConfigurableStore(Protocol):
    """A store in a database with a readable configuration."""

    def flaws(self) -> Iterator[ConfigurationProblem]:
        """Yield the problems of the configuration. Raises `Unavailable`."""
        ...
