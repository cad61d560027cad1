"""API keys and signing keys that expire soon (APIKEY-11)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from shared.model.items import Address, Partition, Table
from shared.model.records import Record

# A key is announced this many days before its expiry. The last announcement is first.
DAYS: Final = (1, 7, 30)


class ExpiringKind(StrEnum):
    """The kinds of keys that expire."""

    API_KEY = "api_key"
    SIGNING_KEY = "key"


@dataclass(frozen=True, slots=True)
class ExpiringKey:
    """A key that expires within `days` days, the smallest applicable number of `DAYS`."""

    kind: ExpiringKind
    id: str
    name: str
    expires_at: datetime
    days: int


@dataclass(frozen=True, slots=True)
class ExpiryNotice(Record):
    """The record that a key was announced. The store deletes it some time after `expires`.

    `expires` is the expiry of the key in seconds since the epoch.
    """

    expires: int


def days_left(created_at: datetime, expires_at: datetime | None, now: datetime) -> int | None:
    """Return the smallest number of `DAYS` within which a key expires, or None.

    A number applies only if the total lifetime of the key is longer, because a key created for an
    hour needs no warning. Returns None for a key that has expired or does not expire.
    """
    if expires_at is None or expires_at <= now:
        return None
    counting = [days for days in DAYS if expires_at - created_at > timedelta(days=days)]
    return next((days for days in counting if expires_at - now <= timedelta(days=days)), None)


def notices(tenant_id: str) -> Partition:
    """Return the partition of a tenant's notices, by key and days."""
    return Partition(Table.KEYS, f"{tenant_id}#expiring")


def notice_address(tenant_id: str, key: ExpiringKey) -> Address:
    """Return the address of the notice about `key`."""
    return notices(tenant_id).address(f"{key.id}#{key.days}")
