"""The history of lists: a row for each that was published, kept for a while (SRL-22)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from shared.authorizer.formats.wire import Base
from shared.model.items import Address, Partition, Table
from shared.model.lists.content import Content
from shared.model.lists.head import ListHead, version_prefix
from shared.model.records import Record

# How long after its issue a row is kept. A list holds for seven days at most.
KEPT: Final = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class PublishedVersion(Record):
    """A list that was published.

    `sha256` is the hash of its signed bytes, in hex. `added` and `removed` are how many warrants it
    has that the list before lacks, and the reverse; None if that list could not be read. The store
    deletes the row some time after `expires`, in seconds since the epoch.
    """

    version: int
    issued_at: datetime
    expires_at: datetime
    count: int
    key_id: str
    sha256: str
    expires: int
    added: int | None = None
    removed: int | None = None

    @classmethod
    def of(cls, head: ListHead, base: Base, content: Content, before: Sequence[str] | None) -> Self:
        """Return the row of the list that `head` publishes, and that the feed has as `base`.

        `before` are the warrants on the list before, sorted; None if they are not known.
        """
        added, removed = None, None
        if before is not None:
            removed = len(content.missing(before))
            added = head.count - len(before) + removed
        return cls(
            head.version,
            head.issued_at,
            head.expires_at,
            head.count,
            head.key_id,
            base.sha256.hex(),
            int((head.issued_at + KEPT).timestamp()),
            added,
            removed,
        )


def versions(tenant_id: str) -> Partition:
    """Return the partition of a tenant's rows, in order of their versions."""
    return Partition(Table.KEYS, f"{tenant_id}#srl-versions")


def version_address(tenant_id: str, version: int) -> Address:
    """Return the address of the row of this version."""
    return versions(tenant_id).address(version_prefix(version))
