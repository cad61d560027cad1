"""Warrants that a key of this service signed (WARRANT-5)."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from shared.model import times
from shared.model.items import Address, Item, Partition, Table
from shared.model.records import Record, moment
from shared.model.warrant_format import WarrantFormat

# Counters per key: enough for several hundred signatures a second, and few enough to read them in
# one request.
COUNTERS: Final = 64
_STANDINGS: Final = "#warrant#"
# Sorts after every moment.
_NEVER: Final = "~"


@dataclass(frozen=True, slots=True)
class WarrantRecord(Record):
    """The key and the version that signed a warrant, the time, and the signed end.

    `ends_at` is None if the signed bytes have no end that this service can read.
    """

    warrant_id: str
    key_id: str
    key_version: int
    signed_at: datetime
    ends_at: datetime | None


class OtherMaker(StrEnum):
    """Another one that revoked a warrant: a key of the same identity, or an identity."""

    KEY = "key"
    IDENTITY = "identity"


@dataclass(frozen=True, slots=True)
class WarrantState(Record):
    """Everything that is stored about one warrant, in the one item that a check reads.

    `key_id`, `key_version` and `format` are set if this service signed the warrant;
    `revocation_id`, `revoked_at` and `reason` if it has a revocation of its own. `ends_at` is the
    signed end. `said_to_end_at` is the end that was given with the revocation.
    `also_by` is who revoked the warrant again, if another one than the maker did (APPROVAL-1).
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
        """Return the standing in an item. An unknown warrant has an empty one with version 0."""
        return cls(version=0) if item is None else cls.from_item(item)

    @property
    def end(self) -> datetime | None:
        """When the warrant ends, if that is known. The signed end takes precedence."""
        return self.ends_at or self.said_to_end_at

    def with_revocation(
        self, revocation_id: str, *, at: datetime, reason: str, ends_at: datetime | None
    ) -> "WarrantState":
        """Return the standing with a revocation; `ends_at` is the end that was given with it."""
        return replace(
            self,
            revocation_id=revocation_id,
            revoked_at=at,
            reason=reason,
            said_to_end_at=ends_at,
            version=self.version + 1,
        )

    def is_extended_by(self, expires_at: datetime | None) -> bool:
        """Return whether a second revocation, with the end `expires_at`, extends the first one.

        It does if the first one was given an end, and `expires_at` is later or there is none. A
        signed end is not extended.
        """
        given = self.said_to_end_at
        return (
            self.ends_at is None
            and given is not None
            and (expires_at is None or expires_at > given)
        )

    def revoke_again(self, expires_at: datetime | None, other: OtherMaker | None) -> "WarrantState":
        """Return the standing after a second revocation; this one if that changes nothing.

        `expires_at` is its end, and `other` is who made it, if not the maker of the first one.
        """
        ends_at = expires_at if self.is_extended_by(expires_at) else self.said_to_end_at
        is_known = other is None or self.also_by in (OtherMaker.IDENTITY, other)
        also_by = self.also_by if is_known else other
        if (ends_at, also_by) == (self.said_to_end_at, self.also_by):
            return self
        version = self.version + 1
        return replace(self, said_to_end_at=ends_at, also_by=also_by, version=version)

    def without_revocation(self) -> "WarrantState":
        """Return the standing without a revocation."""
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
    """Return whether a warrant is known to have ended more than one list lifetime ago (SRL-9)."""
    # `ends_at + ttl` could overflow: a warrant may end in the year 9999.
    return ends_at is not None and ends_at < now - ttl


def warrant_address(tenant_id: str, warrant_id: str) -> Address:
    """Return the address of the standing of a warrant."""
    return Address(Table.REVOCATIONS, f"{tenant_id}{_STANDINGS}{warrant_id}")


def of_warrant_address(address: Address) -> tuple[str, str] | None:
    """Return tenant and warrant of a standing's address; None if another item is there."""
    tenant_id, is_standing, warrant_id = address.pk.partition(_STANDINGS)
    return (tenant_id, warrant_id) if is_standing else None


def signed_by(tenant_id: str, key_id: str) -> Partition:
    """Return the partition of the warrants that a key signed, in order of time."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#signed#{key_id}")


def by_end(tenant_id: str, key_id: str) -> Partition:
    """Return the partition of the same warrants in order of end; items have `key_version`."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#signed#{key_id}#by-end")


def by_end_sk(warrant_id: str, ends_at: datetime | None) -> str:
    """Return the sort key of a warrant in the partition `by_end`."""
    return f"{_NEVER if ends_at is None else times.format_utc(ends_at)}#{warrant_id}"


def of_by_end(sk: str) -> tuple[str, datetime | None]:
    """Return the warrant and its end from a sort key that `by_end_sk` made.

    Raises `DataCorrupt`.
    """
    end, _, warrant_id = sk.partition("#")
    return warrant_id, None if end == _NEVER else moment(end, "by-end")


def is_by_end_address(tenant_id: str) -> Address:
    """Return the address of the note that all of a tenant's signed warrants are in `by_end` too."""
    return Address(Table.KEYS, tenant_id, "signed-by-end")


def signed_counts(tenant_id: str, key_id: str) -> Partition:
    """Return the partition of counts of a key's warrants: `count`, and `version_count`."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#signed-count#{key_id}")


def signed_count_address(tenant_id: str, key_id: str, warrant_id: str) -> Address:
    """Return the address of the item that counts a warrant among those of its key."""
    number = hashlib.sha256(warrant_id.encode()).digest()[0] % COUNTERS
    return signed_counts(tenant_id, key_id).address(f"{number:02x}")


def version_count(key_version: int) -> str:
    """Return the attribute that counts the warrants of one version."""
    return f"version.{key_version}"


def signed_count_name(key_version: int | None) -> str:
    """Return the attribute that counts the warrants of one version, or of all if it is None."""
    return "count" if key_version is None else version_count(key_version)
