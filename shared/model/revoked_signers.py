"""Revoked signers: an item for each, and one that counts them (docs/adr/0036)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from shared.model.items import Address, Item, Partition, Table
from shared.model.records import Record
from shared.model.signing_keys import Signer

# The reason of a revocation whose own reason is lost.
LOST: Final = "repaired: a part of this record was lost"


@dataclass(frozen=True, slots=True)
class Marker(Record):
    """Since when a signer is revoked, and why."""

    revoked_at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Count(Record):
    """How many signers a tenant has revoked; `versions` of them are superseded versions.

    `version` counts the writes. The first edition stored the names of the signers in this item
    (`FirstEdition`). Each of the two raises `Corrupt` if it is given the other's item.
    """

    signers: int
    versions: int
    version: int

    @classmethod
    def of(cls, item: Item | None) -> "Count":
        """What the item counts; nothing if the tenant has no item yet."""
        return cls(0, 0, 0) if item is None else cls.from_item(item)

    @classmethod
    def counting(cls, signers: Iterable[Signer]) -> "Count":
        """The count of these signers after one write."""
        versions = [each.key_version for each in signers]
        return cls(len(versions), sum(1 for each in versions if each is not None), 1)


@dataclass(frozen=True, slots=True)
class FirstEdition(Record):
    """All revoked signers of a tenant in one item, as the first edition stored them."""

    signers: tuple[str, ...]
    version: int


def is_of_first_edition(item: Item) -> bool:
    """Whether the item at `count_address` names the revoked signers and does not count them."""
    return isinstance(item.get("signers"), list)


def count_address(tenant_id: str) -> Address:
    """Where the tenant's revoked signers are counted; if nothing is there, none is revoked."""
    return Address(Table.KEYS, tenant_id, "revoked-keys")


def markers(tenant_id: str) -> Partition:
    """The markers of a tenant, each under its signer as text."""
    return Partition(Table.KEYS, f"{tenant_id}#revoked-keys")


def marker_address(tenant_id: str, signer: Signer) -> Address:
    """Where the marker of a signer is, if it is revoked."""
    return markers(tenant_id).address(str(signer))


def by_key(signers: Iterable[str]) -> dict[str, set[int | None]]:
    """The versions that are revoked, by key; None among them stands for all."""
    versions: dict[str, set[int | None]] = {}
    for signer in map(Signer.parse, signers):
        versions.setdefault(signer.key_id, set()).add(signer.key_version)
    return versions


def revoker_of(found: Mapping[Signer, Marker], signer: Signer) -> Marker | None:
    """What revoked the warrants of this version of a key first, if anything did."""
    both = (found.get(signer), found.get(Signer(signer.key_id, None)))
    return min(filter(None, both), key=lambda marker: marker.revoked_at, default=None)
