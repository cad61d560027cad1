"""Revoked signers: one item for each, and one item that counts them (docs/adr/07)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.model.items import Address, Item, Partition, Table
from shared.model.records import Record
from shared.model.signing_keys import Signer

# The reason of a revocation whose own reason was lost.
LOST: Final = "repaired: a part of this record was lost"


@dataclass(frozen=True, slots=True)
class Marker(Record):
    """When a signer was revoked, and why."""

    revoked_at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Count(Record):
    """The number of signers that a tenant has revoked; `versions` of them are superseded versions.

    `version` counts the writes.
    """

    signers: int
    versions: int
    version: int

    @classmethod
    def of(cls, item: Item | None) -> "Count":
        """Return the count in an item; 0 if the tenant has no item yet."""
        return cls(0, 0, 0) if item is None else cls.from_item(item)

    @classmethod
    def counting(cls, signers: Iterable[Signer]) -> "Count":
        """Return the count of these signers, as after one write."""
        versions = [each.key_version for each in signers]
        return cls(len(versions), sum(1 for each in versions if each is not None), 1)


def count_address(tenant_id: str) -> Address:
    """Return the address of the count of revoked signers. Without an item, none is revoked."""
    return Address(Table.KEYS, tenant_id, "revoked-keys")


def markers(tenant_id: str) -> Partition:
    """Return the partition of a tenant's markers. The sort key is the signer as text."""
    return Partition(Table.KEYS, f"{tenant_id}#revoked-keys")


def marker_address(tenant_id: str, signer: Signer) -> Address:
    """Return the address of the marker of a signer. Only a revoked signer has one."""
    return markers(tenant_id).address(str(signer))


def by_key(signers: Iterable[str]) -> dict[str, set[int | None]]:
    """Return the revoked versions of each key; None stands for all versions of it."""
    versions: dict[str, set[int | None]] = {}
    for signer in map(Signer.parse, signers):
        versions.setdefault(signer.key_id, set()).add(signer.key_version)
    return versions


def revoker_of(found: Mapping[Signer, Marker], signer: Signer) -> Marker | None:
    """Return the earliest marker that applies to this version of a key, or None."""
    both = (found.get(signer), found.get(Signer(signer.key_id, None)))
    return min(filter(None, both), key=lambda marker: marker.revoked_at, default=None)
