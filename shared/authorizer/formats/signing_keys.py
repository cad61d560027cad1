"""The signing keys of a tenant as a blob that heads of the feed name by its hash (TRUST-9)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

from . import ed25519
from .documents import NotTrusted, RootReason, read
from .members import (
    encoded,
    member,
    moment,
    number,
    rising,
    tables,
    text,
    unambiguous,
)
from .wire import Reference


class PublishedKey(NamedTuple):
    """A version of a signing key. `public_key` has 32 bytes. Moments are None if there are none."""

    key_id: str
    version: int
    type: str
    status: str
    public_key: bytes
    created_at: datetime
    parent_id: str | None = None
    expires_at: datetime | None = None
    rotated_at: datetime | None = None
    suspended_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def kid(self) -> bytes:
        """The key identifier in the header of each warrant that this version signed."""
        return f"{self.key_id}#{self.version}".encode()

    @property
    def is_revoked(self) -> bool:
        """Whether no signature of this version is valid. A state that is unknown counts."""
        return self.status not in ("active", "suspended", "rotated")

    def members(self) -> dict[str, Any]:
        """Return the members of the key. Absent ones are left out."""
        optional = {
            "Parent": self.parent_id,
            "ExpiresAt": self.expires_at and text(self.expires_at),
            "RotatedAt": self.rotated_at and text(self.rotated_at),
            "SuspendedAt": self.suspended_at and text(self.suspended_at),
            "RevokedAt": self.revoked_at and text(self.revoked_at),
        }
        return {name: value for name, value in optional.items() if value is not None} | {
            "Id": self.key_id,
            "Version": self.version,
            "Type": self.type,
            "Status": self.status,
            "PublicKey": self.public_key,
            "CreatedAt": text(self.created_at),
        }

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Self:
        """Return the key in these members. Raises `Malformed`."""
        return cls(
            member(members, "Id", str),
            number(members, "Version"),
            member(members, "Type", str),
            member(members, "Status", str),
            ed25519.key(members, "PublicKey"),
            moment(members, "CreatedAt"),
            member(members, "Parent", str) if "Parent" in members else None,
            *[moment(members, each) if each in members else None for each in _ENDS],
        )


_ENDS: Final = ("ExpiresAt", "RotatedAt", "SuspendedAt", "RevokedAt")
_order: Final = attrgetter("key_id", "version")


@dataclass(frozen=True, slots=True)
class PublishedKeys:
    """All versions of all signing keys of a tenant, by identifier and version."""

    tenant_id: str
    keys: tuple[PublishedKey, ...]

    def encode(self) -> bytes:
        """Return the blob: deterministic CBOR."""
        keys = [each.members() for each in sorted(self.keys, key=_order)]
        return encoded({"Keys": keys, "Tenant": self.tenant_id})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the keys in a blob. Raises `Malformed`.

        The hash binds the bytes, so another encoding of the same members does no harm, and to
        encode a thousand keys again would cost as much as to read them.
        """
        members = unambiguous(data)
        keys = tuple(map(PublishedKey.of, tables(members, "Keys")))
        rising(map(_order, keys), "Keys")
        return cls(member(members, "Tenant", str), keys)

    @classmethod
    def opened(cls, blob: bytes, reference: Reference, *, tenant_id: str) -> Self:
        """Return the keys in the blob that a head names so. Raises `NotTrusted`."""
        if len(blob) > reference.number:
            raise NotTrusted(RootReason.TOO_LARGE)
        if hashlib.sha256(blob).digest() != reference.sha256:
            raise NotTrusted(RootReason.HASH)
        found = read(cls.decode, blob)
        if found.tenant_id != tenant_id:
            raise NotTrusted(RootReason.TENANT)
        return found


def reference(blob: bytes) -> Reference:
    """Return how a head names a blob of signing keys."""
    return Reference(hashlib.sha256(blob).digest(), len(blob))
