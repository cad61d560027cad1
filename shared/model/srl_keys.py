"""The keys that sign a tenant's lists, and nothing else (decisions 3, SRL)."""

import base64
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shared.model.items import Key, Partition, Table
from shared.model.records import Record

ALGORITHM: Final = "Ed25519"


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
    def key(self) -> Key:
        """Where the signer is stored."""
        return signers(self.tenant_id).key(self.id)

    @property
    def public_bytes(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return base64.b64decode(self.public_key)


def new_seed() -> tuple[bytes, str]:
    """A fresh private seed of 32 bytes, and its public key as `SrlKey` has it."""
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes(
        serialization.Encoding.Raw, serialization.PublicFormat.Raw
    )
    return private.private_bytes_raw(), base64.b64encode(public).decode()


def seal_context(tenant_id: str, key_id: str) -> dict[str, str]:
    """What a sealed seed is bound to: no other tenant, no other key can open it."""
    return {"tenant": tenant_id, "key": key_id}


def signers(tenant_id: str) -> Partition:
    """A tenant's signers, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#srl-keys")
