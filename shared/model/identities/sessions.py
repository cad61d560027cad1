"""Sessions: what a person or a program calls with after a sign-in (IDENTITY-5)."""

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
    """A session as it is listed, without its secret. `digest` finds its `SessionCredential`.

    `owner` is a person, or the service account that a program calls as, in the epoch of the owner
    and of the provider in which it began. A program has its `role` here, a person not. A session by
    a `Ticket` has the `operator` of the ticket; its owner and its provider are empty. Without
    `authenticated_at`, the sign-in is never fresh (AUTH-17). `provider_session` identifies the
    session at the provider as a warrant (TOKEN-1), if its token had `sid`.
    The store removes the item some time after `expires`, which is in seconds since the epoch.
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
        """Where the session is listed."""
        return sessions(self.tenant_id).address(self.id)

    @property
    def listed_at(self) -> list[Address]:
        """Where the session is listed: by its owner, and by its session at the provider."""
        # A session by a ticket has no owner.
        owners = [self.owner] if self.owner else []
        if self.provider_session is not None:
            owners.append(sign_in_name(self.provider_id, self.provider_session))
        return [sessions_of(self.tenant_id, each).address(self.id) for each in owners]

    @property
    def credential(self) -> "SessionCredential":
        """The credential, by which the hash of the secret finds the session."""
        return SessionCredential(
            self.tenant_id, self.id, self.owner, self.provider_id, self.expires
        )

    def is_over(self, now: datetime, barrier: datetime | None) -> bool:
        """Return whether its time has passed, or it began before the tenant's `barrier`."""
        is_before = barrier is not None and self.created_at <= barrier
        return is_before or times.has_passed(self.expires_at, now)


@dataclass(frozen=True, slots=True)
class SessionCredential(Record):
    """Where the parts of a session are, which authentication reads at once."""

    tenant_id: str
    session_id: str
    owner: str
    provider_id: str
    expires: int


@dataclass(frozen=True, slots=True)
class Ticket(Record):
    """A ticket, with which an operator opens a session once (IDENTITY-8). Its hash is stored.

    `identity` and `operator` are those of the operator's commands. The store removes the item some
    time after `expires`, which is in seconds since the epoch.
    """

    tenant_id: str
    identity: str
    operator: str | None
    created_at: datetime
    expires: int

    def is_valid(self, now: datetime, barrier: datetime | None) -> bool:
        """Return whether it opens a session. A clock that was set back does not lengthen its life.

        A recovery ends the tickets up to the tenant's `barrier`.
        """
        is_before = barrier is not None and self.created_at <= barrier
        return not is_before and timedelta(0) <= now - self.created_at < TICKET_LIFETIME


@dataclass(frozen=True, slots=True)
class AccessRecord(Record):
    """The roles of a tenant, each by its name as an item of `Role`, and the barrier of sessions.

    Those that began up to `sessions_after` have ended. At `anchors_changed_at` other people could
    sign in for the first time: approvals that were requested until then have ended, and sessions
    that began since approve nothing for `COOLING_OFF` (APPROVAL-6).
    """

    sessions_after: datetime | None = None
    version: int = 1
    roles: dict[str, Value] = field(default_factory=dict)
    anchors_changed_at: datetime | None = None

    @classmethod
    def of(cls, item: Item | None) -> Self:
        """Return the record of an item; one of version 0 if there is none yet."""
        return cls(version=0) if item is None else cls.from_item(item)


def new_secret() -> str:
    """Return a new secret of a session, of 256 random bits."""
    return PREFIX + new_ticket()


def new_ticket() -> str:
    """Return a new ticket, of 256 random bits."""
    return secrets.token_urlsafe(_SECRET_BYTES)


def is_well_formed(secret: str) -> bool:
    """Return whether a text has the form of the secret of a session."""
    return _SECRET.fullmatch(secret) is not None


def credential_address(secret: str) -> Address:
    """Return the address of the credential of a session with this secret."""
    return credential_at(digest(secret))


def digest(secret: str) -> str:
    """Return the SHA-256 of a secret in hex, the only form in which it is stored."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def credential_at(digest_: str) -> Address:
    """Return the address of the credential of the session whose secret has this digest."""
    return Address(Table.KEYS, f"session#{digest_}")


def ticket_address(ticket: str) -> Address:
    """Return the address of the item of a ticket, which may have any characters."""
    return Address(Table.KEYS, f"ticket#{digest(ticket)}")


def sessions(tenant_id: str) -> Partition:
    """Return the partition of a tenant's sessions, in order of their beginning."""
    return Partition(Table.KEYS, f"{tenant_id}#sessions")


def sessions_of(tenant_id: str, owner: str) -> Partition:
    """Return the partition of the sessions of one owner, in order of their beginning."""
    return Partition(Table.KEYS, f"{tenant_id}#sessions-of#{owner}")


def sign_in_name(provider_id: str, provider_session: str) -> str:
    """Return the owner of `sessions_of` that stands for one session at a provider."""
    return f"{provider_id}#{provider_session}"


def access_address(tenant_id: str) -> Address:
    """Return the address of what holds for all sessions of a tenant."""
    return Address(Table.KEYS, tenant_id, "access")


def used_token_address(digest_: str) -> Address:
    """Return the address of the note that a token was used, which `IdentityClaims.digest` names."""
    return Address(Table.KEYS, f"used-token#{digest_}")
