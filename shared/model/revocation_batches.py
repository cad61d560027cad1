"""Batches of revocations: what one call asks for, and what is stored of it (REVOKE-20)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from shared.errors import RescindError
from shared.model.items import Partition, Table
from shared.model.records import Record


class BatchAction(StrEnum):
    """The act of a call on all its warrants."""

    REVOKE = "revoke"
    TAKE_BACK = "take_back"


class BatchOutcome(StrEnum):
    """The outcome for one warrant of a call."""

    REVOKED = "revoked"
    ALREADY_REVOKED = "already_revoked"
    EXTENDED = "extended"
    TAKEN_BACK = "taken_back"
    NOT_REVOKED = "not_revoked"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """One call: revoke warrants, or take revocations back.

    `ids` are identifiers of warrants, each once; if `by_revocation`, they are those of revocations.
    `id` is None if the call begins a batch. `ends_at` is when the warrants themselves end. With
    `dry_run` nothing is changed.
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
        """A text by which a repeated call is recognized: a digest of what it asks for.

        The order of the identifiers does not matter.
        """
        asked = "\n".join((self.action, str(self.by_revocation), *sorted(self.ids)))
        return hashlib.sha256(asked.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a call for one identifier. `error` is set if it failed.

    `warrant_id` is set if the identifier is that of a revocation which was found.
    """

    id: str
    outcome: BatchOutcome
    revocation_id: str | None = None
    error: RescindError | None = None
    warrant_id: str | None = None


@dataclass(frozen=True, slots=True)
class BatchResults:
    """The results of a call, in the order of its identifiers, and the batch that it belongs to."""

    batch_id: str
    results: list[BatchResult]


@dataclass(frozen=True, slots=True)
class BatchPart(Record):
    """The warrants that one write of a batch revoked or restored, and their revocations.

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
    """Return the partition of the parts of a batch, those of one call together."""
    return Partition(Table.REVOCATIONS, f"{tenant_id}#batch#{batch_id}")


def part_sk(call: str, entry_id: str) -> str:
    """Return the sort key of the part whose write has this audit entry."""
    return f"{call}#{entry_id}"


def around_parts_of(call: str) -> tuple[str, str]:
    """Return two sort keys between which the parts of a call are."""
    return f"{call}#", f"{call}$"
