"""Deployment record of a store: its schema, whether it is active, and its leader."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

from shared.errors import InvalidSettings
from shared.model.items import Address, Item, Partition, Table
from shared.model.records import Record

# Increases if an earlier release would misread or damage the data of this release.
SCHEMA: Final = 1

ADDRESS: Final = Address(Table.KEYS, "deployment")
# Recovery reviews that are pending, by tenant.
MARKS: Final = Partition(Table.KEYS, "restored")
LEADER_ADDRESS: Final = Address(Table.KEYS, "servers", "leader")
PROBE_ADDRESS: Final = Address(Table.KEYS, "servers", "probe")

# Longer than a process may take to notice that another store or region is active.
FENCED_SECONDS: Final = 6.0


class DeploymentPart(StrEnum):
    """The role of a store in a migration (docs/adr/15). Only a `serving` store is active."""

    SERVING = "serving"
    RECEIVING = "receiving"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class Deployment(Record):
    """A store's record about itself.

    `schema` is the highest schema of the releases that wrote to it. `receipt` is a random name that
    the store received when data was last moved to it. `moved_to` is the receipt of the store that
    replaced this one. `tables_made_at` is the value of `Store.made_at` for the tables that an
    operator confirmed, which distinguishes them from restored tables. `region` is the AWS region
    that writes the copies of this store, or None before a failover.
    """

    schema: int = SCHEMA
    part: DeploymentPart = DeploymentPart.SERVING
    receipt: str | None = None
    moved_to: str | None = None
    version: int = 1
    tables_made_at: str | None = None
    region: str | None = None

    @classmethod
    def of(cls, item: Item | None) -> Self:
        """Return the record of an item. A new store has none. Raises `DataCorrupt`."""
        return cls(version=0) if item is None else cls.from_item(item)

    def next(self, **changes: object) -> Self:
        """Return the next version of the record."""
        return replace(self, version=self.version + 1, **changes)  # type: ignore[arg-type]

    def check_schema(self, schema: int = SCHEMA) -> None:
        """Raise `InvalidSettings` if the data needs a schema above `schema` (OPS-12)."""
        if self.schema > schema:
            raise InvalidSettings(
                f"RESCIND_STORE: the data has schema {self.schema}; this release supports schemas"
                f" up to {schema}.",
                "Use the release that wrote the data, or a newer one.",
            )

    def is_written_in(self, region: str, *, is_standby: bool) -> bool:
        """Return whether processes in this region write.

        A standby writes only if `region` names it.
        """
        return not is_standby if self.region is None else self.region == region

    def check_in_charge(self) -> None:
        """Raise `InvalidSettings` if another store is active (OPS-13)."""
        if self.part is DeploymentPart.MOVED:
            raise InvalidSettings(
                "RESCIND_STORE: the data was migrated to another store, which is active now.",
                "Use that store, or migrate the data back with rescind migrate.",
            )
        if self.part is DeploymentPart.RECEIVING:
            raise InvalidSettings(
                "RESCIND_STORE: a migration to this store is not complete.",
                "Repeat rescind migrate to complete it; until then the other store is active.",
            )


@dataclass(frozen=True, slots=True)
class LeaderNote(Record):
    """The leading server: `by` is its random name. `version` increases while it leads."""

    by: str
    version: int = 1


@dataclass(frozen=True, slots=True)
class UnreviewedRestore(Record):
    """A restore without a recovery review.

    `copied_at` is the time of the restored backup, if known. `recovered_at` is when a recovery
    first ended, which determines the extent of the review.
    """

    tenant_id: str
    restored_at: datetime
    copied_at: datetime | None = None
    recovered_at: datetime | None = None
    version: int = 1

    @property
    def address(self) -> Address:
        """The address of the record."""
        return address(self.tenant_id)


def address(tenant_id: str) -> Address:
    """Return the address of a tenant's pending recovery review."""
    return MARKS.address(tenant_id)
