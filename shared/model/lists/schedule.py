"""The items by which the schedule finds the tenants whose lists are due (SRL-11, docs/adr/11).

A *turn* is the time at which a list is to be replaced; turns are in order of time. A *mark* says
that the tenant's revocations have changed. It is written with the change: at most one per counter,
and one for keys and accounts. A mark is kept for some minutes after the change (docs/adr/02). An
*issue* says when the list in force was issued, so that lists issued in the future are found
(docs/adr/09).
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

# The next turn of each tenant, earliest first.
TURNS: Final = Partition(Table.KEYS, "srl-turns")

# The issue of each tenant's list in force, in order of time.
ISSUES: Final = Partition(Table.KEYS, "srl-issues")

# How often the schedule runs; an operator may have set two minutes (SRL-11).
EVERY: Final = timedelta(minutes=1)

# A write ends less than a minute after its first item is visible. Clocks may differ.
IN_FLIGHT_MAX: Final = times.CLOCK_TOLERANCE + timedelta(minutes=1)

# Each run of the schedule reads them all, so few; but enough for the changes of all tenants
# (docs/adr/02).
MARK_PARTITIONS: Final = 16
_VERSION_BITS: Final = 62
_OF_KEYS: Final = "#keys"
_OF_TRUST: Final = "#trust"
_MARKS: Final = "srl-marks#"


@dataclass(frozen=True, slots=True)
class PublicationDeadline(Record):
    """When the list of a tenant is to be replaced, early enough for retries."""

    tenant_id: str
    list_version: int
    due_at: datetime
    expires_at: datetime

    @classmethod
    def after_publication(cls, head: "SrlHead", tenant_id: str) -> "PublicationDeadline":
        """Return the turn after a publication: at half of the list's lifetime."""
        return cls(tenant_id, head.version, _half_of(head), head.expires_at)

    def is_late(self, now: datetime) -> bool:
        """Return whether half of the time between `due_at` and `expires_at` has passed."""
        return now >= self.due_at + (self.expires_at - self.due_at) / 2

    @property
    def address(self) -> Address:
        """Where the turn is stored: in order of time, with one address for each list."""
        return TURNS.address(
            f"{times.format_utc(self.due_at)}#{self.tenant_id}#{self.list_version}"
        )


def new_version() -> int:
    """Return a version of a mark: if it is removed and set again, it must be another one."""
    return secrets.randbits(_VERSION_BITS)


@dataclass(frozen=True, slots=True)
class OutboxMark(Record):
    """A mark on a tenant or a warrant.

    `version` is a new random number each time it is set or seen. `seen_at` is when a worker first
    read that on a tenant. The change may not have been visible as a whole then, so the worker looks
    again once it must be (SRL-12). `set_at` is when the warrant changed. Marks on tenants
    and of repairs do not have it.
    """

    version: int
    seen_at: datetime | None = None
    set_at: datetime | None = None

    @classmethod
    def new(cls, *, seen_at: datetime | None = None, set_at: datetime | None = None) -> Self:
        """Return a mark with a new version."""
        return cls(new_version(), seen_at, set_at)

    def is_cooling_down(self, now: datetime) -> bool:
        """Return whether the mark was seen and it is too early for the second look."""
        if self.seen_at is None or times.is_ahead(self.seen_at, now):
            return False
        return now < self.seen_at + IN_FLIGHT_MAX

    def is_settled(self, now: datetime) -> bool:
        """Return whether the mark was seen so long ago that its change must be visible."""
        return self.seen_at is not None and not self.is_cooling_down(now)


@dataclass(frozen=True, slots=True)
class SignerOutboxMark(Record):
    """A mark on revoked signers, as text, whose warrants the feed does not name yet.

    `set_at` is when they were revoked, and `changes` are the identifiers of their keys. Marks of
    repairs have neither.
    """

    version: int
    signers: tuple[str, ...]
    set_at: datetime | None = None
    changes: tuple[str, ...] = field(default=(), metadata=SPARSE)


