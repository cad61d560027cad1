"""Items that the scheduler reads to find tenants with due SRLs (SRL-11, docs/adr/11).

A publication deadline is the time to replace an SRL. Deadlines are in order of time. An outbox mark
records that the tenant's revocations have changed. It is written with the change: at most one per
counter, and a single mark for keys and accounts. A mark is kept for some minutes after the change
(docs/adr/02). An *issue* records the issue time of the current SRL, to find SRLs issued in the
future (docs/adr/09).
"""

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Self

from shared.model import revocations, times
from shared.model.items import Address, Partition, Table
from shared.model.records import SPARSE, Record

if TYPE_CHECKING:
    from shared.model.lists.head import SrlHead

# The publication deadlines of all tenants, earliest first.
TURNS: Final = Partition(Table.KEYS, "srl-turns")

# The issues of all current SRLs, in order of time.
ISSUES: Final = Partition(Table.KEYS, "srl-issues")

# The interval of the scheduler. An operator may have set two minutes (SRL-11).
EVERY: Final = timedelta(minutes=1)

# A write ends less than a minute after its first item is visible. Clocks may differ.
IN_FLIGHT_MAX: Final = times.CLOCK_TOLERANCE + timedelta(minutes=1)

# Each run of the scheduler reads all partitions, so there are few. They still suffice for the
# changes of all tenants (docs/adr/02).
MARK_PARTITIONS: Final = 16
_VERSION_BITS: Final = 62
_OF_KEYS: Final = "#keys"
_OF_TRUST: Final = "#trust"
_MARKS: Final = "srl-marks#"


@dataclass(frozen=True, slots=True)
class PublicationDeadline(Record):
    """The time to replace the SRL of a tenant, early enough for retries."""

    tenant_id: str
    srl_version: int
    due_at: datetime
    expires_at: datetime

    @classmethod
    def after_publication(cls, head: "SrlHead", tenant_id: str) -> "PublicationDeadline":
        """Return the deadline after a publication: at half of the SRL's lifetime."""
        return cls(tenant_id, head.version, _half_of(head), head.expires_at)

    def is_late(self, now: datetime) -> bool:
        """Return whether half of the time between `due_at` and `expires_at` has passed."""
        return now >= self.due_at + (self.expires_at - self.due_at) / 2

    @property
    def address(self) -> Address:
        """The address of the deadline: in order of time, with one address per SRL."""
        return TURNS.address(f"{times.format_utc(self.due_at)}#{self.tenant_id}#{self.srl_version}")


def new_version() -> int:
    """Return a random version for a mark, which differs if the mark is removed and set again."""
    return secrets.randbits(_VERSION_BITS)


@dataclass(frozen=True, slots=True)
class OutboxMark(Record):
    """An outbox mark on a tenant or a warrant.

    `version` is a new random number each time the mark is set or acknowledged. `seen_at` is when a
    worker first read a mark on a tenant. The change may not have been completely visible then, so
    the worker reads it again once it must be (SRL-12). `set_at` is when the warrant changed. Marks
    on tenants and of repairs lack it.
    """

    version: int
    seen_at: datetime | None = None
    set_at: datetime | None = None

    @classmethod
    def new(cls, *, seen_at: datetime | None = None, set_at: datetime | None = None) -> Self:
        """Return a mark with a new version."""
        return cls(new_version(), seen_at, set_at)

    def is_cooling_down(self, now: datetime) -> bool:
        """Return whether the mark is acknowledged, but too recently for the second read."""
        if self.seen_at is None or times.is_ahead(self.seen_at, now):
            return False
        return now < self.seen_at + IN_FLIGHT_MAX

    def is_settled(self, now: datetime) -> bool:
        """Return whether the acknowledgment is old enough that the change must be visible."""
        return self.seen_at is not None and not self.is_cooling_down(now)


@dataclass(frozen=True, slots=True)
class SignerOutboxMark(Record):
    """An outbox mark on revoked signers, as text, with warrants that the feed does not name yet.

    `set_at` is the revocation time, and `changes` are the identifiers of their keys. Marks of
    repairs have neither.
    """

    version: int
    signers: tuple[str, ...]
    set_at: datetime | None = None
    changes: tuple[str, ...] = field(default=(), metadata=SPARSE)


