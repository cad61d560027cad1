"""Callers and their scopes (AUTH-4, ACCOUNT-2)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Self

from shared.model.identifiers import PERSON, SERVICE_ACCOUNT

# Maximum age of a person's sign-in for actions that change access (AUTH-17).
FRESH: Final = timedelta(minutes=15)


class Scope(StrEnum):
    """A permission of an API key. Each operation declares the scopes that it accepts (AUTH-4)."""

    ADMIN = "admin"
    AUTHORIZER = "authorizer"
    READ_ONLY = "read-only"
    REVOKER = "revoker"
    SIGNER = "signer"
    AUDITOR = "auditor"


@dataclass(frozen=True, slots=True)
class RoleLimits:
    """The warrants and signing keys that a caller's role may affect (AUTH-18).

    Warrants are selected by identifier prefix. A signing key includes its descendants.
    """

    warrant_prefixes: tuple[str, ...] = ()
    signing_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalHeader:
    """The approval headers of a request, and the request that the approval covers (APPROVAL-2).

    `id` is the approval that permits the request. It is None if an approval is requested, for a
    `reason`.
    """

    method: str
    path: str
    sha256: str
    id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller of an operation, within one tenant.

    `identity` has the form of an e-mail address. `key_id` is the identifier of the API key, `name`
    its name, and `key_expires_at` its expiry, if any. `key_id`, `source_ip` and `request_id` are
    None if the call did not arrive over HTTP. `operator` is the user of the machine who ran an
    operator's command or created the ticket of a session. It is None for every other caller.

    A caller with a session (IDENTITY-5) has no API key. It has a `session_id`, the `owner_id` of
    the session, and `authenticated_at`, the time of authentication by its provider.
    `key_expires_at` is then the expiry of the session. A session from a ticket has no owner. `role`
    is the name of the role, if any, that granted the scopes and the `limits`. `approval` contains
    the approval headers of the request.
    """

    tenant_id: str
    identity: str
    scopes: tuple[Scope, ...]
    key_id: str | None = None
    source_ip: str | None = None
    request_id: str | None = None
    key_expires_at: datetime | None = None
    operator: str | None = None
    name: str | None = None
    session_id: str | None = None
    owner_id: str | None = None
    authenticated_at: datetime | None = None
    role: str | None = None
    limits: RoleLimits | None = None
    approval: ApprovalHeader | None = None

    @property
    def is_inside(self) -> bool:
        """Whether the caller is the service itself or an operator's command."""
        return self.key_id is None and self.session_id is None

    @property
    def asks_approval(self) -> bool:
        """Whether the call requests an approval instead of being executed."""
        return self.approval is not None and self.approval.id is None

    @property
    def person_id(self) -> str | None:
        """The identifier of the calling person, or None for keys and programs."""
        is_person = self.owner_id is not None and self.owner_id.startswith(f"svc_{PERSON}_")
        return self.owner_id if is_person else None

    def reaches_warrant(self, warrant_id: str) -> bool:
        """Return whether the limits permit this warrant."""
        return self.limits is None or warrant_id.startswith(self.limits.warrant_prefixes)

    def reaches_key(self, *line: str) -> bool:
        """Return whether the limits permit a signing key, given with all its ancestors."""
        return self.limits is None or not set(self.limits.signing_keys).isdisjoint(line)

    @property
    def is_in_person(self) -> bool:
        """Whether this is the session of a person, or of an operator with a ticket."""
        is_program = (self.owner_id or "").startswith(f"svc_{SERVICE_ACCOUNT}_")
        return self.session_id is not None and not is_program

    def has_to_sign_in(self, now: datetime) -> bool:
        """Return whether a person or operator must reauthenticate (AUTH-17)."""
        if not self.is_in_person:
            return False
        return self.authenticated_at is None or now - self.authenticated_at > FRESH

    @property
    def holder_id(self) -> str:
        """The owner of rate limit shares and `Idempotency-Key`s. Empty for the service itself."""
        return self.key_id or self.owner_id or self.session_id or ""

    @property
    def bounds_keys_at(self) -> datetime | None:
        """The latest expiry of keys that the caller may create; None without a limit (APIKEY-4)."""
        return None if self.is_in_person else self.key_expires_at

    @property
    def is_admin(self) -> bool:
        """Whether the caller has the scope `admin`, without limits."""
        return Scope.ADMIN in self.scopes and self.limits is None

    @classmethod
    def inside(cls, tenant_id: str, *, name: str, handle: str, operator: str | None = None) -> Self:
        """Return the caller for the service itself, for example its scheduler, or for a command.

        No service account can have this identity, because its name cannot contain `+`.
        """
        actor = identity(f"system+{name}", handle=handle)
        return cls(tenant_id, actor, (Scope.ADMIN,), operator=operator)


def identity(name: str, *, handle: str) -> str:
    """Return the identity of `name` in a tenant, in the form of an e-mail address."""
    return f"{name}@{handle}.svc"
