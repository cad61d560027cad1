"""Feed: numbered entries that revoke and unrevoke warrants (FEED-1).

The wire format is `shared.authorizer.formats.wire`, which feed clients use too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

import cbor2

from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import Base, FeedEntry, MalformedBytes
from shared.errors import DataCorrupt
from shared.model import times
from shared.model.items import Address, Partition, Table
from shared.model.records import SPARSE, Record

# Maximum number of warrants in an entry. With the longest identifiers, it fits an item of DynamoDB.
ENTRY_MAX: Final = 4_000

# Maximum size of entries, in bytes, before an SRL is published as the next base. Base64 adds a
# third, and a response has at most 4 MiB.
UNLISTED_MAX: Final = 2 * 2**20

# Maximum wait for the end of a publication window by the function that a change wakes. Other
# tenants may wait for this function, so longer windows are left to the scheduler (FEED-5).
SOON_SECONDS: Final = 1.5

# Sequence jump after a restore or theft, which exceeds every sequence that clients have seen.
LEAP: Final = 2**20

# The sort key of the feed head. It sorts after the keys of all entries.
HEAD: Final = "head"
_FEED: Final = "#feed"

_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class StoredEntry(Record):
    """A stored entry: its bytes, and the expiry of each revoked warrant.

    `ends` is CBOR: seconds since 1970, or null if unknown, for each warrant in `Revoked`. `chain`
    is the chain hash (32 bytes) at this entry. `changes` are the revoked signing keys that are
    completely published by this entry and its predecessors.
    """

    entry: bytes
    ends: bytes
    issued_at: datetime
    chain: bytes = b""
    changes: tuple[str, ...] = field(default=(), metadata=SPARSE)

    @classmethod
    def of(
        cls,
        entry: FeedEntry,
        ends: Sequence[datetime | None],
        issued_at: datetime,
        *,
        follows: bytes,
        changes: tuple[str, ...] = (),
    ) -> "StoredEntry":
        """Return an entry to store after the chain hash `follows`.

        `ends` are the expiries of `entry.revoked`, in the same order.
        """
        data = entry.encode()
        chain = wire.next_chain(follows, data)
        return cls(data, encoded_ends(ends), issued_at, chain, changes)

    def decode(self) -> tuple[FeedEntry, list[datetime | None]]:
        """Return the entry and the expiries of its revoked warrants. Raises `DataCorrupt`."""
        try:
            entry, seconds = FeedEntry.decode(self.entry), cbor2.loads(self.ends)
            ends = [None if at is None else times.from_seconds(at) for at in seconds]
        except (MalformedBytes, cbor2.CBORError, TypeError, ValueError, OverflowError):
            raise DataCorrupt("a feed entry is malformed") from None
        if len(ends) != len(entry.revoked):
            raise DataCorrupt("a feed entry lacks the expiry of a warrant")
        return entry, ends


def encoded_ends(ends: Sequence[datetime | None]) -> bytes:
    """Return the expiries of an entry's revoked warrants, in their stored form."""
    return cbor2.dumps([None if at is None else int(at.timestamp()) for at in ends])


@dataclass(frozen=True)
class FeedHead(Record):
    """The signed head of a tenant's feed.

    `payload` is the encoded `wire.Head`. `signature` contains the 64 bytes over
    `wire.signed_part(payload)` by the SRL signer `key_id`. `broke_at` is the sequence of the last
    discontinuity, or 0. `published_ms` is the time of the last entry. `unlisted_bytes` is at least
    the size of the entries after the base. All changes in those entries were made after
    `unlisted_ms`. All changes acknowledged before `covered_ms` are in the feed. Times are in
    milliseconds since 1970.
    """

    payload: bytes
    signature: bytes
    key_id: str
    broke_at: int = 0
    published_ms: int = 0
    unlisted_bytes: int = 0
    version: int = 1
    unlisted_ms: int = 0
    covered_ms: int = 0

    @cached_property
    def signed_head(self) -> wire.SignedHead:
        """The decoded payload. Raises `DataCorrupt`."""
        try:
            return wire.SignedHead.decode(self.payload)
        except MalformedBytes as error:
            raise DataCorrupt(f"a feed head is malformed: {error}") from None

    @property
    def sequence(self) -> int:
        """The sequence of the last entry; 0 before the first."""
        return self.signed_head.sequence

    @property
    def base(self) -> Base:
        """The current SRL, which covers the entries up to its sequence."""
        return self.signed_head.base

    @property
    def is_broken(self) -> bool:
        """Whether a discontinuity follows the base. Clients then wait for the next SRL."""
        return self.broke_at > self.base.sequence

    @property
    def needs_list(self) -> bool:
        """Whether an SRL must be published immediately.

        This is the case after a discontinuity, and before the entries since the base exceed one
        response.
        """
        return self.is_broken or self.unlisted_bytes > UNLISTED_MAX

    def is_ahead(self, now: datetime) -> bool:
        """Return whether clients reject it because its clock was ahead (FEED-2)."""
        return self.signed_head.issued_at > now + wire.FUTURE_MAX

    def unlisted_since(self, listed_at: datetime) -> datetime | None:
        """Return a time before all changes in the feed that the base lacks.

        None if the base contains all changes. `listed_at` is the issue time of the base.
        """
        if self.sequence == self.base.sequence:
            return None
        return _moment(self.unlisted_ms) or listed_at

    def with_base_issued_at(self, at: datetime) -> "FeedHead":
        """Return the head for a base issued `at`. The base lacks only later changes."""
        return replace(self, unlisted_ms=milliseconds(at))

    @property
    def covered_at(self) -> datetime | None:
        """All changes acknowledged before this time are in the feed. None if unknown."""
        return _moment(self.covered_ms)


@dataclass(frozen=True, slots=True)
class PublishedEntry:
    """The first feed entry that makes clients refuse a warrant.

    `chains` has the chain hash (32 bytes) at each entry from this one on, or is empty if not
    stored.
    """

    sequence: int
    issued_at: datetime
    chains: Mapping[int, bytes]


def milliseconds(moment: datetime | None) -> int:
    """Return a time in milliseconds since 1970; 0 for None."""
    return 0 if moment is None else int(moment.timestamp() * 1000)


def _moment(at: int) -> datetime | None:
    return datetime.fromtimestamp(at / 1000, UTC) if at else None


def feed_partition(tenant_id: str) -> Partition:
    """Return the partition of a tenant's entries, in order of sequence, and then the feed head."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}{_FEED}")


def head_address(tenant_id: str) -> Address:
    """Return the address of a tenant's feed head, which sorts after all entries."""
    return feed_partition(tenant_id).address(HEAD)


def is_head(address: Address) -> bool:
    """Return whether this is the address of a feed head."""
    return address.sk == HEAD and address.pk.endswith(_FEED)


def entry_address(tenant_id: str, sequence: int) -> Address:
    """Return the address of the entry with this sequence."""
    return feed_partition(tenant_id).address(entry_sk(sequence))


def entry_sk(sequence: int) -> str:
    """Return the sort key of the entry with this sequence."""
    return f"{sequence:0{_DIGITS}d}"
