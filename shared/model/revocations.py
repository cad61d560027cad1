"""Revocations of warrants (REVOKE-1) and of signers.

Each revoked signer has a marker, and one item counts them (docs/adr/07).
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from shared.authorizer.formats.cutoffs import subject_of
from shared.model import times
from shared.model.callers import Caller
from shared.model.identifiers import REVOCATION, before_all_of
from shared.model.items import Address, Item, Partition, Table, Value
from shared.model.records import Record
from shared.model.signing_keys import WarrantSigner
from shared.model.warrants import OtherMaker

# Numbers of partitions of the revoked warrants with their counters, and of the records. Each
# partition accepts 1,000 write units per second (docs/adr/02).
SHARDS: Final = 16
RECORD_SHARDS: Final = 8
# Counters per shard: enough that concurrent writes rarely share one, few enough to read at once.
COUNTERS: Final = 16

# An earlier expiry is a date that was left empty or mistyped, because no warrant expired then.
EARLIEST_END: Final = datetime(2000, 1, 1, tzinfo=UTC)

# A warrant omitted from the SRL for longer than this does not return, even if the lifetime of SRLs
# is raised.
LONG_AGO: Final = timedelta(days=30)

# An identifier is created moments before the time in its record.
_ID_APART: Final = timedelta(minutes=1)
_LATEST: Final = datetime(9999, 1, 1, tzinfo=UTC)

# Sorts after each character of a warrant identifier.
_AFTER_NAMES: Final = "~"

# The counters sort before every warrant identifier.
_COUNTER: Final = "#count"

# Replaces the lost reason of a revocation.
LOST: Final = "repaired: a part of this record was lost"


@dataclass(frozen=True, slots=True)
class Revocation(Record):
    """The record of a revocation: listed in order of time, and deleted by its identifier.

    `batch_id` is the batch, if any, that revoked the warrant. `actor_key_id` is the API key of the
    request, and `created_by_name` its name at that time, if any. `created_by_id` is the revoking
    person, if any, because an e-mail in `created_by` may belong to another person later.
    `token_issuer` and `token_value` are set if the request named a token.
    """

    id: str
    warrant_id: str
    reason: str
    created_at: datetime
    created_by: str
    batch_id: str | None = None
    actor_key_id: str | None = None
    created_by_name: str | None = None
    created_by_id: str | None = None
    token_issuer: str | None = None
    token_value: str | None = None

    def is_by(self, caller: Caller) -> bool:
        """Return whether the caller made the revocation."""
        return is_maker(caller, self.created_by, self.created_by_id)

    def compare_maker(self, caller: Caller) -> OtherMaker | None:
        """Return how the caller differs from the maker, or None if they are the same."""
        if not self.is_by(caller):
            return OtherMaker.IDENTITY
        # An administrator can create or rotate a key of any account, and would then share its
        # identity.
        has_key = caller.person_id is not None or self.actor_key_id == caller.key_id
        return None if has_key else OtherMaker.KEY


@dataclass(frozen=True, slots=True)
class RevocationFilters:
    """The revocations to return, which match all values other than None (REVOKE-30).

    `start` and `end` are whole seconds, and both are inclusive. `reason` is a part of the reason in
    any case. `warrant_prefix` is the prefix of the warrant identifier.
    """

    warrant_id: str | None = None
    batch_id: str | None = None
    created_by: str | None = None
    actor_key_id: str | None = None
    reason: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    warrant_prefix: str | None = None

    @property
    def are_selective(self) -> bool:
        """Whether matching requires reading the records."""
        return self.created_by is not None or bool(self.actor_key_id or self.reason)

    @property
    def lower_bound(self) -> str | None:
        """A text that sorts before the identifiers of all records since `start`."""
        if self.start is None:
            return None
        return before_all_of(max(self.start, EARLIEST_END) - _ID_APART, kind=REVOCATION)

    @property
    def upper_bound(self) -> str | None:
        """A text that sorts after the identifiers of all records until `end`."""
        if self.end is None:
            return None
        return before_all_of(min(self.end, _LATEST) + _ID_APART, kind=REVOCATION)

    @property
    def names_after(self) -> str | None:
        """A text that sorts before the warrants of `warrant_prefix`, after all lesser ones."""
        prefix = self.warrant_prefix
        return prefix and prefix[:-1] + chr(ord(prefix[-1]) - 1) + _AFTER_NAMES

    @property
    def names_before(self) -> str | None:
        """A text that sorts after the warrants of `warrant_prefix`, before all greater ones."""
        return self.warrant_prefix and self.warrant_prefix + _AFTER_NAMES

    def hold(self, record: Revocation) -> bool:
        """Return whether a record matches."""
        equal = ("warrant_id", "batch_id", "created_by", "actor_key_id")
        wanted = ((getattr(self, name), getattr(record, name)) for name in equal)
        return (
            all(value in (None, found) for value, found in wanted)
            and record.warrant_id.startswith(self.warrant_prefix or "")
            and (self.reason is None or self.reason.casefold() in record.reason.casefold())
            and (self.start is None or record.created_at >= self.start)
            and (self.end is None or times.truncate_to_second(record.created_at) <= self.end)
        )


@dataclass(frozen=True, slots=True)
class RevokedWarrant(Record):
    """A revoked warrant, as a publication reads it from the `shards`.

    `ends_at` is the expiry of the warrant, if it was signed or given with the revocation.
    """

    ends_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class WarrantStatus:
    """Revocation status of a warrant: time and reason if revoked, and expiry if known.

    `by_key`: the warrant itself was not revoked, but its signing key was.
    """

    warrant_id: str
    revoked_at: datetime | None = None
    reason: str | None = None
    ends_at: datetime | None = None
    by_key: bool = False

    @property
    def revoked(self) -> bool:
        """Whether the warrant is revoked."""
        return self.revoked_at is not None


def is_maker(caller: Caller, created_by: Value, created_by_id: Value) -> bool:
    """Return whether a caller made a revocation. Identities other than people are unique."""
    if created_by_id is not None or caller.person_id is not None:
        return created_by_id == caller.person_id
    return created_by == caller.identity


def records_prefix(tenant_id: str) -> str:
    """Return the common prefix of the partition keys of `records`, unique to them."""
    return f"{tenant_id}#revocations"


def records(tenant_id: str) -> list[Partition]:
    """Return the partitions of a tenant's revocation records, each in order of creation."""
    return [_records(tenant_id, number) for number in range(RECORD_SHARDS)]


