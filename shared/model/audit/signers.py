"""Audit signers: the keys that sign checkpoints of the sealed log (LOG-9)."""

import base64
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from shared.model import seeds, times
from shared.model.audit.checkpoint import NoteKey
from shared.model.items import Address, Partition, Table
from shared.model.records import SPARSE, Record
from shared.model.seeds import ALGORITHM, SeedPurpose


@dataclass(frozen=True, slots=True)
class AuditSigner(Record):
    """A key that signs checkpoints.

    `public_key` is base64 of the 32 raw bytes. `signs_until` is None for the current signer. One
    that was replaced signs until then, beside its successor. `precedes_log` is true if it was made
    before the log had a head: then it does not say that there was one.
    """

    id: str
    tenant_id: str
    public_key: str
    created_at: datetime
    sealed_seed: bytes | None = field(repr=False)
    version: int = 1
    signs_until: datetime | None = None
    precedes_log: bool = field(default=False, metadata=SPARSE)

    @property
    def algorithm(self) -> str:
        """The algorithm of the key."""
        return ALGORITHM

    @property
    def address(self) -> Address:
        """Where the record is stored."""
        return signers(self.tenant_id).address(self.id)

    @property
    def seal_context(self) -> dict[str, str]:
        """The context that the sealed seed is bound to."""
        return seeds.seal_context(self.tenant_id, self.id, purpose=SeedPurpose.AUDIT)

    def key(self, origin: str) -> NoteKey:
        """Return the public key as notes of this origin mention it."""
        return NoteKey(origin, base64.b64decode(self.public_key))

    def signs(self, now: datetime) -> bool:
        """Return whether the key signs checkpoints at `now`."""
        return not times.has_passed(self.signs_until, now)

    def replaced(self, *, signs_until: datetime) -> Self:
        """Return the key, replaced by another one."""
        return replace(self, version=self.version + 1, signs_until=signs_until)

    def ended(self) -> Self:
        """Return the key without its seed, because it has ceased to sign."""
        return replace(self, version=self.version + 1, sealed_seed=None)


def signers(tenant_id: str) -> Partition:
    """Return the partition of a tenant's audit signers, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#audit-keys")
