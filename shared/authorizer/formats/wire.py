"""Wire format of the feed: entries, their chain hashes, and the feed head (docs/spec/feed.md).

All parts are deterministic CBOR (RFC 8949, 4.2.1) with text keys. Readers ignore unknown members,
and reject bytes that another encoder would have written differently.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import cbor2

from .members import NUMBER_MAX as NUMBER_MAX
from .members import MalformedBytes as MalformedBytes
from .members import decode as decode
from .members import digest, items, member, number, rising, table
from .members import moment as moment
from .members import text as text

# The signature of a feed head covers this prefix and the payload. An SRL begins with another byte.
HEAD_PREFIX: Final = b"rescind-feed-head-v1\n"

_CHAIN_PREFIX: Final = b"rescind-feed-v1\n"

# Maximum time by which a feed head may be ahead of a client's clock.
FUTURE_MAX: Final = timedelta(seconds=30)

# The longest warrant identifier, and the size of a base for each of its identifiers, in bytes.
ID_BYTES_MAX: Final = 72
BASE_BYTES_EACH: Final = 80


class BaseTooLarge(MalformedBytes):
    """The base is longer than its count allows."""


class BaseHashMismatch(MalformedBytes):
    """The base does not have the hash in the feed head."""


class BaseVersionMismatch(MalformedBytes):
    """The base does not have the version in the feed head."""


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """A change of the revoked set: `revoked` was added, `removed` was removed.

    Both are sorted bytewise, without repetitions. An entry with neither is a discontinuity: a
    client must load a base that covers it.
    """

    sequence: int
    revoked: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_break(self) -> bool:
        """Whether the entry is a discontinuity, after which a client needs a base."""
        return not self.revoked and not self.removed

    def encode(self) -> bytes:
        """Return the deterministic CBOR, without empty members."""
        members: dict[str, Any] = {"Sequence": self.sequence}
        if self.removed:
            members["Removed"] = self.removed
        if self.revoked:
            members["Revoked"] = self.revoked
        return cbor2.dumps(members, canonical=True)

    @classmethod
    def decode(cls, data: bytes) -> "FeedEntry":
        """Return the entry in `data`. Raises `MalformedBytes`."""
        members = decode(data)
        revoked, removed = _ids(members, "Revoked"), _ids(members, "Removed")
        if not set(revoked).isdisjoint(removed):
            raise MalformedBytes("an entry revokes and removes the same warrant")
        return cls(number(members, "Sequence"), revoked, removed)


@dataclass(frozen=True, slots=True)
class Base:
    """A published SRL that covers all entries up to `sequence`.

    `sha256` is the hash (32 bytes) of its payload, `chain` the chain hash at `sequence`, and
    `count` the number of its identifiers.
    """

    version: int
    sequence: int
    chain: bytes
    sha256: bytes
    count: int


class FeedPosition(NamedTuple):
    """A position in the feed: a sequence and its chain hash (32 bytes)."""

    sequence: int
    chain: bytes


class HashReference(NamedTuple):
    """Reference in a feed head: a hash (32 bytes), and a version or a size in bytes."""

    sha256: bytes
    number: int


@dataclass(frozen=True, slots=True)
class SignedHead:
    """The end of a tenant's feed. Its signature also covers everything that it names by hash.

    `trust` is the newest trust document by its version, `keys` the signing keys by their size
    (TRUST-9). Both are optional.
    """

    tenant_id: str
    sequence: int
    chain: bytes
    issued_at: datetime
    expires_at: datetime
    base: Base
    trust: HashReference | None = None
    keys: HashReference | None = None

    def encode(self) -> bytes:
        """Return the deterministic CBOR."""
        base = {
            "Chain": self.base.chain,
            "Count": self.base.count,
            "SHA256": self.base.sha256,
            "Version": self.base.version,
            "Sequence": self.base.sequence,
        }
        members: dict[str, Any] = {
            "Base": base,
            "Chain": self.chain,
            "Tenant": self.tenant_id,
            "IssuedAt": text(self.issued_at),
            "Sequence": self.sequence,
            "ExpiresAt": text(self.expires_at),
        }
        if self.trust is not None:
            members["Trust"] = {"SHA256": self.trust.sha256, "Version": self.trust.number}
        if self.keys is not None:
            members["Keys"] = {"SHA256": self.keys.sha256, "Size": self.keys.number}
        return cbor2.dumps(members, canonical=True)

    @classmethod
    def decode(cls, data: bytes) -> "SignedHead":
        """Return the feed head in `data`. Raises `MalformedBytes`."""
        members = decode(data)
        fields = table(members, "Base")
        base = Base(
            number(fields, "Version"),
            number(fields, "Sequence"),
            digest(fields, "Chain"),
            digest(fields, "SHA256"),
            number(fields, "Count"),
        )
        head = cls(
            member(members, "Tenant", str),
            number(members, "Sequence"),
            digest(members, "Chain"),
            moment(members, "IssuedAt"),
            moment(members, "ExpiresAt"),
            base,
            _reference(members, "Trust", "Version"),
            _reference(members, "Keys", "Size"),
        )
        if base.sequence > head.sequence:
            raise MalformedBytes("the base is newer than the head")
        return head


def signed_part(payload: bytes) -> bytes:
    """Return the bytes that the Ed25519 signature of a feed head covers."""
    return HEAD_PREFIX + payload


def first_chain(tenant_id: str) -> bytes:
    """Return the tenant's chain hash (32 bytes) at sequence 0."""
    return hashlib.sha256(_CHAIN_PREFIX + tenant_id.encode()).digest()


