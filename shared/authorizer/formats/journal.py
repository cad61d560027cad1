"""Journal of publications, for recovery after a restore of the store (TRUST-11)."""

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

# `Previous` of the first journal record.
FIRST: Final = bytes(32)

_PREFIX: Final = b"rescind-journal-v1\n"


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """The additions of one publication: feed entries and tombstones.

    `previous` is the hash (32 bytes) of the payload of the previous record, or `FIRST`. Each change
    acknowledged before `issued_at` is in this record or an earlier one. The feed ends at
    `sequence`. `entries` are encoded. `ends` has for each entry, in CBOR, the expiry of its revoked
    warrants in seconds since 1970, or null. `changes` is the tombstone counter at the previous
    record. `trust` is the version of the trust document, and `log` the newest checkpoint.
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
        """Return the record in a payload. Raises `MalformedBytes`."""
        members = decode(data)
        sequence, entries = number(members, "Sequence"), tuple(items(members, "Entries", bytes))
        ends = tuple(items(members, "Ends", bytes))
        # Entries are in the order of their sequences, up to `Sequence`.
        rising([*(FeedEntry.decode(each).sequence for each in entries), sequence + 1], "Entries")
        if len(ends) != len(entries):
            raise MalformedBytes("Ends must contain one item per entry")
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
        """Return the bytes that the signature of the SRL signer covers."""
        return _PREFIX + payload

    @classmethod
    def verify_and_decode(
        cls, payload: bytes, signature: bytes, *, public_key: bytes, tenant_id: str
    ) -> Self:
        """Return the record, which this SRL signer must have signed. Raises `NotTrusted`."""
        if not ed25519.is_signed(cls.signed_part(payload), signature, public_key=public_key):
            raise NotTrusted(RootReason.SIGNATURE)
        record = decode_payload(cls.decode, payload)
        if record.tenant_id != tenant_id:
            raise NotTrusted(RootReason.TENANT)
        return record

    def follows(self, payload: bytes, number: int) -> bool:
        """Return whether this record directly follows the record with this payload and number."""
        return self.number == number + 1 and self.previous == hashlib.sha256(payload).digest()