def due_by(head: "SrlHead", oldest_pending_at: datetime | None, now: datetime) -> datetime:
    """Return the latest start of the next SRL, if the scheduler runs every minute.

    It is due after half of its lifetime, when a change is pending, or immediately if it was issued
    in the future (SRL-11).
    """
    due_at = min(_half_of(head), oldest_pending_at or _half_of(head))
    return times.truncate_to_second(now if head.is_ahead(now) else due_at) + EVERY


def issue_address(head: "SrlHead", tenant_id: str) -> Address:
    """Return the address of the issue of an SRL. It contains all data, and the item is empty."""
    return ISSUES.address(f"{times.format_utc(head.issued_at)}#{tenant_id}#{head.version}")


def tenant_of(sk: str) -> str:
    """Return the tenant of a deadline or an issue, from its sort key."""
    return sk.split("#")[1]


def tenant_of_mark(sk: str) -> str:
    """Return the tenant of a mark, from its sort key."""
    return sk.partition("#")[0]


def upper_bound(moment: datetime) -> str:
    """Return a sort key after all deadlines, or issues, up to `moment`."""
    return f"{times.format_utc(moment)}~"


def mark_partitions() -> list[Partition]:
    """Return the partitions of the marks of all tenants."""
    return [_marks(number) for number in range(MARK_PARTITIONS)]


def is_mark(address: Address) -> bool:
    """Return whether this is the address of a mark on a tenant."""
    return address.table is Table.KEYS and address.pk.startswith(_MARKS)


def mark_range(tenant_id: str) -> tuple[str, str]:
    """Return two sort keys that enclose a tenant's marks in each partition."""
    return f"{tenant_id}#", f"{tenant_id}$"


def is_key_mark(mark: Address) -> bool:
    """Return whether a mark records a revoked, deleted or disabled key or account."""
    return mark.sk.endswith(_OF_KEYS)


def concerns_trust(sk: str) -> bool:
    """Return whether the mark with this sort key records a changed key or signer."""
    return sk.endswith((_OF_KEYS, _OF_TRUST))


def keys_mark_address(tenant_id: str) -> Address:
    """Return the address of the mark for a revoked, deleted or disabled key or account.

    There is one mark per tenant, because these changes update one counter of the tenant anyway.
    """
    number = revocations.shard_number(tenant_id) % MARK_PARTITIONS
    return _marks(number).address(f"{tenant_id}{_OF_KEYS}")


def trust_mark_address(tenant_id: str) -> Address:
    """Return the address of the mark for a new key, or for a change of the tenant's signers."""
    return keys_mark_address(tenant_id)._replace(sk=f"{tenant_id}{_OF_TRUST}")


def mark_address(tenant_id: str, warrant_id: str) -> Address:
    """Return the address of the tenant's mark for the revoked or unrevoked warrant.

    There is one mark per counter, so marks conflict only if counters do.
    """
    number = revocations.counter_number(warrant_id)
    return _marks(number % MARK_PARTITIONS).address(f"{tenant_id}#{number:02x}")


def warrant_marks(tenant_id: str) -> list[Partition]:
    """Return the partitions of warrants revoked or unrevoked since the tenant's last SRL."""
    return [_warrant_marks(tenant_id, number) for number in range(revocations.SHARDS)]


def warrant_mark_address(tenant_id: str, warrant_id: str) -> Address:
    """Return the address of the mark on a warrant that was revoked or unrevoked."""
    return _warrant_marks(tenant_id, revocations.shard_number(warrant_id)).address(warrant_id)


def signers_marks(tenant_id: str) -> Partition:
    """Return the partition of the tenant's marks on signers, one mark per write."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#srl-changed-signers")


def _half_of(head: "SrlHead") -> datetime:
    """Return when half of the lifetime of an SRL has passed."""
    return times.truncate_to_second(head.issued_at + (head.expires_at - head.issued_at) / 2)


def _marks(number: int) -> Partition:
    return Partition(Table.KEYS, f"{_MARKS}{number}")


def _warrant_marks(tenant_id: str, number: int) -> Partition:
    suffix = f"#{number:02x}" if number else ""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#srl-changed{suffix}")
