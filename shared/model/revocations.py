"""Revocations: warrants that hold no longer (REVOKE-1)."""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from shared.model.items import Address, Partition, Table
from shared.model.records import Record

# Partitions of the revoked warrants, with their counters, and of the records: each of them takes
# 1,000 write units a second (docs/adr/0037).
SHARDS: Final = 16
RECORD_SHARDS: Final = 8
# Counters a shard: enough that concurrent writes rarely meet on one, few enough to read at once.
COUNTERS: Final = 16

# Moments before it come of a date that was never filled in, or was mistyped: no warrant ended then.
EARLIEST_END: Final = datetime(2000, 1, 1, tzinfo=UTC)

# A warrant that left the list longer ago does not come back, however long lists live from now on.
LONG_AGO: Final = timedelta(days=30)

# The counters of a shard sort before every warrant identifier. The first edition had this one.
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


def records(tenant_id: str) -> list[Partition]:
    """Together, a tenant's revocation records; each partition is in order of creation."""
    return [_records(tenant_id, number) for number in range(RECORD_SHARDS)]


def record_address(tenant_id: str, revocation_id: str) -> Address:
    """Where a new record is stored."""
    number = _digest(revocation_id)[0] % RECORD_SHARDS
    return _records(tenant_id, number).address(revocation_id)


def record_addresses(tenant_id: str, revocation_id: str) -> list[Address]:
    """Where a record may be: where it is stored now, or where earlier releases stored it."""
    first = _records(tenant_id, 0).address(revocation_id)
    return list(dict.fromkeys([record_address(tenant_id, revocation_id), first]))


def shards(tenant_id: str) -> list[Partition]:
    """The partitions that together hold a tenant's revoked warrants."""
    return [_shard(tenant_id, number) for number in range(SHARDS)]


def counter_address(tenant_id: str, warrant_id: str) -> Address:
    """The counter of a warrant's shard that counts it: `count` of warrants, `changes` ever made.

    The numbers of a shard are the sums of all of its counters, which sort before its warrants.
    """
    number = counter_number(warrant_id) // SHARDS
    return shard_of(tenant_id, warrant_id).address(f"{_COUNTER}#{number:02x}")


def repaired_counter_address(shard: Partition) -> Address:
    """The counter of a shard that a repair adds to."""
    return shard.address(f"{_COUNTER}#00")


def counter_number(name: str) -> int:
    """Which of all counters of a tenant counts a warrant."""
    digest = _digest(name)
    return digest[0] % SHARDS + SHARDS * (digest[1] % COUNTERS)


def shard_of(tenant_id: str, warrant_id: str) -> Partition:
    """The shard of a warrant."""
    return _shard(tenant_id, shard_number(warrant_id))


def ended(shard: Partition) -> Partition:
    """The warrants of a shard that ended long ago, in order of their ends (docs/adr/0019)."""
    return Partition(shard.table, f"{shard.pk}#ended")


def shard_number(name: str) -> int:
    """From a hash, so that no choice of names crowds one shard."""
    return _digest(name)[0] % SHARDS


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _records(tenant_id: str, number: int) -> Partition:
    # The first is the one that all records of earlier releases are in.
    return Partition(Table.REVOCATIONS, f"{tenant_id}#revocations" + (f"#{number}" * bool(number)))


def _shard(tenant_id: str, number: int) -> Partition:
    return Partition(Table.REVOCATIONS, f"{tenant_id}#revoked#{number:02x}")
