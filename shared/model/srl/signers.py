"""The keys that sign a tenant's lists (SIGNER-2, docs/adr/0026)."""

import base64
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

from shared.model import seeds
from shared.model.items import Address, Partition, Table
from shared.model.records import Record
from shared.model.seeds import ALGORITHM, Purpose

# What releases before 0.2 stored for a key that another one had replaced.
_ROTATED: Final = "rotated"


class Status(StrEnum):
    """The state of a key that signs lists. One is active, at most one is pending."""

    PENDING = "pending"
    ACTIVE = "active"
    RETIRED = "retired"
    REVOKED = "revoked"

    @classmethod
    def _missing_(cls, value: object) -> "Status | None":
        return cls.RETIRED if value == _ROTATED else None


# A key in one of these states never signs again.
ENDED: Final = (Status.RETIRED, Status.REVOKED)


@dataclass(frozen=True, slots=True)
class ListSigner(Record):
    """A signer of lists.

    `public_key` is base64 of the 32 raw bytes. `sealed_seed` is the seed, sealed; a key that signs
    no more has none. `activated_at` is None for a key that began to sign when it was created, or
    never did. `listed_until` is when the last list of a retired key expires; None if an older
    release retired it. `statement` is what the key in force said of this one (see
    `shared.model.srl.statements`). `pending_id` names the pending key that is to follow the active
    one: who creates, activates or revokes that key writes this record too, so they exclude each
    other. `is_archived` is true for a retired or revoked key in the archive, else None.
    """

    id: str
    tenant_id: str
    public_key: str
    status: Status
    created_at: datetime
    sealed_seed: bytes | None = field(repr=False)
    version: int = 1
    activated_at: datetime | None = None
    listed_until: datetime | None = None
    statement: dict[str, str] | None = None
    pending_id: str | None = None
    is_archived: bool | None = None

    @property
    def algorithm(self) -> str:
        """What the public key is for."""
        return ALGORITHM

    @property
    def address(self) -> Address:
        """Where the signer is stored."""
        partition = archive(self.tenant_id, self.status) if self.is_archived else None
        return (partition or signers(self.tenant_id)).address(self.id)

    @property
    def seal_context(self) -> dict[str, str]:
        """What the sealed seed is bound to."""
        return seeds.seal_context(self.tenant_id, self.id, purpose=Purpose.SRL)

    @property
    def public_bytes(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return base64.b64decode(self.public_key)

    def activated(self, now: datetime) -> Self:
        """The key as it signs from `now` on."""
        return self._next(status=Status.ACTIVE, activated_at=now)

    def retired(self, *, listed_until: datetime) -> Self:
        """The key as it is after another one took over."""
        return self._next(
            status=Status.RETIRED, listed_until=listed_until, sealed_seed=None, pending_id=None
        )

    def revoked(self) -> Self:
        """The key as it is once nobody should believe it any more."""
        return self._next(
            status=Status.REVOKED, sealed_seed=None, pending_id=None, is_archived=None
        )

    def archived(self) -> Self:
        """The key, retired or revoked, as it is kept in the archive."""
        return self._next(sealed_seed=None, is_archived=True)

    def followed_by(self, pending_id: str | None) -> Self:
        """The active key, with another pending one after it, or none."""
        return self._next(pending_id=pending_id)

    def unproved(self) -> Self:
        """The key without the statement, which is worth nothing once its signer was stolen."""
        return replace(self, statement=None)

    def _next(self, **changes: object) -> Self:
        return replace(self, version=self.version + 1, **changes)  # type: ignore[arg-type]


def signers(tenant_id: str) -> Partition:
    """A tenant's signers but those in the archive, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#srl-keys")


def archive(tenant_id: str, status: Status) -> Partition:
    """A tenant's archived signers, retired or revoked, in order of creation (docs/adr/0039).

    None is ever removed, except that a retired one returns to the others if it is revoked.
    """
    return Partition(Table.KEYS, f"{tenant_id}#srl-keys-{status.value}")
