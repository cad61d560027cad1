"""Tenants. Each has separate keys and revocations."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Self

from shared.model.items import Address, Item, Partition, Table
from shared.model.rate_limit import BURST, RATE_PER_SECOND
from shared.model.records import SPARSE, Record

SRL_TTL_SECONDS_MIN: Final = 300
SRL_TTL_SECONDS_MAX: Final = 604_800
SRL_TTL_SECONDS_DEFAULT: Final = 3600
ROTATION_GRACE_SECONDS_MIN: Final = 0
ROTATION_GRACE_SECONDS_MAX: Final = 604_800
AUDIT_RETENTION_DAYS_MIN: Final = 30
AUDIT_RETENTION_DAYS_MAX: Final = 3650
AUDIT_RETENTION_DAYS_DEFAULT: Final = 400
FEED_WINDOW_MS_MIN: Final = 0
FEED_WINDOW_MS_MAX: Final = 60_000
FEED_WINDOW_MS_DEFAULT: Final = 500
PERSON_KEY_MAX_DAYS_MIN: Final = 1
PERSON_KEY_MAX_DAYS_MAX: Final = 3650
PERSON_KEY_MAX_DAYS_DEFAULT: Final = 365
# Maximum lifetime of a key with the scope `admin` that a person creates.
PERSON_ADMIN_KEY_MAX_DAYS: Final = 90
UNUSED_KEY_DAYS_MIN: Final = 7
UNUSED_KEY_DAYS_MAX: Final = 3650
AUTHORIZERS_MAX_MIN: Final = 1
AUTHORIZERS_MAX_MAX: Final = 20_000
AUTHORIZERS_MAX_DEFAULT: Final = 200

_BLOBS: Final = ("srl", "native", "audit", "checkpoints", "journal", "trust", "status")


class SrlPublicationPolicy(StrEnum):
    """When SRLs are published: only on schedule, or also after each feed entry."""

    SCHEDULED = "scheduled"
    IMMEDIATE = "immediate"


class UnrevokePolicy(StrEnum):
    """The revocations that a caller without the scope `admin` may remove: any, or only its own."""

    ANY = "any"
    OWN = "own"


@dataclass(frozen=True, slots=True)
class TenantSettings(Record):
    """A tenant's settings. The operator chooses `handle`, and may change it (docs/adr/05).

    The operator may remove the tenant from `delete_after` on, or not at all if it is None.
    `rotation_grace_seconds` is None until it is set, which means one SRL lifetime. Keys unused for
    `unused_key_days` are revoked, unless it is 0.
    """

    tenant_id: str
    handle: str
    name: str
    srl_ttl_seconds: int
    audit_retention_days: int
    created_at: datetime
    version: int = 1
    rotation_grace_seconds: int | None = None
    feed_window_ms: int = FEED_WINDOW_MS_DEFAULT
    srl_publication: SrlPublicationPolicy = SrlPublicationPolicy.SCHEDULED
    delete_after: datetime | None = None
    max_authorizers: int = AUTHORIZERS_MAX_DEFAULT
    unrevoke_policy: UnrevokePolicy = UnrevokePolicy.OWN
    person_key_max_days: int = PERSON_KEY_MAX_DAYS_DEFAULT
    unused_key_days: int = 0

    @classmethod
    def initial(cls, tenant_id: str, handle_: str, created_at: datetime) -> Self:
        """Return the settings of a new tenant. Its name is its handle."""
        ttl, retention = SRL_TTL_SECONDS_DEFAULT, AUDIT_RETENTION_DAYS_DEFAULT
        return cls(tenant_id, handle_, handle_, ttl, retention, created_at)

    @property
    def rate_limit_per_second(self) -> int:
        """The requests per second that the tenant's bucket allows."""
        return RATE_PER_SECOND

    @property
    def rate_limit_burst(self) -> int:
        """The requests that a full bucket allows at once."""
        return BURST

    @property
    def srl_ttl(self) -> timedelta:
        """The lifetime of a published SRL."""
        return timedelta(seconds=self.srl_ttl_seconds)

    @property
    def rotation_grace(self) -> timedelta:
        """How long an SRL signer is pending before it may be activated without force."""
        seconds = self.rotation_grace_seconds
        return self.srl_ttl if seconds is None else timedelta(seconds=seconds)

    @property
    def feed_window(self) -> timedelta:
        """The publication window: the minimum interval between two feed entries."""
        return timedelta(milliseconds=self.feed_window_ms)

    @property
    def audit_retention(self) -> timedelta:
        """How long an audit entry is kept."""
        return timedelta(days=self.audit_retention_days)

    def weakens(self, old: Self) -> bool:
        """Return whether these settings protect less than the `old` ones (APPROVAL-1)."""
        return any(of(self) > of(old) for of in WEAKNESS.values())

    @property
    def address(self) -> Address:
        """The address of the settings."""
        return settings_address(self.tenant_id)


