"""The mark on a tenant whose records were put back to an earlier moment (OPS-10)."""

from dataclasses import dataclass
from datetime import datetime

from shared.model.items import Address, Table
from shared.model.records import Record


@dataclass(frozen=True, slots=True)
class Restored(Record):
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
    return Address(Table.KEYS, tenant_id, "restored")
