"""List signers: the keys that sign a tenant's lists (SIGNER-2, docs/adr/13)."""

import base64
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final, Self

from shared.model import seeds
from shared.model.items import Address, Partition, Table
from shared.model.records import Record
from shared.model.seeds import ALGORITHM, SeedPurpose

# Releases before 0.2 stored this for a replaced key.
_ROTATED: Final = "rotated"


class SignerStatus(StrEnum):
    """The state of a list signer. One is active, and at most one is pending.

    A standby signs nothing either: the trust document names it, so that it may replace a stolen
    one at once.
    """

    STANDBY = "standby"
    PENDING = "pending"
    ACTIVE = "active"
    RETIRED = "retired"
    REVOKED = "revoked"

    @classmethod
    def _missing_(cls, value: object) -> "SignerStatus | None":
        return cls.RETIRED if value == _ROTATED else None


# A key in one of these states never signs again.
ENDED: Final = (SignerStatus.RETIRED, SignerStatus.REVOKED)


@dataclass(frozen=True, slots=True)
class ListSigner(Record):
    """A key that signs lists.

    `public_key` is base64 of the 32 raw bytes. `sealed_seed` is None if the key cannot sign any
    more. `activated_at` is None for a key that was active from its creation or was never active.
    `listed_until` is when the last list of a retired key expires; None unless it is retired.
    `statement` is about this key and signed by the key then in force
    (`shared.model.lists.statements`). `pending_id`, of the active key, names the pending
    key. Each operation that creates, activates or revokes the pending key also writes this record,
    so that only one of them succeeds. `is_archived` is True for a retired or revoked key in the
    archive, else None. `revoked_at` is None also if an earlier release, or a recovery, revoked it.
    """

    id: str
    tenant_id: str
    public_key: str
    status: SignerStatus
    created_at: datetime
    sealed_seed: bytes | None = field(repr=False)
    version: int = 1
    activated_at: datetime | None = None
    listed_until: datetime | None = None
    statement: dict[str, str] | None = None
    pending_id: str | None = None
    is_archived: bool | None = None
    revoked_at: datetime | None = None

    @property
    def algorithm(self) -> str:
        """The algorithm of the key."""
        return ALGORITHM

    @property
    def address(self) -> Address:
        """Where the record is stored."""
        if self.status is SignerStatus.STANDBY:
            return standby_address(self.tenant_id)
        partition = archive(self.tenant_id, self.status) if self.is_archived else None
        return (partition or signers(self.tenant_id)).address(self.id)

    @property
    def seal_context(self) -> dict[str, str]:
        """The context that the sealed seed is bound to."""
        return seeds.seal_context(self.tenant_id, self.id, purpose=SeedPurpose.SRL)

    @property
    def public_bytes(self) -> bytes:
        """The 32 raw bytes of the public key."""
        return base64.b64decode(self.public_key)

    def activated(self, now: datetime) -> Self:
        """Return the key, active from `now` on."""
        return self._next(status=SignerStatus.ACTIVE, activated_at=now)

    def retired(self, *, listed_until: datetime) -> Self:
        """Return the key, retired because another one became active."""
        return self._next(
            status=SignerStatus.RETIRED,
            listed_until=listed_until,
            sealed_seed=None,
            pending_id=None,
        )

    def revoked(self, at: datetime | None = None) -> Self:
        """Return the key, revoked `at` a time: verifiers must not accept it any more."""
        ended = self._next(status=SignerStatus.REVOKED, sealed_seed=None, pending_id=None)
        return replace(ended, is_archived=None, revoked_at=at)

    def archived(self) -> Self:
        """Return the retired or revoked key as it is stored in the archive."""
        return self._next(sealed_seed=None, is_archived=True)

    def followed_by(self, pending_id: str | None) -> Self:
        """Return the active key with this pending key after it, or with none."""
        return self._next(pending_id=pending_id)

    def unproved(self) -> Self:
        """Return the key without its statement, which is void if its signer was stolen."""
        return replace(self, statement=None)

    def _next(self, **changes: object) -> Self:
        return replace(self, version=self.version + 1, **changes)  # type: ignore[arg-type]


def signers(tenant_id: str) -> Partition:
    """Return the partition of a tenant's unarchived list signers, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#srl-keys")


def standby_address(tenant_id: str) -> Address:
    """Return the address of a tenant's standby, where earlier releases do not look."""
    return Address(Table.KEYS, f"{tenant_id}#srl-standby")


def archive(tenant_id: str, status: SignerStatus) -> Partition:
    """Return the partition of a tenant's archived signers with `status`, in order of creation.

    None is ever removed, except that a retired signer leaves if it is revoked (docs/adr/13).
    """
    return Partition(Table.KEYS, f"{tenant_id}#srl-keys-{status.value}")
