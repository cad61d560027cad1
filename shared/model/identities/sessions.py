"""Sessions: short-lived credentials of people and programs after sign-in (IDENTITY-5)."""

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self

from shared.model import times
from shared.model.items import Address, Item, Partition, Table, Value
from shared.model.records import SPARSE, Record

PREFIX: Final = "svc_session_"
TICKET_LIFETIME: Final = timedelta(minutes=5)

_SECRET_BYTES: Final = 32
_SECRET: Final = re.compile(f"{PREFIX}[A-Za-z0-9_-]{{43}}")


@dataclass(frozen=True, slots=True)
class SessionRecord(Record):
    """A listed session, without its secret. `digest` finds its `SessionCredential`.

    `owner` is a person, or the service account that a program acts as. The session belongs to one
    epoch of the owner and of the provider. `role` is set for programs, but not for people. A
    session from a `Ticket` has the `operator` of the ticket, without owner and provider. Without
    `authenticated_at`, the sign-in is never recent (AUTH-17). `provider_session` identifies the
    session at the provider as a warrant (TOKEN-1), if its token had `sid`. The store removes the
    item some time after `expires`, in seconds since the epoch.
    """

    id: str
    tenant_id: str
    digest: str
    owner: str
    identity: str
    provider_id: str
    provider_epoch: int
    created_at: datetime
    authenticated_at: datetime | None
    expires_at: datetime
    expires: int
    owner_epoch: int = 1
    role: str | None = None
    operator: str | None = None
    provider_session: str | None = field(default=None, metadata=SPARSE)

    @property
    def address(self) -> Address:
        """The address of the session."""
        return sessions(self.tenant_id).address(self.id)

    @property
    def listed_at(self) -> list[Address]:
        """The addresses of the session by owner, and by session at the provider."""
        # A session from a ticket has no owner.
        owners = [self.owner] if self.owner else []
        if self.provider_session is not None:
            owners.append(sign_in_name(self.provider_id, self.provider_session))
        return [sessions_of(self.tenant_id, each).address(self.id) for each in owners]

    @property
    def credential(self) -> "SessionCredential":
        """The credential, which finds the session by the hash of the secret."""
        return SessionCredential(
            self.tenant_id, self.id, self.owner, self.provider_id, self.expires
        )

    def is_over(self, now: datetime, barrier: datetime | None) -> bool:
        """Return whether it has expired, or began before the tenant's `barrier`."""
        is_before = barrier is not None and self.created_at <= barrier
        return is_before or times.has_passed(self.expires_at, now)


@dataclass(frozen=True, slots=True)
class SessionCredential(Record):
    """The identifiers of the records of a session, which authentication reads together."""

    tenant_id: str
    session_id: str
    owner: str
    provider_id: str
    expires: int


@dataclass(frozen=True, slots=True)
class Ticket(Record):
    """A single-use sign-in ticket of an operator, stored by its hash (IDENTITY-8).

    `identity` and `operator` equal the values for the operator's commands. The store removes the
    item some time after `expires`, in seconds since the epoch.
    """

    tenant_id: str
    identity: str
    operator: str | None
    created_at: datetime
    expires: int

    def is_valid(self, now: datetime, barrier: datetime | None) -> bool:
        """Return whether the ticket is valid. Setting a clock back does not extend its lifetime.

        A recovery invalidates the tickets up to the tenant's `barrier`.
        """
        is_before = barrier is not None and self.created_at <= barrier
        return not is_before and timedelta(0) <= now - self.created_at < TICKET_LIFETIME


@dataclass(frozen=True, slots=True)
class AccessRecord(Record):
    """The roles of a tenant, as items of `Role` by name, and the barrier of sessions.

    Sessions that began up to `sessions_after` have ended. At `anchors_changed_at`, other people
    could first sign in. Approvals requested until then have ended. Sessions that began since cannot
    approve for `COOLING_OFF` (APPROVAL-6).
    """

    sessions_after: datetime | None = None
    version: int = 1
    roles: dict[str, Value] = field(default_factory=dict)
    anchors_changed_at: datetime | None = None

    @classmethod
    def of(cls, item: Item | None) -> Self:
        """Return the record of an item, or a record of version 0 if there is none yet."""
        return cls(version=0) if item is None else cls.from_item(item)


def new_secret() -> str:
    """Return a new session secret with 256 random bits."""
    return PREFIX + new_ticket()


def new_ticket() -> str:
    """Return a new ticket with 256 random bits."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def is_well_formed(secret: str) -> bool:
    """Return whether a text has the form of a session secret."""
    return _SECRET.fullmatch(secret) is not None


def credential_address(secret: str) -> Address:
    """Return the address of the credential of a session with this secret."""
    return credential_at(digest(secret))


def digest(secret: str) -> str:
    """Return the SHA-256 of a secret in hex, the only form that is stored."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def credential_at(digest_: str) -> Address:
    """Return the address of the credential of the session with this digest of its secret."""
    return Address(Table.KEYS, f"session#{digest_}")


def ticket_address(ticket: str) -> Address:
    """Return the address of the item of a ticket, which may contain any characters."""
    return Address(Table.KEYS, f"ticket#{digest(ticket)}")


def sessions(tenant_id: str) -> Partition:
    """Return the partition of a tenant's sessions, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#sessions")


def sessions_of(tenant_id: str, owner: str) -> Partition:
    """Return the partition of the sessions of one owner, in order of creation."""
    return Partition(Table.KEYS, f"{tenant_id}#sessions-of#{owner}")


def sign_in_name(provider_id: str, provider_session: str) -> str:
    """Return the owner name in `sessions_of` for one session at a provider."""
    return f"{provider_id}#{provider_session}"


def access_address(tenant_id: str) -> Address:
    """Return the address of the tenant's `AccessRecord`."""
    return Address(Table.KEYS, tenant_id, "access")


def used_token_address(digest_: str) -> Address:
    """Return the address of the record of a used token, by its `IdentityClaims.digest`."""
    return Address(Table.KEYS, f"used-token#{digest_}")
