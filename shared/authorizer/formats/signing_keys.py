"""Key bundle: signing keys of a tenant in a blob that feed heads name by hash (TRUST-9).

The SRL signer signs the heads. A thief of this key must not be able to add a signing key. Each key
is therefore covered by the trust document, or has a certificate of an earlier key (TRUST-15).
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

import cbor2

from . import ed25519
from .documents import NotTrusted, RootReason, decode_payload
from .members import (
    MalformedBytes,
    encode,
    member,
    moment,
    number,
    rising,
    table,
    tables,
    text,
    unambiguous,
)
from .wire import HashReference

_COVERED_PREFIX: Final = b"rescind-keys-v1\n"
_CERTIFIED_PREFIX: Final = b"rescind-key-v1\n"
_PARENTS: Final = ("root", "issuer")


class Certificate(NamedTuple):
    """The signature (64 bytes) of the key with the `kid` in `by` about another key."""

    by: str
    signature: bytes

    @classmethod
    def among(cls, members: Mapping[str, Any]) -> Self | None:
        """Return the certificate in the members of a key, or None. Raises `MalformedBytes`."""
        if "Certificate" not in members:
            return None
        fields = table(members, "Certificate")
        certificate = cls(member(fields, "By", str), member(fields, "Signature", bytes))
        if len(certificate.signature) != ed25519.SIGNATURE_BYTES:
            raise MalformedBytes(f"Signature must have {ed25519.SIGNATURE_BYTES} bytes")
        return certificate


class PublishedKey(NamedTuple):
    """A version of a signing key. `public_key` has 32 bytes. Absent times are None."""

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
    certificate: Certificate | None = None

    @property
    def name(self) -> str:
        """The identifier with the version."""
        return f"{self.key_id}#{self.version}"

    @property
    def kid(self) -> bytes:
        """The key identifier in the header of each warrant that this version signed."""
        return self.name.encode()

    @property
    def is_revoked(self) -> bool:
        """Whether all signatures of this version are invalid. Unknown states count as revoked."""
        return self.status not in ("active", "suspended", "rotated")

    def certified_part(self, tenant_id: str, by: str) -> bytes:
        """Return the immutable bytes that a certificate by the key `by` covers."""
        members = {
            "Tenant": tenant_id,
            "Id": self.key_id,
            "Version": self.version,
            "Type": self.type,
            "Parent": self.parent_id,
            "PublicKey": self.public_key,
            "By": by,
        }
        return _CERTIFIED_PREFIX + encode(members)

    def may_be_certified_by(self, signer: "PublishedKey") -> bool:
        """Return whether `signer` is the key that must certify this key.

        The first version needs a version of its parent. A later version needs the previous version.
        """
        if self.version == 1:
            return self.parent_id == signer.key_id and signer.type in _PARENTS
        before = (self.key_id, self.version - 1, self.type, self.parent_id)
        return before == (signer.key_id, signer.version, signer.type, signer.parent_id)

    def members(self) -> dict[str, Any]:
        """Return the members of the key, without absent ones."""
        optional = {
            "Parent": self.parent_id,
            "ExpiresAt": self.expires_at and text(self.expires_at),
            "RotatedAt": self.rotated_at and text(self.rotated_at),
            "SuspendedAt": self.suspended_at and text(self.suspended_at),
            "RevokedAt": self.revoked_at and text(self.revoked_at),
            "Certificate": self.certificate
            and {"By": self.certificate.by, "Signature": self.certificate.signature},
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
        """Return the key in these members. Raises `MalformedBytes`."""
        # Unrolled, because a loop over the times would take a fifth longer.
        return cls(
            member(members, "Id", str),
            number(members, "Version"),
            member(members, "Type", str),
            member(members, "Status", str),
            ed25519.key(members, "PublicKey"),
            moment(members, "CreatedAt"),
            member(members, "Parent", str) if "Parent" in members else None,
            moment(members, "ExpiresAt") if "ExpiresAt" in members else None,
            moment(members, "RotatedAt") if "RotatedAt" in members else None,
            moment(members, "SuspendedAt") if "SuspendedAt" in members else None,
            moment(members, "RevokedAt") if "RevokedAt" in members else None,
            Certificate.among(members),
        )


_order: Final = attrgetter("key_id", "version")
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PublishedKeys:
    """All versions of all signing keys of a tenant, by identifier and version."""

    tenant_id: str
    keys: tuple[PublishedKey, ...]

    def encode(self) -> bytes:
        """Return the blob: deterministic CBOR."""
        keys = [each.members() for each in sorted(self.keys, key=_order)]
        return encode({"Keys": keys, "Tenant": self.tenant_id})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the keys in a blob. Raises `MalformedBytes`.

        The hash binds the bytes, so other encodings of the same members are harmless. Re-encoding a
        thousand keys would cost as much as decoding them.
        """
        members = unambiguous(data)
        keys = tuple(map(PublishedKey.of, tables(members, "Keys")))
        rising(map(_order, keys), "Keys")
        return cls(member(members, "Tenant", str), keys)

    @classmethod
    def from_blob(cls, blob: bytes, reference: HashReference, *, tenant_id: str) -> Self:
        """Return the keys in the blob that a feed head names. Raises `NotTrusted`."""
        if len(blob) > reference.number:
            raise NotTrusted(RootReason.TOO_LARGE)
        if hashlib.sha256(blob).digest() != reference.sha256:
            raise NotTrusted(RootReason.HASH)
        keys = decode_payload(cls.decode, blob)
        if keys.tenant_id != tenant_id:
            raise NotTrusted(RootReason.TENANT)
        return keys

    @property
    def proven(self) -> "frozenset[PublishedKey]":
        """The certified keys without their state, which `check` can skip next time."""
        return frozenset(_remove_state(each) for each in self.keys if each.certificate)

    def check(self, covered_hash: bytes | None, *, proven: "Iterable[PublishedKey]" = ()) -> None:
        """Check that the document covers or a certificate proves each key (TRUST-15).

        The signer of the feed head alone cannot add a key. `covered_hash` is the hash in the
        current document. A document without this hash permits any key. `proven` contains the proven
        keys of a blob that passed this check with the same hash. Raises `NotTrusted`.
        """
        if covered_hash is None:
            return
        covered_keys = [each for each in self.keys if each.certificate is None]
        if covering(covered_keys) != covered_hash:
            raise NotTrusted(RootReason.CERTIFICATE)
        proven_before, certified_keys = frozenset(proven), list(vouching(covered_keys, self.keys))
        if len(covered_keys) + len(certified_keys) != len(self.keys) or not all(
            _remove_state(key) in proven_before or self._is_certified(key, signer)
            for signer, key in certified_keys
        ):
            raise NotTrusted(RootReason.CERTIFICATE)

    def _is_certified(self, key: PublishedKey, signer: PublishedKey) -> bool:
        return key.certificate is not None and ed25519.is_signed(
            key.certified_part(self.tenant_id, signer.name),
            key.certificate.signature,
            public_key=signer.public_key,
        )


