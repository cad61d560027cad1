"""The keys that sign a tenant's lists, and nothing else (decisions 3, SRL)."""

import base64
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from shared.model import seeds
from shared.model.items import Key, Partition, Table
from shared.model.records import Record
from shared.model.seeds import ALGORITHM, Purpose


class Status(StrEnum):
    """One key of a tenant is active; those before it are rotated."""

    ACTIVE = "active"
    ROTATED = "rotated"


@dataclass(frozen=True, slots=True)
class SrlKey(Record):
    """A signer. `public_key` is base64 of the 32 raw bytes; the seed is stored only sealed."""

    id: str
    tenant_id: str
    public_key: str
    status: Status
    created_at: datetime
    sealed_seed: bytes = field(repr=False)
    version: int = 1

    @property
    def algorithm(self) -> str:
        """What the public key is for."""
        return ALGORITHM

    @property
    def key(self) -> Key:
        """Where the signer is stored."""
        return signers(self.tenant_id).key(self.id)

    @property
    def seal_context(self) -> dict[str, str]:
        """What the sealed seed is bound to."""
        return seeds.seal_context(self.tenant_id, self.id, purpose=Purpose.SRL)

    @property
    def public_bytes(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return base64.b64decode(self.public_key)


def signers(tenant_id: str) -> Partition:
    """A tenant's signers, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#srl-keys")
