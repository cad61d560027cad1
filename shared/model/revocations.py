"""Revocations: warrants that hold no longer (service.md 2.3 and 4.3, decisions 3)."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from shared.model.items import Key, Partition, Table
from shared.model.records import Record

# Enough that concurrent writes rarely meet on a counter, few enough to read in one batch.
SHARDS: Final = 16

# Moments before it come of a date that was never filled in, or was mistyped: no warrant ended then.
EARLIEST_END: Final = datetime(2000, 1, 1, tzinfo=UTC)

# The counter of a shard sorts before every warrant identifier.
_COUNTER: Final = "#count"


@dataclass(frozen=True, slots=True)
class Revocation(Record):
    """The record of one revocation, in order of time: listed, and deleted by identifier."""

    id: str
    warrant_id: str
    reason: str
    created_at: datetime
    created_by: str


@dataclass(frozen=True, slots=True)
class RevokedWarrant(Record):
    """A warrant with a revocation, among all others that have one: what a publication reads.

    `ends_at` is when the warrant ends, if that was signed or the administrator said so.
    """

    ends_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a warrant still holds; when and why not, and when it would have ended anyway.

    `by_key`: it has no revocation of its own, but the key that signed it is revoked.
    """

    warrant_id: str
    revoked_at: datetime | None = None
    reason: str | None = None
    ends_at: datetime | None = None
    by_key: bool = False

    @property
    def revoked(self) -> bool:
        """True where the warrant holds no longer."""
        return self.revoked_at is not None


def records(tenant_id: str) -> Partition:
    """A tenant's revocation records, in order of creation."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#revocations")


def shards(tenant_id: str) -> list[Partition]:
    """The partitions that together hold a tenant's revoked warrants."""
    return [_shard(tenant_id, number) for number in range(SHARDS)]


def counter_key(shard: Partition) -> Key:
    """The counter of a shard: `count` of its warrants, `changes` ever made to it."""
    return shard.key(_COUNTER)


def shard_of(tenant_id: str, warrant_id: str) -> Partition:
    """The shard of a warrant."""
    return _shard(tenant_id, shard_number(warrant_id))


def shard_number(name: str) -> int:
    """From a hash, so that no choice of names crowds one shard."""
    return hashlib.sha256(name.encode()).digest()[0] % SHARDS


def _shard(tenant_id: str, number: int) -> Partition:
    return Partition(Table.REVOCATIONS, f"{tenant_id}#revoked#{number:02x}")
