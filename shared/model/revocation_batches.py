"""Batches of revocations: their requests, results and stored parts (REVOKE-20)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from shared.errors import RescindError
from shared.model.items import Partition, Table
from shared.model.records import Record

# Maximum number of identifiers in one call.
BATCH_MAX: Final = 1000


class BatchAction(StrEnum):
    """The action of a request on all its warrants."""

    REVOKE = "revoke"
    UNREVOKE = "unrevoke"


class BatchOutcome(StrEnum):
    """The outcome for one warrant of a request."""

    REVOKED = "revoked"
    ALREADY_REVOKED = "already_revoked"
    EXTENDED = "extended"
    UNREVOKED = "unrevoked"
    NOT_REVOKED = "not_revoked"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request to revoke or unrevoke warrants.

    `ids` are distinct warrant identifiers, or revocation identifiers if `by_revocation`. `id` is
    None if the request starts a batch. `ends_at` is the expiry of the warrants. `dry_run` makes no
    changes.
    """

    action: BatchAction
    ids: tuple[str, ...]
    reason: str
    by_revocation: bool = False
    id: str | None = None
    ends_at: datetime | None = None
    dry_run: bool = False

    @property
    def call(self) -> str:
        """Digest of the request, which identifies repeated requests.

        The order of the identifiers does not matter.
        """
        asked = "\n".join((self.action, str(self.by_revocation), *sorted(self.ids)))
        return hashlib.sha256(asked.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a request for one identifier. `error` is set if it failed.

    `warrant_id` is set if the identifier is a revocation that was found.
    """

    id: str
    outcome: BatchOutcome
    revocation_id: str | None = None
    error: RescindError | None = None
    warrant_id: str | None = None


@dataclass(frozen=True, slots=True)
class BatchResults:
    """The results of a request, in the order of its identifiers, and its batch."""

    batch_id: str
    results: list[BatchResult]


@dataclass(frozen=True, slots=True)
class BatchPart(Record):
    """The warrants that one write of a batch revoked or unrevoked, and their revocations.

    The two tuples have the same length and order.
    """

    action: BatchAction
    warrant_ids: tuple[str, ...]
    revocation_ids: tuple[str, ...]

    @property
    def pairs(self) -> Sequence[tuple[str, str]]:
        """Each warrant with its revocation."""
        return list(zip(self.warrant_ids, self.revocation_ids, strict=True))


def parts(tenant_id: str, batch_id: str) -> Partition:
    """Return the partition of the parts of a batch, grouped by request."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#batch#{batch_id}")


def part_sk(call: str, entry_id: str) -> str:
    """Return the sort key of the part that was written with this audit entry."""
    return f"{call}#{entry_id}"


def around_parts_of(call: str) -> tuple[str, str]:
    """Return two sort keys that enclose the parts of a request."""
    return f"{call}#", f"{call}$"
