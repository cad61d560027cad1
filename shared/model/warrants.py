"""Warrants signed with a key of this service (WARRANT-5)."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from shared.model import times
from shared.model.items import Address, Item, Partition, Table
from shared.model.records import Record, moment
from shared.model.warrant_format import WarrantFormat

# Counters per key: enough for several hundred signatures per second, and few enough to read in one
# request.
COUNTERS: Final = 64
_STANDINGS: Final = "#warrant#"
# Sorts after every time.
_NEVER: Final = "~"


@dataclass(frozen=True, slots=True)
class WarrantRecord(Record):
    """The key and the version that signed a warrant, the time, and the signed expiry.

    `ends_at` is None if the signed bytes have no expiry that this service can read.
    """

    warrant_id: str
    key_id: str
    key_version: int
    signed_at: datetime
    ends_at: datetime | None


class OtherMaker(StrEnum):
    """How a second revoker differs from the first: another key, or another identity."""

    KEY = "key"
    IDENTITY = "identity"


@dataclass(frozen=True, slots=True)
class WarrantState(Record):
    """The state of one warrant, in the single item that a check reads.

    `key_id`, `key_version` and `format` are set if this service signed the warrant.
    `revocation_id`, `revoked_at` and `reason` are set if the warrant itself is revoked. `ends_at`
    is the signed expiry. `said_to_end_at` is the expiry given with the revocation. `also_by` is set
    if a different maker revoked the warrant again (APPROVAL-1).
    """

    key_id: str | None = None
    key_version: int | None = None
    format: WarrantFormat | None = None
    ends_at: datetime | None = None
    revocation_id: str | None = None
    revoked_at: datetime | None = None
    reason: str | None = None
    said_to_end_at: datetime | None = None
    also_by: OtherMaker | None = None
    version: int = 1

    @classmethod
    def of(cls, item: Item | None) -> "WarrantState":
        """Return the state in an item. An unknown warrant has an empty state with version 0."""
        return cls(version=0) if item is None else cls.from_item(item)

    @property
    def end(self) -> datetime | None:
        """The expiry of the warrant, if known. The signed expiry takes precedence."""
        return self.ends_at or self.said_to_end_at

    def with_revocation(
        self, revocation_id: str, *, at: datetime, reason: str, ends_at: datetime | None
    ) -> "WarrantState":
        """Return the state with a revocation. `ends_at` is the expiry given with the revocation."""
        return replace(
            self,
            revocation_id=revocation_id,
            revoked_at=at,
            reason=reason,
            said_to_end_at=ends_at,
            version=self.version + 1,
        )

    def is_extended_by(self, expires_at: datetime | None) -> bool:
        """Return whether a second revocation with expiry `expires_at` extends the first one.

        It does if the first revocation has an expiry, and `expires_at` is later or None. A signed
        expiry is never extended.
        """
        given = self.said_to_end_at
        return (
            self.ends_at is None
            and given is not None
            and (expires_at is None or expires_at > given)
        )

    def revoke_again(self, expires_at: datetime | None, other: OtherMaker | None) -> "WarrantState":
        """Return the state after a second revocation, or this state if it is unchanged.

        `expires_at` is its expiry. `other` is its maker, if different from the first maker.
        """
        ends_at = expires_at if self.is_extended_by(expires_at) else self.said_to_end_at
        is_known = other is None or self.also_by in (OtherMaker.IDENTITY, other)
        also_by = self.also_by if is_known else other
        if (ends_at, also_by) == (self.said_to_end_at, self.also_by):
            return self
        version = self.version + 1
        return replace(self, said_to_end_at=ends_at, also_by=also_by, version=version)

    def without_revocation(self) -> "WarrantState":
        """Return the state without a revocation."""
        return replace(
            self,
            revocation_id=None,
            revoked_at=None,
            reason=None,
            said_to_end_at=None,
            also_by=None,
            version=self.version + 1,
        )


def is_past_retention(ends_at: datetime | None, now: datetime, *, ttl: timedelta) -> bool:
    """Return whether a warrant is known to be past retention (SRL-9).

    It then expired more than one SRL lifetime ago.
    """
    # `ends_at + ttl` could overflow, because a warrant may expire in the year 9999.
    return ends_at is not None and ends_at < now - ttl


def warrant_address(tenant_id: str, warrant_id: str) -> Address:
    """Return the address of the state of a warrant."""
    return Address(Table.REVOCATIONS, f"{tenant_id}{_STANDINGS}{warrant_id}")


def of_warrant_address(address: Address) -> tuple[str, str] | None:
    """Return the tenant and warrant of a warrant state's address; None for other items."""
    tenant_id, is_standing, warrant_id = address.pk.partition(_STANDINGS)
    return (tenant_id, warrant_id) if is_standing else None


def signed_by(tenant_id: str, key_id: str) -> Partition:
    """Return the partition of the warrants that a key signed, in order of time."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#signed#{key_id}")


def by_end(tenant_id: str, key_id: str) -> Partition:
    """Return the partition of the same warrants in order of expiry. Items have `key_version`."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#signed#{key_id}#by-end")


def by_end_sk(warrant_id: str, ends_at: datetime | None) -> str:
    """Return the sort key of a warrant in the partition `by_end`."""
    return f"{_NEVER if ends_at is None else times.format_utc(ends_at)}#{warrant_id}"


def of_by_end(sk: str) -> tuple[str, datetime | None]:
    """Return the warrant and its expiry from a sort key of `by_end_sk`.

    Raises `DataCorrupt`.
    """
    end, _, warrant_id = sk.partition("#")
    return warrant_id, None if end == _NEVER else moment(end, "by-end")


def is_by_end_address(tenant_id: str) -> Address:
    """Return the address of the marker for a complete `by_end` index of a tenant."""
    return Address(Table.KEYS, tenant_id, "signed-by-end")


def signed_counts(tenant_id: str, key_id: str) -> Partition:
    """Return the partition of counts of a key's warrants: `count`, and `version_count`."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#signed-count#{key_id}")


def signed_count_address(tenant_id: str, key_id: str, warrant_id: str) -> Address:
    """Return the address of the item that counts a warrant for its key."""
    number = hashlib.sha256(warrant_id.encode()).digest()[0] % COUNTERS
    return signed_counts(tenant_id, key_id).address(f"{number:02x}")


def version_count(key_version: int) -> str:
    """Return the attribute that counts the warrants of one version."""
    return f"version.{key_version}"


def signed_count_name(key_version: int | None) -> str:
    """Return the attribute that counts the warrants of one version, or of all if it is None."""
    return "count" if key_version is None else version_count(key_version)
