"""Audit statements: the counters of revocations at a given log size (LOG-29)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Self

from shared.errors import DataCorrupt
from shared.model import times
from shared.model.audit import head
from shared.model.items import Address, Item, Value
from shared.model.records import integer


@dataclass(frozen=True, slots=True)
class AuditStatement:
    """The changes of revocations in each shard, up to leaf `size`.

    `generation` is the log generation.
    """

    generation: int
    size: int
    changes: tuple[int, ...]

    def to_item(self) -> dict[str, Value]:
        """Return the details of the audit entry, the inverse of `from_item`."""
        return {
            "generation": self.generation,
            "size": self.size,
            "changes": [*self.changes],
        }

    @classmethod
    def from_item(cls, item: Item) -> Self:
        """Return the statement in these details. Raises `DataCorrupt` if they are malformed."""
        changes = item.get("changes")
        if not isinstance(changes, list) or not all(type(each) is int for each in changes):
            raise DataCorrupt("a statement has no list of changes")
        numbers = tuple(each for each in changes if isinstance(each, int))
        return cls(integer(item, "generation"), integer(item, "size"), numbers)


@dataclass(frozen=True, slots=True)
class LatestStatement:
    """The last statement of a tenant, stored next to the log head."""

    statement: AuditStatement
    stated_at: datetime
    version: int

    def to_item(self) -> dict[str, Value]:
        """Return the item of the statement, the inverse of `from_item`."""
        kept: dict[str, Value] = {
            "stated_at": times.format_utc(self.stated_at),
            "version": self.version,
        }
        return self.statement.to_item() | kept

    @classmethod
    def from_item(cls, item: Item) -> Self:
        """Return the last statement. Raises `DataCorrupt` if the item is malformed."""
        try:
            stated_at = times.parse(str(item.get("stated_at")))
        except ValueError as error:
            raise DataCorrupt("a statement has no time") from error
        return cls(AuditStatement.from_item(item), stated_at, integer(item, "version"))


def address(tenant_id: str) -> Address:
    """Return the address of a tenant's last statement."""
    return head.partition(tenant_id).address("statement")
