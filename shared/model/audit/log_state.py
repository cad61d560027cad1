"""The transparency log, as the core reads it. The capability appends to it."""

from datetime import datetime
from typing import Protocol

from shared.model.items import Partition, Table


class LogState(Protocol):
    """The transparency log of a tenant after the last append pass."""

    @property
    def generation(self) -> int:
        """The log generation. A restore starts a new one (LOG-10)."""

    @property
    def size(self) -> int:
        """The number of leaves."""

    @property
    def checkpoint(self) -> str:
        """The newest checkpoint, a signed note."""

    @property
    def counted_from(self) -> datetime | None:
        """The day from which revocations are counted, or None before the first entry."""

    def newest_ms(self, until_ms: int, /) -> int | None:
        """Return the approximate time of the newest appended entry up to `until_ms`, or None."""


class LogSigner(Protocol):
    """A key that signs checkpoints (LOG-9)."""

    @property
    def public_bytes(self) -> bytes:
        """The public key, 32 bytes."""

    def signs(self, now: datetime, /) -> bool:
        """Return whether the key signs checkpoints at `now`."""


def partition(tenant_id: str) -> Partition:
    """Return the partition of a tenant's log head, and of the counts of its revocations."""
    return Partition(Table.AUDIT, f"{tenant_id}#log")
