"""Tombstones of revoked, deleted and disabled records, stored with the SRLs (docs/adr/14)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from shared.errors import DataCorrupt
from shared.model.items import Address, Partition, Table
from shared.model.records import Record
from shared.model.signing_keys import SigningKey


class TombstoneStatus(StrEnum):
    """Why an API key or a service account ended, or, for a rotated key, will end."""

    REVOKED = "revoked"
    ROTATED = "rotated"
    DELETED = "deleted"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Tombstone(Record):
    """An API key or a service account that no longer gives access.

    `digest` finds the credential of an API key. `at` is the time of the revocation or deletion, or
    the expiry of a rotated key. `successor_id` is the successor of a rotated key.
    """

    id: str
    status: TombstoneStatus
    at: datetime | None = None
    digest: str | None = None
    successor_id: str | None = None


@dataclass(frozen=True, slots=True)
class Tombstones:
    """All tombstones of a tenant, each kind in order of identifier.

    `changes` is the counter that was read before them. The tombstones are unchanged as long as it
    is. `keys` are revoked or suspended signing keys, and all versions of rotated keys, without
    seeds.
    """

    changes: int = 0
    api_keys: tuple[Tombstone, ...] = ()
    accounts: tuple[Tombstone, ...] = ()
    keys: tuple[SigningKey, ...] = ()

    def members(self) -> dict[str, Any]:
        """Return the tombstones as maps, lists and text."""
        return {
            "Changes": self.changes,
            "ApiKeys": [each.to_item() for each in self.api_keys],
            "Accounts": [each.to_item() for each in self.accounts],
            "Keys": [each.to_item() for each in self.keys],
        }

    @classmethod
    def of(cls, members: dict[str, Any]) -> "Tombstones":
        """Return the tombstones from the output of `members`. Raises `DataCorrupt`."""
        try:
            return cls(
                changes=int(members["Changes"]),
                api_keys=tuple(map(Tombstone.from_item, members["ApiKeys"])),
                accounts=tuple(map(Tombstone.from_item, members["Accounts"])),
                keys=tuple(map(SigningKey.from_item, members["Keys"])),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            raise DataCorrupt("the tombstones in a state are malformed") from None


def sorted_by_id(tombstones: Iterable[Tombstone]) -> tuple[Tombstone, ...]:
    """Return these tombstones in order of identifier."""
    return tuple(sorted(tombstones, key=lambda each: each.id))


def deleted_partition(tenant_id: str) -> Partition:
    """Return the partition of the tombstones of deleted records, by identifier."""
    return Partition(Table.KEYS, f"{tenant_id}#tombstones")


def counter_address(tenant_id: str) -> Address:
    """Return the address of the counter of changes to tombstones, in the attribute `changes`."""
    return Address(Table.KEYS, tenant_id, "counts#tombstones")
