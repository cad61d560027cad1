"""Who asks, and what they may ask for (AUTH-4, ACCOUNT-2)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self


class Scope(StrEnum):
    """What an API key may do: everything, read and check lists, or read all else."""

    ADMIN = "admin"
    AUTHORIZER = "authorizer"
    READ_ONLY = "read-only"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever calls an operation, within one tenant.

    `identity` is e-mail-like and goes into records and the audit log. `key_id` is of the API key
    and `key_expires_at` its end, if it has one; these, `source_ip` and `request_id` are None for
    what does not come over HTTP. `operator` is the user of the machine who runs the operator's
    command, and None for every other caller.
    """

    tenant_id: str
    identity: str
    scopes: tuple[Scope, ...]
    key_id: str | None = None
    source_ip: str | None = None
    request_id: str | None = None
    key_expires_at: datetime | None = None
    operator: str | None = None

    @property
    def is_admin(self) -> bool:
        """Whether the caller has the scope `admin`."""
        return Scope.ADMIN in self.scopes

    @classmethod
    def inside(cls, tenant_id: str, *, name: str, handle: str, operator: str | None = None) -> Self:
        """The service itself, such as its schedule, or the operator at the command line.

        No service account can be named so: a name has no `+`.
        """
        actor = identity(f"system+{name}", handle=handle)
        return cls(tenant_id, actor, (Scope.ADMIN,), operator=operator)


def identity(name: str, *, handle: str) -> str:
    """The e-mail-like identity of `name` in the tenant with this handle."""
    return f"{name}@{handle}.svc"
