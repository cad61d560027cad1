"""Signing keys: what signs warrants (KEY-3, KEY-6)."""

import base64
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from shared.model import seeds, times
from shared.model.items import Address, Partition, Table
from shared.model.records import Record
from shared.model.seeds import Purpose

# Active and suspended keys of a tenant; revoked and superseded ones do not count.
KEYS_MAX: Final = 5000
# Each signature reads them all.
ANCESTORS_MAX: Final = 32


class Type(StrEnum):
    """The place of a signing key among others: at the top, or below a root or an issuer."""

    ROOT = "root"
    ISSUER = "issuer"
    NOTARY = "notary"


class Status(StrEnum):
    """The state of a signing key, or of a superseded version of one."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    ROTATED = "rotated"
    REVOKED = "revoked"


# The types that a parent may have; a type without any has no parent.
PARENTS: Final[dict[Type, frozenset[Type]]] = {
    Type.ROOT: frozenset(),
    Type.ISSUER: frozenset({Type.ROOT, Type.ISSUER}),
    Type.NOTARY: frozenset({Type.ROOT, Type.ISSUER}),
}

# The states that a transition may start from, by the state that it leads to. Rotating leads an
# active key to itself, and its superseded version to `rotated`.
TRANSITIONS: Final[dict[Status, frozenset[Status]]] = {
    Status.ROTATED: frozenset({Status.ACTIVE}),
    Status.SUSPENDED: frozenset({Status.ACTIVE}),
    Status.ACTIVE: frozenset({Status.SUSPENDED}),
    Status.REVOKED: frozenset({Status.ACTIVE, Status.SUSPENDED, Status.ROTATED}),
}


@dataclass(frozen=True, slots=True)
class SigningKey(Record):
    """A key, or a superseded version of one.

    `public_key` is base64 of the 32 raw bytes. `sealed_seed` is bound to tenant and key; a version
    that was superseded has none, and `current_id` names the key that it was. `ancestors` are
    parent, parent's parent and so on. `key_version` counts rotations from 1, `version` changes.
    """

    id: str
    tenant_id: str
    type: Type
    name: str
    status: Status
    parent_id: str | None
    ancestors: tuple[str, ...]
    public_key: str
    created_at: datetime
    version_created_at: datetime
    expires_at: datetime | None
    sealed_seed: bytes | None = field(repr=False)
    key_version: int = 1
    current_id: str | None = None
    rotated_at: datetime | None = None
    suspended_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_reason: str | None = None
    version: int = 1

    @property
    def address(self) -> Address:
        """Where the record is stored."""
        return keys(self.tenant_id).address(self.id)

    @property
    def seal_context(self) -> dict[str, str]:
        """What the sealed seed of this version is bound to."""
        return seeds.seal_context(
            self.tenant_id, self.id, purpose=Purpose.WARRANT, version=self.key_version
        )

    @property
    def public_bytes(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return base64.b64decode(self.public_key)

    @property
    def signer(self) -> "Signer":
        """As what this key signed: a key by every version of it, a superseded version by itself."""
        if self.current_id is None:
            return Signer(self.id, None)
        return Signer(self.current_id, self.key_version)

    @property
    def superseded_at(self) -> datetime | None:
        """When this version was superseded; None for the one in use, whenever it came."""
        return None if self.current_id is None else self.rotated_at

    def has_expired(self, now: datetime) -> bool:
        """Whether `expires_at` has been reached; that changes no status, but ends signing."""
        return times.has_passed(self.expires_at, now)

    def suspended(self, now: datetime) -> "SigningKey":
        """The key, disabled for a time."""
        return self._changed(status=Status.SUSPENDED, suspended_at=now)

    def enabled(self) -> "SigningKey":
        """The key, back in use."""
        return self._changed(status=Status.ACTIVE, suspended_at=None)

    def revoked(self, now: datetime, *, reason: str) -> "SigningKey":
        """The key, revoked for good."""
        return self._changed(status=Status.REVOKED, revoked_at=now, revoked_reason=reason)

    def rotated(self, now: datetime, *, public_key: str, sealed_seed: bytes) -> "SigningKey":
        """The key under its next version."""
        return self._changed(
            key_version=self.key_version + 1,
            public_key=public_key,
            sealed_seed=sealed_seed,
            version_created_at=now,
            rotated_at=now,
        )

    def superseded(self, now: datetime, *, record_id: str) -> "SigningKey":
        """The present version as a record of its own, which can sign no more."""
        return replace(
            self,
            id=record_id,
            status=Status.ROTATED,
            current_id=self.id,
            sealed_seed=None,
            created_at=self.version_created_at,
            rotated_at=now,
            version=1,
        )

    def _changed(self, **changes: object) -> "SigningKey":
        return replace(self, version=self.version + 1, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Signer:
    """What signed a warrant, or what was revoked: a key, or only one version of it."""

    key_id: str
    key_version: int | None

    def __str__(self) -> str:
        """As the sort key of its marker."""
        return self.key_id if self.key_version is None else f"{self.key_id}#{self.key_version}"

    @classmethod
    def parse(cls, text: str) -> "Signer":
        """The signer that `str` made `text` of. Raises ValueError."""
        key_id, _, version = text.partition("#")
        return cls(key_id, int(version) if version else None)


def keys(tenant_id: str) -> Partition:
    """A tenant's keys and superseded versions, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#keys")


def versions(tenant_id: str, key_id: str) -> Partition:
    """The superseded versions of a key, in order: each item names its record."""
    return Partition(Table.KEYS, f"{tenant_id}#versions#{key_id}")


def version_sk(key_version: int) -> str:
    """The place of a version among its key's."""
    return f"{key_version:09d}"


def counts_address(tenant_id: str) -> Address:
    """The number of keys of each type and status, each under `count_name`."""
    return Address(Table.KEYS, tenant_id, "counts#keys")


def count_name(type_: Type, status: Status) -> str:
    """The attribute that counts keys of this type and status."""
    return f"{type_}.{status}"
