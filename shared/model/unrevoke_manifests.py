"""Manifests: revocations that one approval allows to unrevoke together (REVOKE-26).

Manifests are immutable. The parts contain the members, sorted by identifier.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from shared.model.items import Address, Partition, Table, Value
from shared.model.records import Record
from shared.model.revocations import Revocation

MEMBERS_MAX: Final = 50_000
# A part has less than 100 KB, and one request can unrevoke its members in time.
PART_SIZE: Final = 500
# An item can contain this number of groups with reasons of any length.
GROUPS_MAX: Final = 50
# Equal to the listing period of approvals.
KEPT: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class UnrevokeManifest(Record):
    """A list of `count` revocations. `groups` is the result of `count_groups`.

    Its changes belong to the batch `unrevoke_batch_id`. The store removes the item some time after
    `expires`, which is `expires_at` in seconds since the epoch.
    """

    id: str
    tenant_id: str
    unrevoke_batch_id: str
    sha256: str
    count: int
    groups: tuple[dict[str, Value], ...]
    created_by: str
    created_at: datetime
    expires_at: datetime
    expires: int

    @property
    def address(self) -> Address:
        """The address of the manifest."""
        return manifests(self.tenant_id).address(self.id)

    @property
    def parts(self) -> int:
        """The number of its parts."""
        return -(-self.count // PART_SIZE)

    def part_address(self, number: int) -> Address:
        """Return the address of a part, from 1. Separate partitions spread the writes."""
        return Address(Table.KEYS, f"{self.tenant_id}#unrevoke-manifest#{self.id}#{number}")


@dataclass(frozen=True, slots=True)
class ManifestPart(Record):
    """Up to `PART_SIZE` members with their warrants, in equal order.

    The store removes the item some time after `expires`, in seconds since the epoch.
    """

    revocation_ids: tuple[str, ...]
    warrant_ids: tuple[str, ...]
    expires: int


@dataclass(frozen=True, slots=True)
class Member:
    """A member in a listing. `created_by` and `reason` are None if the revocation is deleted."""

    revocation_id: str
    warrant_id: str
    created_by: str | None
    reason: str | None


def manifests(tenant_id: str) -> Partition:
    """Return the partition of a tenant's manifests."""
    return Partition(Table.KEYS, f"{tenant_id}#unrevoke-manifests")


def hash_members(revocation_ids: Iterable[str]) -> str:
    """Return the SHA-256 of sorted identifiers, each followed by a line feed, in hex."""
    return hashlib.sha256("".join(f"{each}\n" for each in revocation_ids).encode()).hexdigest()


def count_groups(records: Sequence[Revocation]) -> tuple[dict[str, Value], ...]:
    """Return the number of revocations by identity and reason, the most frequent first.

    If there are more than `GROUPS_MAX` groups, a last group without names contains the rest.
    """
    counted = Counter((each.created_by, each.created_by_id, each.reason) for each in records)
    groups: list[dict[str, Value]] = [
        {"created_by": by, "created_by_id": by_id, "reason": reason, "count": number}
        for (by, by_id, reason), number in counted.most_common(GROUPS_MAX)
    ]
    if len(counted) > GROUPS_MAX:
        nobody: dict[str, Value] = dict.fromkeys(("created_by", "created_by_id", "reason"))
        shown = sum(number for _, number in counted.most_common(GROUPS_MAX))
        groups.append(nobody | {"count": len(records) - shown})
    return tuple(groups)
