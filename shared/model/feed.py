"""The feed: numbered entries that say which warrants were revoked or removed since (FEED-1).

The wire format is `shared.authorizer.formats.wire`, which clients of the feed use too.
"""

from collections.abc import Sequence
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

# The most warrants in one entry: with the longest identifiers, an item of DynamoDB holds it.
ENTRY_MAX: Final = 4_000

# The most bytes of entries before a list is published as the next base. In base64 they are a third
# more, and an answer has 4 MiB at most.
UNLISTED_MAX: Final = 2 * 2**20

# How long the function that is woken by a change waits for the end of a window. Other tenants may
# wait for it, so what needs more is left to the schedule (FEED-5).
SOON_SECONDS: Final = 1.5

# A restore or a theft adds this to the sequence, so that it exceeds those that clients have seen.
LEAP: Final = 2**20

# The sort key of the head. It sorts after those of all entries.
HEAD: Final = "head"
_FEED: Final = "#feed"

_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class StoredEntry(Record):
    """An entry as it is stored: its bytes, and when each warrant that it revokes ends.

    `ends` is CBOR: for each warrant in `Revoked`, seconds since 1970, or null if it is not known.
    `chain` is the chain (32 bytes) at this entry.
    `changes` are the revoked signing keys that this entry and those before it state wholly.
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
        """Return an entry to store that follows the chain `follows`.

        `ends` are those of `entry.revoked`, in the same order.
        """
        data = entry.encode()
        chain = wire.next_chain(follows, data)
        return cls(data, encoded_ends(ends), issued_at, chain, changes)

    def decode(self) -> tuple[FeedEntry, list[datetime | None]]:
        """Return the entry, and the ends of the warrants that it revokes. Raises `DataCorrupt`."""
        try:
            entry, seconds = FeedEntry.decode(self.entry), cbor2.loads(self.ends)
            ends = [None if at is None else times.from_seconds(at) for at in seconds]
        except (MalformedBytes, cbor2.CBORError, TypeError, ValueError, OverflowError):
            raise DataCorrupt("an entry of the feed is malformed") from None
        if len(ends) != len(entry.revoked):
            raise DataCorrupt("an entry of the feed lacks the end of a warrant")
        return entry, ends


def encoded_ends(ends: Sequence[datetime | None]) -> bytes:
    """Return the ends of the warrants that an entry revokes, as they are stored beside it."""
    return cbor2.dumps([None if at is None else int(at.timestamp()) for at in ends])


@dataclass(frozen=True)
class FeedHead(Record):
    """The signed head of a tenant's feed.

    `payload` is the encoded `wire.Head`, `signature` the 64 bytes over `wire.signed_part(payload)`
    by the list signer `key_id`. `broke_at` is the sequence of the last break, 0 if there is none.
    `published_ms` is when the last entry was published, in milliseconds since 1970.
    `unlisted_bytes` is at least the size of the entries that the base does not cover. In
    milliseconds since 1970, `unlisted_ms` is a moment before which nothing was changed that only
    those entries state, and `covered_ms` one before which every acknowledged change is in the feed.
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
        """The signed bytes. Raises `DataCorrupt`."""
        try:
            return wire.SignedHead.decode(self.payload)
        except MalformedBytes as error:
            raise DataCorrupt(f"the head of a feed is malformed: {error}") from None

    @property
    def sequence(self) -> int:
        """The sequence of the last entry; 0 before the first."""
        return self.signed_head.sequence

    @property
    def base(self) -> Base:
        """The list in force, which covers the entries up to its sequence."""
        return self.signed_head.base

    @property
    def is_broken(self) -> bool:
        """Whether a break is not covered by the base: clients cannot go on before the next list."""
        return self.broke_at > self.base.sequence

    @property
    def needs_list(self) -> bool:
        """Whether a list is to be published at once.

        That is so after a break, and before the entries since the base exceed one answer.
        """
        return self.is_broken or self.unlisted_bytes > UNLISTED_MAX

    def is_ahead(self, now: datetime) -> bool:
        """Return whether clients refuse it because it is of a clock that was ahead (FEED-2)."""
        return self.signed_head.issued_at > now + wire.FUTURE_MAX

    def unlisted_since(self, listed_at: datetime) -> datetime | None:
        """Return since when, at the earliest, the base lacks a change that is in the feed.

        None if it has them all. `listed_at` is when the base was issued.
        """
        if self.sequence == self.base.sequence:
            return None
        return _moment(self.unlisted_ms) or listed_at

    def with_base_issued_at(self, at: datetime) -> "FeedHead":
        """Return the head for a base that was issued `at`: what that lacks was changed later."""
        return replace(self, unlisted_ms=milliseconds(at))

    @property
    def covered_at(self) -> datetime | None:
        """A moment before which every acknowledged change is in the feed; None if not known."""
        return _moment(self.covered_ms)


def milliseconds(moment: datetime | None) -> int:
    """Return a moment in milliseconds since 1970; 0 for None."""
    return 0 if moment is None else int(moment.timestamp() * 1000)


def _moment(at: int) -> datetime | None:
    return datetime.fromtimestamp(at / 1000, UTC) if at else None


def feed_partition(tenant_id: str) -> Partition:
    """Return the partition of a tenant's entries, in order of sequence, and then the head."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}{_FEED}")


def head_address(tenant_id: str) -> Address:
    """Return the address of the head of a tenant's feed, which sorts after all entries."""
    return feed_partition(tenant_id).address(HEAD)


def is_head(address: Address) -> bool:
    """Return whether this is the address of the head of a feed."""
    return address.sk == HEAD and address.pk.endswith(_FEED)


def entry_address(tenant_id: str, sequence: int) -> Address:
    """Return the address of the entry with this sequence."""
    return feed_partition(tenant_id).address(entry_sk(sequence))


def entry_sk(sequence: int) -> str:
    """Return the sort key of the entry with this sequence."""
    return f"{sequence:0{_DIGITS}d}"
