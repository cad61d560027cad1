"""Audit statements: the counters of revocations at a given log size (LOG-29)."""

from dataclasses import dataclass
from datetime import datetime

from shared.model.audit import log_state
from shared.model.items import Address
from shared.model.records import Record


@dataclass(frozen=True, slots=True)
class AuditStatement(Record):
    """The changes of revocations in each shard, up to leaf `size`.

    `generation` is the log generation. The item is part of an audit entry's details.
    """

    generation: int
    size: int
    changes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LatestStatement(AuditStatement):
    """The last statement of a tenant, stored next to the log head."""

    stated_at: datetime
    version: int


def address(tenant_id: str) -> Address:
    """Return the address of a tenant's last statement."""
    return log_state.partition(tenant_id).address("statement")
