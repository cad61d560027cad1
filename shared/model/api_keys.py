"""API keys: what a caller proves itself with (APIKEY-1, APIKEY-2)."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from shared.model import times
from shared.model.callers import Scope
from shared.model.items import Address, Partition, Table
from shared.model.records import Record

_SECRET_BYTES: Final = 32


class Status(StrEnum):
    """Whether an API key was revoked. Reaching `expires_at` changes no status."""

    ACTIVE = "active"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class ApiKey(Record):
    """A key as its owners see it. `digest` finds its credential; the secret itself is not kept."""

    id: str
    tenant_id: str
    name: str
    scopes: tuple[Scope, ...]
    status: Status
    digest: str
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    service_account_id: str | None = None
    version: int = 1

    @property
    def address(self) -> Address:
        """Where the record is stored."""
        return records(self.tenant_id).address(self.id)

    def is_live_admin(self, now: datetime) -> bool:
        """Whether this key can administer the tenant at `now`."""
        return (
            Scope.ADMIN in self.scopes
            and self.status is Status.ACTIVE
            and not times.has_passed(self.expires_at, now)
        )


@dataclass(frozen=True, slots=True)
class Credential(Record):
    """All that authentication needs to know of a key, in one item.

    It goes when the key is revoked or deleted: what is not there cannot be let in.
    """

    digest: str
    tenant_id: str
    key_id: str
    identity: str
    scopes: tuple[Scope, ...]
    expires_at: datetime | None = None
    disabled: bool = False

    @property
    def address(self) -> Address:
        """Where the credential is stored."""
        return credential_address(self.digest)

    def opens(self, now: datetime) -> bool:
        """Whether the key is accepted at `now` (APIKEY-5)."""
        return not self.disabled and not times.has_passed(self.expires_at, now)


@dataclass(frozen=True, slots=True)
class Usage(Record):
    """How often a key was used, apart from what authentication reads.

    `digest` is that of the key, to find its credential if the key's record was lost. Keys that an
    older release created have none here.
    """

    request_count: int = 0
    last_used_at: datetime | None = None
    digest: str | None = None


def new_secret() -> str:
    """A fresh key string: `svc_` and 43 characters of base64url, 256 random bits."""
    return "svc_" + secrets.token_urlsafe(_SECRET_BYTES)


def digest(secret: str) -> str:
    """What is stored of a key string: SHA-256 over the whole string, in hex.

    Never over the decoded bytes: four strings decode to the same 32 bytes.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def records(tenant_id: str) -> Partition:
    """A tenant's keys, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#api-keys")


def usage(tenant_id: str) -> Partition:
    """The usage of a tenant's keys, found by key identifier."""
    return Partition(Table.KEYS, f"{tenant_id}#usage")


def owned_by(tenant_id: str, account_id: str) -> Partition:
    """The identifiers of the keys that a service account owns, revoked ones too."""
    return Partition(Table.KEYS, f"{tenant_id}#api-keys-of#{account_id}")


def count_address(tenant_id: str) -> Address:
    """The number of a tenant's keys, in the attribute `count`."""
    return Address(Table.KEYS, tenant_id, "counts#api-keys")


def credential_address(digest_: str) -> Address:
    """Where the credential of a key string with this digest is stored."""
    return Address(Table.KEYS, f"api-key#{digest_}")
