"""The journal of publications: what a restore needs that the store has lost (TRUST-11)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self

from . import ed25519
from .documents import NotTrusted, RootReason, decode_payload
from .members import (
    MalformedBytes,
    decode,
    digest,
    encode,
    items,
    member,
    moment,
    number,
    rising,
    table,
    text,
)
from .trust import LogAnchor
from .wire import FeedEntry

# What the first number of a journal has as the hash of the one before.
FIRST: Final = bytes(32)

_PREFIX: Final = b"rescind-journal-v1\n"


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """The additions of one publication: entries of the feed, and tombstones.

    `previous` is the hash (32 bytes) of the payload of the number before, `FIRST` if it is the
    first one. Each change that was acknowledged before `issued_at` is in this number or before it.
    The feed ends at `sequence`. `entries` are encoded, and `ends` has for each of them, as CBOR,
    when the warrants that it revokes end: seconds since 1970, or null. `changes` counted the
    tombstones at the number before. `trust` is the version of the trust document, `log` the newest
    checkpoint.
    """

    tenant_id: str
    number: int
    previous: bytes
    issued_at: datetime
    sequence: int = 0
    changes: int = 0
    entries: tuple[bytes, ...] = ()
    ends: tuple[bytes, ...] = ()
    tombstones: Mapping[str, Any] = field(default_factory=dict)
    trust: int = 0
    log: LogAnchor | None = None

    def encode(self) -> bytes:
        """Return the payload: deterministic CBOR."""
        members: dict[str, Any] = {
            "Tenant": self.tenant_id,
            "Number": self.number,
            "Previous": self.previous,
            "IssuedAt": text(self.issued_at),
            "Sequence": self.sequence,
            "Changes": self.changes,
            "Entries": self.entries,
            "Ends": self.ends,
            "Tombstones": self.tombstones,
            "Trust": self.trust,
        }
        if self.log is not None:
            members["Log"] = self.log.members()
        return encode(members)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the number in a payload. Raises `MalformedBytes`."""
        members = decode(data)
        sequence, entries = number(members, "Sequence"), tuple(items(members, "Entries", bytes))
        ends = tuple(items(members, "Ends", bytes))
        # In the order of their numbers, up to Sequence.
        rising([*(FeedEntry.decode(each).sequence for each in entries), sequence + 1], "Entries")
        if len(ends) != len(entries):
            raise MalformedBytes("Ends must have one for each entry")
        return cls(
            member(members, "Tenant", str),
            number(members, "Number"),
            digest(members, "Previous"),
            moment(members, "IssuedAt"),
            sequence,
            number(members, "Changes"),
            entries,
            ends,
            table(members, "Tombstones"),
            number(members, "Trust"),
            LogAnchor.among(members),
        )

    @staticmethod
    def signed_part(payload: bytes) -> bytes:
        """Return the bytes that the signature of the list signer covers."""
        return _PREFIX + payload

    @classmethod
    def verify_and_decode(
        cls, payload: bytes, signature: bytes, *, public_key: bytes, tenant_id: str
    ) -> Self:
        """Return the number that this list signer signed. Raises `NotTrusted`."""
        if not ed25519.is_signed(cls.signed_part(payload), signature, public_key=public_key):
            raise NotTrusted(RootReason.SIGNATURE)
        found = decode_payload(cls.decode, payload)
        if found.tenant_id != tenant_id:
            raise NotTrusted(RootReason.TENANT)
        return found

    def follows(self, payload: bytes, number: int) -> bool:
        """Return whether this is the number after the one with this payload and number."""
        return self.number == number + 1 and self.previous == hashlib.sha256(payload).digest()