def next_chain(chain: bytes, entry: bytes) -> bytes:
    """Return the chain hash (32 bytes) after `entry`, an encoded entry that follows `chain`."""
    return hashlib.sha256(chain + hashlib.sha256(entry).digest()).digest()


def base_ids(data: bytes, base: Base) -> list[str]:
    """Return the identifiers in an SRL payload, which must match `base`.

    Raises `MalformedBytes`, and the errors of `check_base` and `check_version`.
    """
    check_base(data, base)
    members = decode(data)
    ids = _checked_ids(members, "RevokedIDs")
    if len(ids) != base.count:
        raise MalformedBytes("RevokedIDs must have as many texts as the feed head states")
    check_version(members, base)
    return list(ids)


def check_base(data: bytes, base: Base) -> None:
    """Check the size and the hash of an SRL payload, before parsing.

    Raises `BaseTooLarge` or `BaseHashMismatch`.
    """
    if len(data) > base_size_max(base):
        raise BaseTooLarge("the base is longer than its count allows")
    if hashlib.sha256(data).digest() != base.sha256:
        raise BaseHashMismatch("the base does not have the hash in the feed head")


def check_version(members: Mapping[str, Any], base: Base) -> None:
    """Raise `BaseVersionMismatch` unless the SRL has the version of `base`."""
    version = members.get("Version")
    if type(version) is not int or version != base.version:
        raise BaseVersionMismatch("the base does not have the version in the feed head")


def base_size_max(base: Base) -> int:
    """Return the maximum size of the payload of `base` in bytes."""
    return (base.count + 2) * BASE_BYTES_EACH


def _reference(members: Mapping[str, Any], name: str, counter: str) -> HashReference | None:
    if name not in members:
        return None
    fields = table(members, name)
    return HashReference(digest(fields, "SHA256"), number(fields, counter))


def _ids(members: Mapping[str, Any], name: str) -> tuple[str, ...]:
    if name not in members:
        return ()
    ids = _checked_ids(members, name)
    if not ids:
        raise MalformedBytes(f"{name} must be a list of one text or more")
    return ids


def _checked_ids(members: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the identifiers in `name`: sorted, unique, and not too long.

    Raises `MalformedBytes`.
    """
    ids = items(members, name, str)
    if any(len(each.encode()) > ID_BYTES_MAX for each in ids):
        raise MalformedBytes(f"{name} has an identifier of more than {ID_BYTES_MAX} bytes")
    return rising(ids, name)
