"""The deployment that a store belongs to: its schema, whether it is in charge, and who leads."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

from shared.errors import InvalidSettings
from shared.model.items import Address, Item, Partition, Table
from shared.model.records import Record

# Rises if an earlier release would misread or damage what this release stores.
SCHEMA: Final = 1

ADDRESS: Final = Address(Table.KEYS, "deployment")
# The marks on restored tenants, by tenant.
MARKS: Final = Partition(Table.KEYS, "restored")
LEADER_ADDRESS: Final = Address(Table.KEYS, "servers", "leader")
PROBE_ADDRESS: Final = Address(Table.KEYS, "servers", "probe")

# Longer than a process may take to see that another store, or another region, is in charge.
FENCED_SECONDS: Final = 6.0


class DeploymentPart(StrEnum):
    """The part that a store has in a migration (docs/adr/15). Only `serving` is in charge."""

    SERVING = "serving"
    RECEIVING = "receiving"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class Deployment(Record):
    """The note of a store about itself.

    `schema` is the highest of the releases that wrote to it. `receipt` is a random name that the
    store got when data was last moved to it; `moved_to` is that of the store which is in charge
    instead of this one. `tables_made_at` is what `Store.made_at` said of the tables that an
    operator saw, so that it tells restored ones from these.
    `region` is that of AWS in which the copies of this store are written; None before a failover.
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
        """Return the record of an item; a new store has none. Raises `DataCorrupt`."""
        return cls(version=0) if item is None else cls.from_item(item)

    def next(self, **changes: object) -> Self:
        """Return the record as it is written next."""
        return replace(self, version=self.version + 1, **changes)  # type: ignore[arg-type]

    def check_schema(self, schema: int = SCHEMA) -> None:
        """Raise `InvalidSettings` for a release that knows schemas up to a lower one (OPS-12)."""
        if self.schema > schema:
            raise InvalidSettings(
                f"RESCIND_STORE: the data has schema {self.schema}; this release supports schemas"
                f" up to {schema}.",
                "Use the release that wrote the data, or a newer one.",
            )

    def is_written_in(self, region: str, *, is_standby: bool) -> bool:
        """Return whether processes in this region write; those of a standby wait to be named."""
        return not is_standby if self.region is None else self.region == region

    def check_in_charge(self) -> None:
        """Raise `InvalidSettings` if another store is in charge of the data (OPS-13)."""
        if self.part is DeploymentPart.MOVED:
            raise InvalidSettings(
                "RESCIND_STORE: the data was moved to another store, which is in charge now.",
                "Serve from that store, or move the data back with rescind migrate.",
            )
        if self.part is DeploymentPart.RECEIVING:
            raise InvalidSettings(
                "RESCIND_STORE: a migration to this store has not ended.",
                "Repeat rescind migrate to end it; until then the other store is in charge.",
            )


@dataclass(frozen=True, slots=True)
class LeaderNote(Record):
    """The server that leads: `by` is its random name, `version` rises while it does."""

    by: str
    version: int = 1


@dataclass(frozen=True, slots=True)
class UnreviewedRestore(Record):
    """A restore that is not reviewed yet.

    `copied_at` is the moment to which the records were put back, if it is known. `recovered_at` is
    when a recovery ended first, which says what to review.
    """

    tenant_id: str
    restored_at: datetime
    copied_at: datetime | None = None
    recovered_at: datetime | None = None
    version: int = 1

    @property
    def address(self) -> Address:
        """Where the mark is stored."""
        return address(self.tenant_id)


def address(tenant_id: str) -> Address:
    """Return the address of the mark on a tenant."""
    return MARKS.address(tenant_id)
