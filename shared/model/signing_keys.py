"""Signing keys, which sign warrants (KEY-3, KEY-6)."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final

from shared.authorizer.formats.signing_keys import Certificate, PublishedKey
from shared.model import seeds, times
from shared.model.items import Address, Partition, Table
from shared.model.records import Record
from shared.model.seeds import KeyPurpose, WrappedKeyRecord

# Maximum number of a tenant's active and suspended keys. Revoked keys and superseded versions do
# not count.
KEYS_MAX: Final = 5000
# Each signature reads all ancestors.
ANCESTORS_MAX: Final = 32


class SigningKeyType(StrEnum):
    """The position of a signing key: at the top (root), or below a root or an issuer."""

    ROOT = "root"
    ISSUER = "issuer"
    NOTARY = "notary"


class KeyStatus(StrEnum):
    """The state of a signing key, or of a superseded version."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    ROTATED = "rotated"
    REVOKED = "revoked"


# The permitted types of a parent. An empty set: the type has no parent.
PARENTS: Final[dict[SigningKeyType, frozenset[SigningKeyType]]] = {
    SigningKeyType.ROOT: frozenset(),
    SigningKeyType.ISSUER: frozenset({SigningKeyType.ROOT, SigningKeyType.ISSUER}),
    SigningKeyType.NOTARY: frozenset({SigningKeyType.ROOT, SigningKeyType.ISSUER}),
}

# The permitted states before a transition, by the state after it. `rotated` is the state of the
# superseded version. The rotated key itself stays active.
TRANSITIONS: Final[dict[KeyStatus, frozenset[KeyStatus]]] = {
    KeyStatus.ROTATED: frozenset({KeyStatus.ACTIVE}),
    KeyStatus.SUSPENDED: frozenset({KeyStatus.ACTIVE}),
    KeyStatus.ACTIVE: frozenset({KeyStatus.SUSPENDED}),
    KeyStatus.REVOKED: frozenset({KeyStatus.ACTIVE, KeyStatus.SUSPENDED, KeyStatus.ROTATED}),
}


