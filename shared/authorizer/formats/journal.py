"""The journal of publications: what a restore needs that the store has lost (TRUST-11)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Final, Self

from . import ed25519
from .documents import NotTrusted, RootReason, read
from .members import Malformed, decoded, digest, encoded, member, moment, number, table, text
from .trust import LogAnchor
from .wire import FeedEntry

# What the first number of a journal has as the hash of the one before.
FIRST: Final = bytes(32)

_PREFIX: Final = b"rescind-journal-v1\n"


@dataclass(frozen=True, slots=True)
class JournalNumber:
    """The additions of one publication of the feed: encoded entries, and tombstones.

    `previous` is the hash (32 bytes) of the payload of the number before, `FIRST` if it is the
    first one. `trust` is the version of the trust document, `log` the newest checkpoint.
    """

    tenant_id: str
    number: int
    previous: bytes
    issued_at: datetime
    entries: tuple[bytes, ...]
    tombstones: Mapping[str, Any]
    trust: int
    log: LogAnchor | None = None

    def encode(self) -> bytes:
        """Return the payload: deterministic CBOR."""
        members: dict[str, Any] = {
            "Tenant": self.tenant_id,
            "Number": self.number,
            "Previous": self.previous,
            "IssuedAt": text(self.issued_at),
            "Entries": self.entries,
            "Tombstones": self.tombstones,
            "Trust": self.trust,
        }
        if self.log is not None:
            members["Log"] = self.log.members()
        return encoded(members)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the number in a payload. Raises `Malformed`."""
        members = decoded(data)
        return cls(
            member(members, "Tenant", str),
            number(members, "Number"),
            digest(members, "Previous"),
            moment(members, "IssuedAt"),
            _entries(members),
            table(members, "Tombstones"),
            number(members, "Trust"),
            LogAnchor.among(members),
        )

    @staticmethod
    def signed_part(payload: bytes) -> bytes:
        """Return the bytes that the signature of the list signer covers."""
        return _PREFIX + payload

    @classmethod
    def opened(cls, payload: bytes, signature: bytes, *, public_key: bytes, tenant_id: str) -> Self:
        """Return the number that this list signer signed. Raises `NotTrusted`."""
        if not ed25519.is_signed(cls.signed_part(payload), signature, public_key=public_key):
            raise NotTrusted(RootReason.SIGNATURE)
        found = read(cls.decode, payload)
        if found.tenant_id != tenant_id:
            raise NotTrusted(RootReason.TENANT)
        return found

    def follows(self, payload: bytes, number: int) -> bool:
        """Return whether this is the number after the one with this payload and number."""
        return self.number == number + 1 and self.previous == hashlib.sha256(payload).digest()


def _entries(members: Mapping[str, Any]) -> tuple[bytes, ...]:
    values = member(members, "Entries", list)
    if any(type(each) is not bytes for each in values):
        raise Malformed("Entries must be a list of encoded entries")
    numbers = [FeedEntry.decode(each).sequence for each in values]
    if any(one >= two for one, two in pairwise(numbers)):
        raise Malformed("Entries must be in the order of their numbers")
    return tuple(values)