def due_by(head: "SrlHead", oldest_pending_at: datetime | None, now: datetime) -> datetime:
    """Return by when the schedule begins the next list at the latest, if it runs each minute.

    It is due when half of its lifetime has passed, when a change waits, and at once if it was
    issued in the future (SRL-11).
    """
    due_at = min(_half_of(head), oldest_pending_at or _half_of(head))
    return times.truncate_to_second(now if head.is_ahead(now) else due_at) + EVERY


def issue_address(head: "SrlHead", tenant_id: str) -> Address:
    """Return the address of the issue of a list. The address holds all data; the item is empty."""
    return ISSUES.address(f"{times.format_utc(head.issued_at)}#{tenant_id}#{head.version}")


def tenant_of(sk: str) -> str:
    """Return the tenant of a turn or an issue, from its sort key."""
    return sk.split("#")[1]


def tenant_of_mark(sk: str) -> str:
    """Return the tenant of a mark, from its sort key."""
    return sk.partition("#")[0]


def upper_bound(moment: datetime) -> str:
    """Return a sort key that follows those of all turns, or issues, up to `moment`."""
    return f"{times.format_utc(moment)}~"


def mark_partitions() -> list[Partition]:
    """Return the partitions of the marks of all tenants."""
    return [_marks(number) for number in range(MARK_PARTITIONS)]


def is_mark(address: Address) -> bool:
    """Return whether this is the address of a mark on a tenant."""
    return address.table is Table.KEYS and address.pk.startswith(_MARKS)


def mark_range(tenant_id: str) -> tuple[str, str]:
    """Return two sort keys between which a tenant's marks are, in each of the partitions."""
    return f"{tenant_id}#", f"{tenant_id}$"


def is_key_mark(mark: Address) -> bool:
    """Return whether a mark says that a key or an account was revoked, deleted or disabled."""
    return mark.sk.endswith(_OF_KEYS)


def concerns_trust(sk: str) -> bool:
    """Return whether the mark with this sort key says that a key or a signer has changed."""
    return sk.endswith((_OF_KEYS, _OF_TRUST))


def keys_mark_address(tenant_id: str) -> Address:
    """Return the address of the mark for a revoked, deleted or disabled key or account.

    There is one for each tenant, because these changes update one counter of the tenant anyway.
    """
    number = revocations.shard_number(tenant_id) % MARK_PARTITIONS
    return _marks(number).address(f"{tenant_id}{_OF_KEYS}")


def trust_mark_address(tenant_id: str) -> Address:
    """Return the address of the mark for a new key, or for a change of the tenant's signers."""
    return keys_mark_address(tenant_id)._replace(sk=f"{tenant_id}{_OF_TRUST}")


def mark_address(tenant_id: str, warrant_id: str) -> Address:
    """Return the address of the tenant's mark for the revoked or restored warrant.

    There is one for each counter, so marks contend only if counters do.
    """
    number = revocations.counter_number(warrant_id)
    return _marks(number % MARK_PARTITIONS).address(f"{tenant_id}#{number:02x}")


def warrant_marks(tenant_id: str) -> list[Partition]:
    """Return the partitions of warrants revoked or restored since the tenant's last list."""
    return [_warrant_marks(tenant_id, number) for number in range(revocations.SHARDS)]


def warrant_mark_address(tenant_id: str, warrant_id: str) -> Address:
    """Return the address of the mark on a warrant that was revoked or restored."""
    return _warrant_marks(tenant_id, revocations.shard_number(warrant_id)).address(warrant_id)


def signers_marks(tenant_id: str) -> Partition:
    """Return the partition of the tenant's marks on signers, one for each write."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#srl-changed-signers")


def _half_of(head: "SrlHead") -> datetime:
    """Return when half of the lifetime of a list has passed."""
    return times.truncate_to_second(head.issued_at + (head.expires_at - head.issued_at) / 2)


def _marks(number: int) -> Partition:
    return Partition(Table.KEYS, f"{_MARKS}{number}")


def _warrant_marks(tenant_id: str, number: int) -> Partition:
    suffix = f"#{number:02x}" if number else ""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#srl-changed{suffix}")
