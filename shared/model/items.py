"""Data types of the stores: tables, addresses, partitions, items."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self, TypeAlias

# Integers have at most 64 bits, and strings have no lone surrogates.
Value: TypeAlias = str | int | bool | bytes | list["Value"] | dict[str, "Value"] | None
Item: TypeAlias = Mapping[str, Value]


class Table(StrEnum):
    """A table of the data model."""

    KEYS = "keys"
    REVOCATIONS = "revocations"
    AUDIT = "audit"


class Address(NamedTuple):
    """The table and the two keys of an item. `pk` and `sk` are never empty."""

    table: Table
    pk: str
    sk: str = "-"


class Partition(NamedTuple):
    """The items of a table that share a partition key."""

    table: Table
    pk: str

    def address(self, sk: str) -> Address:
        """Return the address of the item with this sort key."""
        return Address(self.table, self.pk, sk)


@dataclass(frozen=True, slots=True)
class ColumnPage:
    """Some sort keys of a partition, in order, and one attribute of the items that have it."""

    names: list[str]
    values: dict[str, Value]

    @classmethod
    def of(cls, names: list[str], items: Iterable[tuple[str, Item]], attribute: str) -> Self:
        """Return the page with these sort keys, and the attribute of the `items` that have it."""
        return cls(names, {sk: item[attribute] for sk, item in items if attribute in item})


class ItemRow(NamedTuple):
    """An item of a partition, with its sort key."""

    sk: str
    item: Item
