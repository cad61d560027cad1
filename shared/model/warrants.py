"""Warrants that a key of this service signed (decisions 3, sign)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from shared.model.items import Key, Partition, Table
from shared.model.records import Record


@dataclass(frozen=True, slots=True)
class Warrant(Record):
    """Which key signed a warrant, with which version of it, and until when the warrant holds."""

    warrant_id: str
    key_id: str
    key_version: int
    signed_at: datetime
    expires_at: datetime | None


def left_behind(expires_at: datetime | None, now: datetime, *, ttl: timedelta) -> bool:
    """Whether a warrant is known to have expired more than one list lifetime ago."""
    # Taken from `now`: a warrant may expire at the very end of the calendar.
    return expires_at is not None and expires_at < now - ttl


def warrant_key(tenant_id: str, warrant_id: str) -> Key:
    """Where a signed warrant is found by its identifier."""
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