@dataclass(frozen=True, slots=True)
class SigningKey(WrappedKeyRecord, Record):
    """A signing key, or a superseded version.

    `public_key` is base64 of the 32 raw bytes. `sealed_seed` is bound to tenant, key and version. A
    superseded version has no seed, and its `current_id` is the identifier of the key. `ancestors`
    are the parent, its parent and so on. `key_version` is 1 for a new key, and each rotation adds
    1. `version` increases with each write. `certificate` is the signature of the key version
    `certified_by` over this version (TRUST-15). A repaired key has none.
    """

    PURPOSE: ClassVar = KeyPurpose.WARRANT

    id: str
    tenant_id: str
    type: SigningKeyType
    name: str
    status: KeyStatus
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
    certified_by: str | None = None
    certificate: bytes | None = None

    @property
    def address(self) -> Address:
        """The address of the record."""
        return keys(self.tenant_id).address(self.id)

    @property
    def seal_context(self) -> dict[str, str]:
        """The context that the wrapped seed of this version is bound to."""
        return seeds.seal_context(
            self.tenant_id, self.id, purpose=self.PURPOSE, version=self.key_version
        )

    @property
    def as_published(self) -> PublishedKey:
        """This version in its published form (TRUST-9)."""
        certificate = None
        if self.certified_by is not None and self.certificate is not None:
            certificate = Certificate(self.certified_by, self.certificate)
        return PublishedKey(
            self.current_id or self.id,
            self.key_version,
            self.type.value,
            self.status.value,
            self.public_bytes,
            self.version_created_at,
            self.parent_id,
            self.expires_at,
            self.superseded_at,
            self.suspended_at,
            self.revoked_at,
            certificate,
        )

    @property
    def signer(self) -> "WarrantSigner":
        """The owner of its signatures: the key (all versions) or a superseded version."""
        if self.current_id is None:
            return WarrantSigner(self.id, None)
        return WarrantSigner(self.current_id, self.key_version)

    @property
    def superseded_at(self) -> datetime | None:
        """When this version was superseded, or None for the current version."""
        return None if self.current_id is None else self.rotated_at

    @property
    def version_of_several(self) -> int | None:
        """The number of this version, or None if the key was never rotated (KEY-14)."""
        return None if self.rotated_at is None else self.key_version

    def has_expired(self, now: datetime) -> bool:
        """Return whether the key has expired. It keeps its status, but cannot sign."""
        return times.has_passed(self.expires_at, now)

    def suspend(self, now: datetime) -> "SigningKey":
        """Return the suspended key."""
        return self._with_next_version(status=KeyStatus.SUSPENDED, suspended_at=now)

    def enable(self) -> "SigningKey":
        """Return the key, active again."""
        return self._with_next_version(status=KeyStatus.ACTIVE, suspended_at=None)

    def revoke(self, now: datetime, *, reason: str) -> "SigningKey":
        """Return the revoked key."""
        return self._with_next_version(
            status=KeyStatus.REVOKED, revoked_at=now, revoked_reason=reason
        )

    def certify(self, signer: "SigningKey", *, seed: bytes) -> "SigningKey":
        """Return this version with a certificate of `signer`, made with the signer's `seed`."""
        by = signer.as_published.name
        signed = self.as_published.certified_part(self.tenant_id, by)
        return replace(self, certified_by=by, certificate=seeds.signature(signed, seed=seed))

    def rotate(self, now: datetime, *, public_key: str, sealed_seed: bytes) -> "SigningKey":
        """Return the key with its next version, which has no certificate yet."""
        return self._with_next_version(
            certified_by=None,
            certificate=None,
            key_version=self.key_version + 1,
            public_key=public_key,
            sealed_seed=sealed_seed,
            version_created_at=now,
            rotated_at=now,
        )

    def supersede(self, now: datetime, *, record_id: str) -> "SigningKey":
        """Return the current version as a separate record, which cannot sign."""
        return replace(
            self,
            id=record_id,
            status=KeyStatus.ROTATED,
            current_id=self.id,
            sealed_seed=None,
            created_at=self.version_created_at,
            rotated_at=now,
            version=1,
        )

    def _with_next_version(self, **changes: object) -> "SigningKey":
        return replace(self, version=self.version + 1, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class WarrantSigner:
    """A key (`key_version` None), or a key version, that signed a warrant or was revoked."""

    key_id: str
    key_version: int | None

    def __str__(self) -> str:
        """Return the sort key of its marker."""
        return self.key_id if self.key_version is None else f"{self.key_id}#{self.key_version}"

    @classmethod
    def parse(cls, text: str) -> "WarrantSigner":
        """Return the signer with the `str` of `text`. Raises `ValueError`."""
        key_id, _, version = text.partition("#")
        return cls(key_id, int(version) if version else None)


@dataclass(frozen=True, slots=True)
class KeyFilters:
    """The keys to return, which match all values other than None (KEY-13)."""

    type: SigningKeyType | None = None
    status: KeyStatus | None = None

    @property
    def count_names(self) -> list[str]:
        """The attributes that count the matching keys."""
        types = SigningKeyType if self.type is None else (self.type,)
        statuses = KeyStatus if self.status is None else (self.status,)
        return [count_name(type_, status) for type_ in types for status in statuses]

    def hold(self, key: SigningKey) -> bool:
        """Return whether a key matches."""
        return self.type in (None, key.type) and self.status in (None, key.status)


def keys(tenant_id: str) -> Partition:
    """Return the partition of a tenant's keys and superseded versions, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#keys")


def versions(tenant_id: str, key_id: str) -> Partition:
    """Return the partition of a key's superseded versions, in order. Each item names a record."""
    return Partition(Table.KEYS, f"{tenant_id}#versions#{key_id}")


def version_sk(key_version: int) -> str:
    """Return the sort key of a version among the versions of its key."""
    return f"{key_version:09d}"


def counts_address(tenant_id: str) -> Address:
    """Return the address of the numbers of keys by type and status, each under `count_name`."""
    return Address(Table.KEYS, tenant_id, "counts#keys")


def count_name(type_: SigningKeyType, status: KeyStatus) -> str:
    """Return the attribute that counts keys of this type and status."""
    return f"{type_}.{status}"
