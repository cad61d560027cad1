"""Warrants that a key of this service signed (WARRANT-5)."""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from shared.model import times
from shared.model.items import Address, Item, Partition, Table
from shared.model.records import Record, moment
from shared.model.warrant_format import Format

# Of one key: enough for some hundred signatures a second, few enough to read them in one request.
COUNTERS: Final = 64
# Sorts after every moment.
_NEVER: Final = "~"


@dataclass(frozen=True, slots=True)
class Warrant(Record):
    """Which key signed a warrant, with which version of it, and when, as signed, it ends.

    `ends_at` is None if the signed bytes do not say an end that this service knows of.
    """

    warrant_id: str
    key_id: str
    key_version: int
    signed_at: datetime
    # Not `expires_at`: under that name there are moments in the store that nobody signed.
    ends_at: datetime | None


@dataclass(frozen=True, slots=True)
class Standing(Record):
    """All that is known of one warrant, in the one item that a check reads of it.

    Who signed it and in which format, if this service did; its own revocation, if it has one.
    `ends_at` is the end that was signed, `said_to_end_at` the one that the administrator gave with
    the revocation.
    """

    key_id: str | None = None
    key_version: int | None = None
    format: Format | None = None
    ends_at: datetime | None = None
    revocation_id: str | None = None
    revoked_at: datetime | None = None
    reason: str | None = None
    said_to_end_at: datetime | None = None
    version: int = 1

    @classmethod
    def of(cls, item: Item | None) -> "Standing":
        """What the item says; of an unknown warrant nothing is, under version 0."""
        return cls(version=0) if item is None else cls.from_item(item)

    @property
    def end(self) -> datetime | None:
        """When the warrant ends, if that is known: what was signed comes first."""
        return self.ends_at or self.said_to_end_at

    def revoked(
        self, revocation_id: str, *, at: datetime, reason: str, ends_at: datetime | None
    ) -> "Standing":
        """The same with a revocation of its own; `ends_at` is what the administrator said."""
        return replace(
            self,
            revocation_id=revocation_id,
            revoked_at=at,
            reason=reason,
            said_to_end_at=ends_at,
            version=self.version + 1,
        )

    def restored(self) -> "Standing":
        """The same without it."""
        return replace(
            self,
            revocation_id=None,
            revoked_at=None,
            reason=None,
            said_to_end_at=None,
            version=self.version + 1,
        )


def left_behind(ends_at: datetime | None, now: datetime, *, ttl: timedelta) -> bool:
    """Whether a warrant is known to have ended more than one list lifetime ago (SRL-9)."""
    # Taken from `now`: a warrant may end at the very end of the calendar.
    return ends_at is not None and ends_at < now - ttl


def warrant_address(tenant_id: str, warrant_id: str) -> Address:
    """Where the standing of a warrant is found."""
    return Address(Table.REVOCATIONS, f"{tenant_id}#warrant#{warrant_id}")


def signed_by(tenant_id: str, key_id: str) -> Partition:
    """What a key signed, in order of time."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#signed#{key_id}")


def by_end(tenant_id: str, key_id: str) -> Partition:
    """The same in order of when the warrants end; each item has its `key_version`."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#signed#{key_id}#by-end")


def by_end_sk(warrant_id: str, ends_at: datetime | None) -> str:
    """The place of a warrant among those of its key, in order of their ends."""
    return f"{_NEVER if ends_at is None else times.text(ends_at)}#{warrant_id}"


def of_by_end(sk: str) -> tuple[str, datetime | None]:
    """The warrant that `by_end_sk` made `sk` of, and its end. Raises `Corrupt`."""
    end, _, warrant_id = sk.partition("#")
    return warrant_id, None if end == _NEVER else moment(end, "by-end")


def is_by_end_address(tenant_id: str) -> Address:
    """Where it is noted that all that the tenant's keys signed is in order of ends too."""
    return Address(Table.KEYS, tenant_id, "signed-by-end")


def signed_counts(tenant_id: str, key_id: str) -> Partition:
    """How many warrants a key signed: `count`, and by version under `version_count`.

    The numbers are the sums of all items. One item of an earlier release has what was counted then.
    """
    return Partition(Table.REVOCATIONS, f"{tenant_id}#signed-count#{key_id}")


def signed_count_address(tenant_id: str, key_id: str, warrant_id: str) -> Address:
    """Where a warrant is counted among those that its key signed."""
    number = hashlib.sha256(warrant_id.encode()).digest()[0] % COUNTERS
    return signed_counts(tenant_id, key_id).address(f"{number:02x}")


def version_count(key_version: int) -> str:
    """The attribute that counts the warrants of one version."""
    return f"version.{key_version}"
