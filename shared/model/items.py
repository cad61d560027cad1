"""The words for stored things: tables, keys, partitions, items."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple, TypeAlias

# What an item may hold: integers of at most 64 bits, strings without lone surrogates.
Value: TypeAlias = str | int | bool | bytes | list["Value"] | dict[str, "Value"] | None
Item: TypeAlias = Mapping[str, Value]


class Table(StrEnum):
    """The tables of the data model."""

    KEYS = "keys"
    REVOCATIONS = "revocations"
    AUDIT = "audit"


class Address(NamedTuple):
    """The address of an item. Neither `pk` nor `sk` is ever empty."""

    table: Table
    pk: str
    sk: str = "-"


class Partition(NamedTuple):
    """The items of a table that share a partition key."""

    table: Table
    pk: str

    def address(self, sk: str) -> Address:
        """The address of one item in this partition."""
        return Address(self.table, self.pk, sk)


class Row(NamedTuple):
    """One item of a partition, with its sort key."""

    sk: str
    item: Item