def vouching(
    ready: Iterable[PublishedKey], keys: Iterable[PublishedKey]
) -> Iterator[tuple[PublishedKey, PublishedKey]]:
    """Yield each key reachable through certificates from `ready`, after its signer.

    No signature is verified.
    """
    uncertified = defaultdict(list)
    for key in keys:
        if key.certificate is not None:
            uncertified[key.certificate.by].append(key)
    signers = [*ready]
    while signers:
        signer = signers.pop()
        for key in uncertified.pop(signer.name, ()):
            if key.may_be_certified_by(signer):
                signers.append(key)
                yield signer, key


def covering(keys: Iterable[PublishedKey]) -> bytes:
    """Return the hash (32 bytes) by which a document covers these keys in any state."""
    immutable_members = [
        [each.key_id, each.version, each.type, each.parent_id, each.public_key]
        for each in sorted(keys, key=_order)
    ]
    return hashlib.sha256(_COVERED_PREFIX + cbor2.dumps(immutable_members)).digest()


def _remove_state(key: PublishedKey) -> PublishedKey:
    """Return the key with only its immutable members and its certificate."""
    return key._replace(
        status="",
        created_at=_NEVER,
        expires_at=None,
        rotated_at=None,
        suspended_at=None,
        revoked_at=None,
    )


def reference(blob: bytes) -> HashReference:
    """Return the reference by which a feed head names a key bundle."""
    return HashReference(hashlib.sha256(blob).digest(), len(blob))
