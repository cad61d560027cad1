"""Which tenants' lists are due, found without looking at any other tenant (SRL-11, docs/adr/0016).

A *turn* says when a list is to be replaced; turns stand in order of time. A *mark* says that what
the tenant revoked has changed; it is written with the change, at most one a counter, and one for
its keys and accounts. A mark outlives the change by a while (docs/adr/0021). An *issue* says
when the list in force was issued, so that lists issued in the future are found (docs/adr/0020).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from shared.model import revocations, times
from shared.model.items import Address, Partition, Table
from shared.model.records import Record

if TYPE_CHECKING:
    from shared.model.srl.head import Head

# The next turn of every tenant, soonest first.
TURNS: Final = Partition(Table.KEYS, "srl-turns")

# When each tenant's list in force was issued, in order of that time.
ISSUES: Final = Partition(Table.KEYS, "srl-issues")

# A write that was acknowledged became visible whole in less than a minute; clocks may differ.
IN_FLIGHT_MAX: Final = times.CLOCK_TOLERANCE + timedelta(minutes=1)

# Few, since every tick reads them all; enough for the changes of all tenants (docs/adr/0037).
MARK_PARTITIONS: Final = 16
_OF_KEYS: Final = "#keys"


@dataclass(frozen=True, slots=True)
class Turn(Record):
    """When the list of a tenant is to be replaced, which leaves time to fail and retry."""

    tenant_id: str
    list_version: int
    due_at: datetime
    expires_at: datetime

    @classmethod
    def after(cls, head: "Head", tenant_id: str) -> "Turn":
        """The turn that follows a publication: half of the list's lifetime in."""
        lifetime = head.expires_at - head.issued_at
        due_at = times.whole(head.issued_at + lifetime / 2)
        return cls(tenant_id, head.version, due_at, head.expires_at)

    def is_late(self, now: datetime) -> bool:
        """Whether the list is older than it may be: half of the time for retries is gone."""
        return now >= self.due_at + (self.expires_at - self.due_at) / 2

    @property
    def address(self) -> Address:
        """Where the turn is stored: in order of time, and never where another list's turn is."""
        return TURNS.address(f"{times.text(self.due_at)}#{self.tenant_id}#{self.list_version}")


@dataclass(frozen=True, slots=True)
class Mark(Record):
    """A mark on a tenant. `version` is drawn anew whenever it is set or seen.

    `seen_at` is when a worker first found it. The change that it announces may have been in flight
    then, so there is another look at the tenant when that can no longer be.
    """

    version: int
    seen_at: datetime | None = None

    def waits(self, now: datetime) -> bool:
        """Whether it was seen, and it is not yet time for another look."""
        if self.seen_at is None or times.is_ahead(self.seen_at, now):
            return False
        return now < self.seen_at + IN_FLIGHT_MAX

    def is_over(self, now: datetime) -> bool:
        """Whether it was seen long enough ago for whatever it announces to be visible."""
        return self.seen_at is not None and not self.waits(now)


def issue_address(head: "Head", tenant_id: str) -> Address:
    """Where it is stored when the list of `head` was issued; the item itself says nothing more."""
    return ISSUES.address(f"{times.text(head.issued_at)}#{tenant_id}#{head.version}")


def tenant_of(sk: str) -> str:
    """Whose turn or issue it is, by its sort key."""
    return sk.split("#")[1]


def tenant_of_mark(sk: str) -> str:
    """Whose mark it is, by its sort key."""
    return sk.partition("#")[0]


def until(moment: datetime) -> str:
    """The sort key after that of every turn, or issue, until `moment`."""
    return f"{times.text(moment)}~"


def marks() -> list[Partition]:
    """The partitions that together hold the marks of all tenants."""
    return [_marks(number) for number in range(MARK_PARTITIONS)]


def around_marks_of(tenant_id: str) -> tuple[str, str]:
    """What the sort keys of a tenant's marks are between, in each of the partitions."""
    return f"{tenant_id}#", f"{tenant_id}$"


def is_of_keys(mark: Address) -> bool:
    """Whether a mark says that a key or an account was revoked, deleted or disabled."""
    return mark.sk.endswith(_OF_KEYS)


def keys_mark_address(tenant_id: str) -> Address:
    """Where to mark a tenant of whom a key or an account was revoked, deleted or disabled.

    These meet on a counter of the tenant's anyway.
    """
    number = revocations.shard_number(tenant_id) % MARK_PARTITIONS
    return _marks(number).address(f"{tenant_id}{_OF_KEYS}")


def mark_address(tenant_id: str, changed: str) -> Address:
    """Where to mark a tenant of whom the warrant `changed` was revoked or restored.

    One for each counter, so that marks meet only where counters do.
    """
    number = revocations.counter_number(changed)
    return _marks(number % MARK_PARTITIONS).address(f"{tenant_id}#{number:02x}")


def changed(tenant_id: str) -> list[Partition]:
    """Together, the warrants of a tenant that were revoked or restored since its list was made."""
    return [_changed(tenant_id, number) for number in range(revocations.SHARDS)]


def changed_address(tenant_id: str, warrant_id: str) -> Address:
    """Where to mark a warrant that was revoked or restored."""
    return _changed(tenant_id, revocations.shard_number(warrant_id)).address(warrant_id)


def _marks(number: int) -> Partition:
    return Partition(Table.KEYS, f"srl-marks#{number}")


def _changed(tenant_id: str, number: int) -> Partition:
    # The first is the one that all marks of earlier releases are in.
    suffix = f"#{number:02x}" if number else ""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#srl-changed{suffix}")
