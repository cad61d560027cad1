"""Where records live: three tables of items, each item found by a partition and a sort key.

The promises on `Store` are what the operations rely on; `tests/contracts/test_store.py` holds
every adapter to them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, TypeAlias

from shared.model.items import Address as Address
from shared.model.items import Item as Item
from shared.model.items import Partition as Partition
from shared.model.items import Row as Row
from shared.model.items import Table as Table
from shared.model.items import Value as Value

MOST_CHANGES = 100

# By which values a store finds items, beside their keys. Each is text, at a path of attribute names
# with dots between them.
SEARCHED: Final[Mapping[Table, tuple[str, ...]]] = {
    Table.KEYS: (),
    Table.REVOCATIONS: (),
    Table.AUDIT: ("action", "actor", "actor_key_id", "resource_id", "details.warrant_id"),
}


class Expect(Enum):
    """What a change takes for granted about the item that it finds."""

    ABSENT = "absent"
    PRESENT = "present"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class At:
    """The item is present and its attribute `version` is this number.

    The version belongs to the record: whoever puts the item writes the next number into it.
    """

    version: int


Expectation: TypeAlias = Expect | At


@dataclass(frozen=True, slots=True)
class Put:
    """Write the whole item in place of whatever is there."""

    address: Address
    item: Item
    expect: Expectation


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the item; removing an absent one is no fault where the expectation allows it."""

    address: Address
    expect: Expectation


@dataclass(frozen=True, slots=True)
class Increment:
    """Add to integer attributes, taking absent ones (and an absent item) for zero.

    `assign` sets other attributes in the same change.
    """

    address: Address
    amounts: Mapping[str, int]
    expect: Expectation
    assign: Item = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """Change nothing, but let the whole write depend on this."""

    address: Address
    expect: Expectation


Change: TypeAlias = Put | Delete | Increment | Check


@dataclass(frozen=True, slots=True)
class Where:
    """Which items of a partition are meant: all that is given must hold.

    `equal` has values by their path (see `SEARCHED`). `alive_at` is a moment in seconds since the
    epoch; an item is alive if its attribute `expires` is later, or absent.
    """

    equal: Mapping[str, str] = field(default_factory=dict)
    alive_at: int | None = None

    def holds(self, item: Item) -> bool:
        """Whether `item` is meant."""
        if any(at_path(item, path) != value for path, value in self.equal.items()):
            return False
        expires = item.get("expires")
        return self.alive_at is None or type(expires) is not int or expires > self.alive_at


EVERYTHING: Final = Where()


def at_path(item: Item, path: str) -> Value:
    """The value at a path of attribute names with dots between them, or None."""
    found: Value = dict(item)
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


class Store(Protocol):
    """Items in tables, strongly consistent.

    An item of the table `audit` with the attribute `expires`, in seconds since the epoch, may be
    removed by the store at any time after that moment. No other item is ever removed.

    - Every read sees every write that was acknowledged before the read began.
    - A write that is not acknowledged yet may be seen in part. Each of its items is visible as it
      was before the write or as it is after it, one item before another in any order; once an item
      is visible as it is after, it stays so. When the write is acknowledged, all are.
    - While an item is not visible yet, any other write that changes it or depends on it waits.
    - A read is complete or raises: a missing item means absent, never "not processed".
    - Whatever cannot be answered (throttled, timed out, broken, unreadable) is `Unavailable`.
      Contention and throttling are retried inside the adapter, with jitter, up to a deadline.
    - Safe to share between threads.
    """

    def get(self, address: Address) -> Item | None:
        """The item, or None where there is none. Raises `Unavailable`."""
        ...

    def get_many(self, addresses: Iterable[Address]) -> dict[Address, Item]:
        """The items that exist among `keys`, of any number, repeats allowed.

        Each item is read consistently; together they are no snapshot. Raises `Unavailable`.
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
        where: Where = EVERYTHING,
    ) -> Iterator[Row]:
        """The partition's entries in order of sort key (bytewise), or in the reverse order.

        `after` and `before` bound the sort key on both sides, exclusively. At most `limit` entries
        come back, only those that `where` means. The walk is no snapshot, but an item that is
        present all through it comes exactly once. Raises `Unavailable` from any step, and then the
        walk is void.
        """
        ...

    def count(
        self,
        partition: Partition,
        *,
        after: str | None = None,
        before: str | None = None,
        where: Where = EVERYTHING,
    ) -> int:
        """How many entries `query` would give. No item leaves the engine. Raises `Unavailable`."""
        ...

    def column(
        self, partition: Partition, attribute: str, *, after: str | None = None
    ) -> Iterator[list[tuple[str, Value]]]:
        """The sort keys after `after`, each with one attribute of its item; in order, by the page.

        None stands for an attribute that is not there. The promises of `query` hold; this is
        cheaper where there are many items of which little is wanted.
        """
        ...

    def write(self, *changes: Change) -> None:
        """Apply every change or none, durably; at most `MOST_CHANGES`, each to another key.

        A retry inside the adapter does not apply the changes twice.

        Raises `ExpectationLost`, with the addresses whose expectation did not hold. Raises
        `Unavailable`, after which the write has happened, has not, or is in flight; it never stays
        in part.
        """
        ...
