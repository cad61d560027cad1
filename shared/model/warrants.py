"""Warrants that a key of this service signed (decisions 3, sign)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared.model.items import Item, Key, Partition, Table
from shared.model.records import Record


@dataclass(frozen=True, slots=True)
class Warrant(Record):
    """Which key signed a warrant, with which version of it, and until when the warrant holds."""

    warrant_id: str
    key_id: str
    key_version: int
    signed_at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class Standing(Record):
    """All that is known of one warrant, in the one item that a check reads of it.

    Who signed it, where this service did, and its own revocation, where it has one.
    """

    key_id: str | None = None
    key_version: int | None = None
    expires_at: datetime | None = None
    revocation_id: str | None = None
    revoked_at: datetime | None = None
    reason: str | None = None
    version: int = 1

    @classmethod
    def of(cls, item: Item | None) -> "Standing":
        """What the item says; of an unknown warrant nothing is, under version 0."""
        return cls(version=0) if item is None else cls.from_item(item)

    def revoked(self, revocation_id: str, *, at: datetime, reason: str) -> "Standing":
        """The same with a revocation of its own."""
        return replace(
            self,
            revocation_id=revocation_id,
            revoked_at=at,
            reason=reason,
            version=self.version + 1,
        )

    def restored(self) -> "Standing":
        """The same without it."""
        return replace(
            self, revocation_id=None, revoked_at=None, reason=None, version=self.version + 1
        )


def left_behind(expires_at: datetime | None, now: datetime, *, ttl: timedelta) -> bool:
    """Whether a warrant is known to have expired more than one list lifetime ago."""
    # Taken from `now`: a warrant may expire at the very end of the calendar.
    return expires_at is not None and expires_at < now - ttl


def warrant_key(tenant_id: str, warrant_id: str) -> Key:
    """Where the standing of a warrant is found."""
    return Key(Table.REVOCATIONS, f"{tenant_id}#warrant#{warrant_id}")


def signed_by(tenant_id: str, key_id: str) -> Partition:
    """What a key signed, in order of time."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#signed#{key_id}")


def signed_count_key(tenant_id: str, key_id: str) -> Key:
    """How many warrants a key signed: `count`, and by version under `version_count`."""
    return Key(Table.REVOCATIONS, f"{tenant_id}#signed-count#{key_id}")


def version_count(key_version: int) -> str:
    """The attribute that counts the warrants of one version."""
    return f"version.{key_version}"
