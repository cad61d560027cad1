"""The wire format of the feed: entries, their chain, and the signed head (docs/feed.md).

All parts are deterministic CBOR (RFC 8949, 4.2.1) with text keys. A reader ignores members that it
does not know, and refuses bytes that another encoder would have written differently.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import cbor2

# The signature of a head covers this, before its payload. A list begins with another byte.
HEAD_PREFIX: Final = b"rescind-feed-head-v1\n"

_CHAIN_PREFIX: Final = b"rescind-feed-v1\n"

# The highest sequence and version: the largest integer that every JSON reader keeps exactly.
NUMBER_MAX: Final = 2**53

# How far ahead of a client's clock a head may be issued.
FUTURE_MAX: Final = timedelta(seconds=30)

# The longest warrant identifier, in bytes, and the size of a base for each identifier in it.
ID_BYTES_MAX: Final = 72
BASE_BYTES_EACH: Final = 80

_HASH_BYTES: Final = 32
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z", re.ASCII)


class Malformed(ValueError):
    """Bytes that are not in the wire format."""


class TooLong(Malformed):
    """A base that is longer than its count allows."""


class OtherHash(Malformed):
    """A base of another hash than the head says."""


class OtherVersion(Malformed):
    """A base of another version than the head says."""


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """A change of the set of revoked warrants: `revoked` now are revoked, `removed` are not.

    Both are sorted bytewise, each identifier once. An entry with neither is a *break*: the set
    after it is known only from a base that covers it.
    """

    sequence: int
    revoked: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def is_break(self) -> bool:
        """Whether the set after this entry cannot be made from the set before it."""
        return not self.revoked and not self.removed

    def encode(self) -> bytes:
        """Return the deterministic CBOR. An empty member is left out."""
        members: dict[str, Any] = {"Sequence": self.sequence}
        if self.removed:
            members["Removed"] = self.removed
        if self.revoked:
            members["Revoked"] = self.revoked
        return cbor2.dumps(members, canonical=True)

    @classmethod
    def decode(cls, data: bytes) -> "FeedEntry":
        """Return the entry in `data`. Raises `Malformed`."""
        members = decoded(data)
        revoked, removed = _ids(members, "Revoked"), _ids(members, "Removed")
        if not set(revoked).isdisjoint(removed):
            raise Malformed("an entry revokes and removes the same warrant")
        return cls(_number(members, "Sequence"), revoked, removed)


@dataclass(frozen=True, slots=True)
class Base:
    """A published list that covers all entries up to `sequence`.

    `sha256` is the hash (32 bytes) of its payload, `chain` the chain at `sequence`, `count` the
    number of its identifiers.
    """

    version: int
    sequence: int
    chain: bytes
    sha256: bytes
    count: int


@dataclass(frozen=True, slots=True)
class SignedHead:
    """The end of a tenant's feed. It is signed, so that everything it names by hash is too."""

    tenant_id: str
    sequence: int
    chain: bytes
    issued_at: datetime
    expires_at: datetime
    base: Base

    def encode(self) -> bytes:
        """Return the deterministic CBOR."""
        base = {
            "Chain": self.base.chain,
            "Count": self.base.count,
            "SHA256": self.base.sha256,
            "Version": self.base.version,
            "Sequence": self.base.sequence,
        }
        members = {
            "Base": base,
            "Chain": self.chain,
            "Tenant": self.tenant_id,
            "IssuedAt": text(self.issued_at),
            "Sequence": self.sequence,
            "ExpiresAt": text(self.expires_at),
        }
        return cbor2.dumps(members, canonical=True)

    @classmethod
    def decode(cls, data: bytes) -> "SignedHead":
        """Return the head in `data`. Raises `Malformed`."""
        members = decoded(data)
        found = members.get("Base")
        if not isinstance(found, dict):
            raise Malformed("Base must be a map")
        base = Base(
            _number(found, "Version"),
            _number(found, "Sequence"),
            _hash(found, "Chain"),
            _hash(found, "SHA256"),
            _number(found, "Count"),
        )
        head = cls(
            _member(members, "Tenant", str),
            _number(members, "Sequence"),
            _hash(members, "Chain"),
            moment(members, "IssuedAt"),
            moment(members, "ExpiresAt"),
            base,
        )
        if base.sequence > head.sequence:
            raise Malformed("the base is newer than the head")
        return head


