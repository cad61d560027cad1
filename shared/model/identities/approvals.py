"""Protected actions, which need a second person's approval, and approvals (APPROVAL-1)."""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Self

from shared.model import times
from shared.model.identities.people import Person
from shared.model.items import Address, Partition, Table, Value
from shared.model.records import SPARSE, Record, integer

# How long a request waits for a decision, how long an approval can be used, and how long both are
# listed.
WAITS: Final = timedelta(hours=24)
USABLE: Final = timedelta(hours=1)
LISTED: Final = timedelta(days=30)
# How long sessions that began after a change of a trust anchor cannot approve.
COOLING_OFF: Final = timedelta(hours=24)
# Maximum number of undecided requests: per person, and per tenant.
PENDING_MAX: Final = 20
PENDING_OF_TENANT_MAX: Final = 100
UNREVOKE_THRESHOLD_MAX: Final = 1_000_000

_HOUR: Final = 3600
_MINUTE: Final = 60


class ProtectedAction(StrEnum):
    """An action that may need an approval."""

    UNREVOKE = "revocations.unrevoke"
    UNREVOKE_OTHERS = "revocations.unrevoke_others"
    FORCE_SIGNER = "srl_signers.force_activate"
    REMOVE_TENANT = "tenant.remove"
    CREATE_ADMIN_KEY = "admin_keys.create"
    CHANGE_ACCESS = "access.change"
    WEAKEN_SETTINGS = "settings.weaken"
    REVOKE_ROOT = "signing_keys.revoke_root"
    ROTATE_STATUS_SIGNER = "status_signer.rotate"


# Why an action is not protected by its name.
_UNNAMED: Final = {
    ProtectedAction.UNREVOKE: (
        "set unrevoke_threshold (--unrevoke-threshold) to protect revocations.unrevoke"
    ),
    ProtectedAction.CHANGE_ACCESS: (
        "omit access.change, which is implied if any action is protected"
    ),
}


class ApprovalStatus(StrEnum):
    """The decision on an approval. The last two values are derived and not stored."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    USED = "used"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class ProtectedActions(Record):
    """The protected actions of a tenant.

    Unrevoking more than `unrevoke_threshold` warrants per hour needs an approval. None means no
    limit. If any action is protected, so are changes of access: this record, identity providers,
    roles, and enabling of disabled people.
    """

    actions: tuple[ProtectedAction, ...] = ()
    unrevoke_threshold: int | None = None
    version: int = 0

    @property
    def protects(self) -> bool:
        """Whether any action is protected."""
        return bool(self.actions) or self.unrevoke_threshold is not None

    def has(self, action: ProtectedAction) -> bool:
        """Return whether an action may need an approval."""
        if action is ProtectedAction.UNREVOKE:
            return self.unrevoke_threshold is not None
        return self.protects if action is ProtectedAction.CHANGE_ACCESS else action in self.actions


@dataclass(frozen=True, slots=True)
class UnrevokeUsage(Record):
    """The number of warrants unrevoked without an approval, by minute since 1970."""

    minutes: dict[str, Value] = field(default_factory=dict)
    version: int = 0

    def within_hour(self, now: datetime) -> int:
        """Return a lower bound for the hour before `now`. Raises `DataCorrupt`."""
        return sum(integer(self.minutes, each) for each in _recent(self.minutes, now))

    def plus(self, number: int, now: datetime) -> Self:
        """Return the record with `number` more. Raises `DataCorrupt`."""
        minute = str(int(now.timestamp()) // _MINUTE)
        kept: dict[str, Value] = {each: self.minutes[each] for each in _recent(self.minutes, now)}
        counted = integer(kept, minute) if minute in kept else 0
        return replace(self, minutes=kept | {minute: counted + number}, version=self.version + 1)


def _recent(minutes: dict[str, Value], now: datetime) -> list[str]:
    """Return the minutes that end after the beginning of the hour before `now`."""
    begin = now.timestamp() - _HOUR
    return [each for each in minutes if (int(each) + 1) * _MINUTE > begin]


@dataclass(frozen=True, slots=True)
class Approval(Record):
    """A request to perform an action `count` times, and a second person's decision.

    `requested_by` and `decided_by` are identities, with the identifier of the person, if any.
    `requested_by_epoch` and `decided_by_epoch` are the epochs of these people. A single action is
    bound to its `request`: method, path, and SHA-256 of the body. For unrevoking, `subject` is one
    revocation or a manifest (REVOKE-26). `details` contain the difference to the existing record.
    `record_version` is the version of this record, or 0 without one. `expires_at` is the end of the
    wait, or of the use. The store removes the item some time after `expires`, in seconds since the
    epoch.
    """

    id: str
    tenant_id: str
    action: ProtectedAction
    subject: str
    count: int
    remaining: int
    reason: str
    requested_by: str
    created_at: datetime
    expires_at: datetime
    expires: int
    details: dict[str, Value]
    requested_by_id: str | None = None
    request: dict[str, Value] | None = None
    status: ApprovalStatus = ApprovalStatus.PENDING
    decided_by: str | None = None
    decided_by_id: str | None = None
    decided_at: datetime | None = None
    record_version: int = field(default=0, metadata=SPARSE)
    decided_by_epoch: int = field(default=0, metadata=SPARSE)
    requested_by_epoch: int = field(default=0, metadata=SPARSE)
    version: int = 1

    @property
    def address(self) -> Address:
        """The address of the approval."""
        return approvals(self.tenant_id).address(self.id)

    def has_ended(self, now: datetime, barrier: datetime | None, by: Person | None) -> bool:
        """Return whether it has expired, or precedes the tenant's `barrier`.

        It also ends if the requester `by` was disabled or signed out since.
        """
        is_before = barrier is not None and self.created_at <= barrier
        is_left = by is not None and by.epoch != self.requested_by_epoch
        return is_before or is_left or times.has_passed(self.expires_at, now)

    def decide(self, status: ApprovalStatus, by: str, person: Person | None, now: datetime) -> Self:
        """Return the approval with the decision of a person or the operator at `now`."""
        is_approved = status is ApprovalStatus.APPROVED
        return replace(
            self,
            status=status,
            decided_by=by,
            decided_by_id=person.id if person else None,
            decided_by_epoch=person.epoch if person else 0,
            decided_at=now,
            expires_at=times.truncate_to_second(now + USABLE) if is_approved else self.expires_at,
            version=self.version + 1,
        )

    def use(self, number: int) -> Self:
        """Return the approval after `number` more actions."""
        return replace(self, remaining=self.remaining - number, version=self.version + 1)


def protectable(action: ProtectedAction) -> ProtectedAction:
    """Return `action`. Raises `ValueError` if it is not protected by its name."""
    if action in _UNNAMED:
        raise ValueError(_UNNAMED[action])
    return action


def approvals(tenant_id: str) -> Partition:
    """Return the partition of a tenant's approvals, in order of their requests."""
    return Partition(Table.KEYS, f"{tenant_id}#approvals")


def protected_address(tenant_id: str) -> Address:
    """Return the address of a tenant's `ProtectedActions`."""
    return Address(Table.KEYS, tenant_id, "protected-acts")


def restores_address(tenant_id: str) -> Address:
    """Return the address of a tenant's `UnrevokeUsage`."""
    # A separate partition, so that an IAM policy can allow counting without access to settings.
    return Address(Table.KEYS, f"{tenant_id}#restores")