def record_address(tenant_id: str, revocation_id: str) -> Address:
    """Return the address of a record."""
    number = _digest(revocation_id)[0] % RECORD_SHARDS
    return _records(tenant_id, number).address(revocation_id)


def shards(tenant_id: str) -> list[Partition]:
    """Return the partitions of a tenant's revoked warrants."""
    return [_shard(tenant_id, number) for number in range(SHARDS)]


def counter_address(tenant_id: str, warrant_id: str) -> Address:
    """Return the address of a warrant's counter, with `count` of warrants and total `changes`.

    The numbers of a shard are the sums of all its counters, which sort before its warrants.
    """
    number = counter_number(warrant_id) // SHARDS
    return shard_of(tenant_id, warrant_id).address(f"{_COUNTER}#{number:02x}")


def repaired_counter_address(shard: Partition) -> Address:
    """Return the address of the shard counter that repairs add to."""
    return shard.address(f"{_COUNTER}#00")


def counter_number(name: str) -> int:
    """Return the number of the counter for a warrant, among all counters of a tenant."""
    digest = _digest(subject_of(name) or name)
    return digest[0] % SHARDS + SHARDS * (digest[1] % COUNTERS)


def shard_of(tenant_id: str, warrant_id: str) -> Partition:
    """Return the shard of a warrant."""
    return _shard(tenant_id, shard_number(warrant_id))


def ended_partition(shard: Partition) -> Partition:
    """Return the partition of a shard's warrants past retention, by expiry (docs/adr/09)."""
    return Partition(shard.table, f"{shard.pk}#ended")


def shard_number(name: str) -> int:
    """Return the shard number of `name`, from a hash that spreads the load.

    All cutoffs of a subject share a shard, in order of time.
    """
    return _digest(subject_of(name) or name)[0] % SHARDS


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def _records(tenant_id: str, number: int) -> Partition:
    return Partition(Table.REVOCATIONS, records_prefix(tenant_id) + (f"#{number}" * bool(number)))


@lru_cache(maxsize=1024)
def _shard(tenant_id: str, number: int) -> Partition:
    return Partition(Table.REVOCATIONS, f"{tenant_id}#revoked#{number:02x}")


@dataclass(frozen=True, slots=True)
class SignerRevocation(Record):
    """The time and reason of a signer's revocation."""

    revoked_at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class RevokedSignerCount(Record):
    """The number of a tenant's revoked signers, `versions` of them superseded versions.

    `version` counts the writes.
    """

    signers: int
    versions: int
    version: int

    @classmethod
    def of(cls, item: Item | None) -> "RevokedSignerCount":
        """Return the count in an item; 0 if the tenant has no item yet."""
        return cls(0, 0, 0) if item is None else cls.from_item(item)

    @classmethod
    def counting(cls, signers: Iterable[WarrantSigner]) -> "RevokedSignerCount":
        """Return the count of these signers, as after one write."""
        versions = [each.key_version for each in signers]
        return cls(len(versions), sum(1 for each in versions if each is not None), 1)


def marker_count_address(tenant_id: str) -> Address:
    """Return the address of the count of revoked signers. Without an item, none is revoked."""
    return Address(Table.KEYS, tenant_id, "revoked-keys")


def markers(tenant_id: str) -> Partition:
    """Return the partition of a tenant's markers. The sort key is the signer as text."""
    return Partition(Table.KEYS, f"{tenant_id}#revoked-keys")


def marker_address(tenant_id: str, signer: WarrantSigner) -> Address:
    """Return the address of the marker of a signer. Only a revoked signer has one."""
    return markers(tenant_id).address(str(signer))


def by_key(signers: Iterable[str]) -> dict[str, set[int | None]]:
    """Return the revoked versions of each key. None means all versions."""
    versions: dict[str, set[int | None]] = {}
    for signer in map(WarrantSigner.parse, signers):
        versions.setdefault(signer.key_id, set()).add(signer.key_version)
    return versions


def revoker_of(
    markers: Mapping[WarrantSigner, SignerRevocation], signer: WarrantSigner
) -> SignerRevocation | None:
    """Return the earliest marker that applies to this version of a key, or None."""
    both = (markers.get(signer), markers.get(WarrantSigner(signer.key_id, None)))
    return min(filter(None, both), key=lambda marker: marker.revoked_at, default=None)