def signed_part(payload: bytes) -> bytes:
    """Return the bytes that the Ed25519 signature of a head covers."""
    return HEAD_PREFIX + payload


def first_chain(tenant_id: str) -> bytes:
    """Return the chain (32 bytes) at sequence 0, which differs for each tenant."""
    return hashlib.sha256(_CHAIN_PREFIX + tenant_id.encode()).digest()


def next_chain(chain: bytes, entry: bytes) -> bytes:
    """Return the chain (32 bytes) after `entry`, an encoded entry that follows `chain`."""
    return hashlib.sha256(chain + hashlib.sha256(entry).digest()).digest()


def base_ids(data: bytes, base: Base) -> list[str]:
    """Return the identifiers in the payload of a list, which must be the one that `base` names.

    Raises `TooLong` or `OtherHash` before anything is parsed; `OtherVersion`, `Malformed`.
    """
    if len(data) > base_size_max(base):
        raise TooLong("the base is longer than its count allows")
    if hashlib.sha256(data).digest() != base.sha256:
        raise OtherHash("the base has another hash than the head says")
    members = _loaded(data)
    ids = members.get("RevokedIDs")
    if not isinstance(ids, list) or set(map(type, ids)) - {str} or len(ids) != base.count:
        raise Malformed("RevokedIDs must be as many texts as the head says")
    if members.get("Version") != base.version:
        raise OtherVersion("the base is of another version than the head says")
    return ids


def base_size_max(base: Base) -> int:
    """Return the most bytes that the payload of `base` can have."""
    return (base.count + 2) * BASE_BYTES_EACH


def decoded(data: bytes) -> dict[str, Any]:
    """Return the map in `data`. Raises `Malformed`, also if another encoder would differ."""
    members = _loaded(data)
    try:
        again = cbor2.dumps(members, canonical=True)
    except (cbor2.CBORError, ValueError, TypeError, OverflowError, RecursionError):
        raise Malformed("not deterministic CBOR") from None
    if again != data:
        raise Malformed("not deterministic CBOR")
    return members


def _loaded(data: bytes) -> dict[str, Any]:
    try:
        members = cbor2.loads(data)
    # A tag may hold what its reader cannot use, which raises errors of many kinds.
    except Exception:  # noqa: BLE001
        raise Malformed("not CBOR") from None
    if not isinstance(members, dict):
        raise Malformed("not a CBOR map")
    return members


def _member(members: Mapping[str, Any], name: str, kind: type[Any]) -> Any:
    value = members.get(name)
    if type(value) is not kind:
        raise Malformed(f"{name} must be of type {kind.__name__}")
    return value


def _number(members: Mapping[str, Any], name: str) -> int:
    value: int = _member(members, name, int)
    if not 0 <= value <= NUMBER_MAX:
        raise Malformed(f"{name} must be between 0 and 2^53")
    return value


def _hash(members: Mapping[str, Any], name: str) -> bytes:
    value: bytes = _member(members, name, bytes)
    if len(value) != _HASH_BYTES:
        raise Malformed(f"{name} must have 32 bytes")
    return value


def moment(members: Mapping[str, Any], name: str) -> datetime:
    """Return the time in the member `name`. Raises `Malformed`."""
    value: str = _member(members, name, str)
    if not _TIME.fullmatch(value):
        raise Malformed(f"{name} must be a time such as 2026-11-21T00:10:32Z")
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        raise Malformed(f"{name} is not a time") from None


def _ids(members: Mapping[str, Any], name: str) -> tuple[str, ...]:
    if name not in members:
        return ()
    ids: Sequence[Any] = _member(members, name, list)
    if not ids or any(type(each) is not str for each in ids):
        raise Malformed(f"{name} must be a list of one text or more")
    if any(len(each.encode()) > ID_BYTES_MAX for each in ids):
        raise Malformed(f"{name} has an identifier of more than {ID_BYTES_MAX} bytes")
    if any(one >= two for one, two in pairwise(ids)):
        raise Malformed(f"{name} is not sorted, or has an identifier twice")
    return tuple(ids)


def text(moment: datetime) -> str:
    """Return `moment` as the wire has it: UTC, whole seconds, `Z`."""
    return moment.astimezone(UTC).isoformat()[: len("2026-11-21T00:10:32")] + "Z"