# For each setting that a tenant may change, a number that increases with weaker protection.
WEAKNESS: Final[Mapping[str, Callable[[TenantSettings], float]]] = {
    "name": lambda _: 0,
    "srl_ttl_seconds": lambda each: each.srl_ttl_seconds,
    "audit_retention_days": lambda each: -each.audit_retention_days,
    # Also covers a grace period that follows the SRL lifetime.
    "rotation_grace_seconds": lambda each: -each.rotation_grace.total_seconds(),
    "feed_window_ms": lambda each: each.feed_window_ms,
    "srl_publication": lambda each: each.srl_publication is SrlPublicationPolicy.SCHEDULED,
    "max_authorizers": lambda _: 0,
    "unrevoke_policy": lambda each: each.unrevoke_policy is UnrevokePolicy.ANY,
    "person_key_max_days": lambda each: each.person_key_max_days,
    "unused_key_days": lambda each: each.unused_key_days or math.inf,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChange:
    """New values of the settings that a tenant may change. None keeps a setting."""

    name: str | None = None
    srl_ttl_seconds: int | None = None
    audit_retention_days: int | None = None
    rotation_grace_seconds: int | None = None
    feed_window_ms: int | None = None
    srl_publication: SrlPublicationPolicy | None = None
    max_authorizers: int | None = None
    unrevoke_policy: UnrevokePolicy | None = None
    person_key_max_days: int | None = None
    unused_key_days: int | None = None

    def changed_values(self, settings: TenantSettings) -> dict[str, Any]:
        """Return the new values that differ from `settings`, by name."""
        values = asdict(self).items()
        return {name: new for name, new in values if new not in (None, getattr(settings, name))}


@dataclass(frozen=True, slots=True)
class DirectoryEntry(Record):
    """A tenant in the operator's directory.

    `removal_began` is true from the first step of a removal. The removal is then irreversible.
    """

    tenant_id: str
    handle: str
    created_at: datetime
    removal_began: bool = field(default=False, metadata=SPARSE)

    @property
    def address(self) -> Address:
        """The address of the entry."""
        return DIRECTORY.address(self.tenant_id)


# All tenants, in order of creation.
DIRECTORY: Final = Partition(Table.KEYS, "tenants")


def settings_address(tenant_id: str) -> Address:
    """Return the address of a tenant's settings."""
    return Address(Table.KEYS, tenant_id, "settings")


def handle_address(value: str) -> Address:
    """Return the address of the item that reserves a handle for a tenant identifier."""
    return Address(Table.KEYS, f"tenant-handle#{value}")


def is_of(tenant_id: str, address: Address, item: Item) -> bool:
    """Return whether the address or the content of an item names the tenant."""
    named = {*address.pk.split("#"), *address.sk.split("#")}
    return tenant_id in named or item.get("tenant_id") == tenant_id


def blob_folders(tenant_id: str) -> tuple[str, ...]:
    """Return the folders that contain all blobs of a tenant."""
    return tuple(f"{kind}/{tenant_id}" for kind in _BLOBS)
