"""The note that a trust document waits for the signatures of people."""

from dataclasses import dataclass
from datetime import datetime

from shared.model.items import Address, Table
from shared.model.records import Record


@dataclass(frozen=True, slots=True)
class WaitingDraft(Record):
    """A document is due that this service cannot sign, `since` this moment."""

    since: datetime


def address(tenant_id: str) -> Address:
    """Return the address of the note; there is none if no document waits."""
    return Address(Table.KEYS, tenant_id, "trust#waits")
