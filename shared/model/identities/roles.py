"""Roles: their scopes and their role limits for warrants and signing keys (AUTH-18)."""

from dataclasses import dataclass
from typing import Final

from shared.model.callers import RoleLimits, Scope
from shared.model.identities.sessions import AccessRecord
from shared.model.records import Record

# Each request with a session reads all roles.
ROLES_MAX: Final = 20
LIMITS_MAX: Final = 10
PREFIX_PATTERN: Final = "svc_wrt_[A-Za-z0-9_-]{1,63}"


@dataclass(frozen=True, slots=True)
class Role(Record):
    """A role with scopes and optional limits.

    Warrants are selected by identifier prefix. A signing key includes its descendants. Without
    warrants and signing keys, the role is unlimited.
    """

    name: str
    scopes: tuple[Scope, ...]
    warrant_prefixes: tuple[str, ...] = ()
    signing_keys: tuple[str, ...] = ()

    @property
    def limits(self) -> RoleLimits | None:
        """The limits of a caller with this role, or None if it is unlimited."""
        if not self.warrant_prefixes and not self.signing_keys:
            return None
        return RoleLimits(self.warrant_prefixes, self.signing_keys)

    @property
    def is_built_in(self) -> bool:
        """Whether it equals a scope. Each tenant has all scopes as built-in roles."""
        return self.name in BUILT_IN


BUILT_IN: Final = {scope.value: Role(scope.value, (scope,)) for scope in Scope}


def of_tenant(access: AccessRecord) -> dict[str, Role]:
    """Return all roles of a tenant by name."""
    return BUILT_IN | {each: effective_role(access, each) for each in access.roles}


def effective_role(access: AccessRecord, name_: str) -> Role:
    """Return the current role of a caller. A deleted role has no scopes."""
    stored = access.roles.get(name_)
    return BUILT_IN.get(name_) or (
        Role.from_item(stored) if isinstance(stored, dict) else Role(name_, ())
    )
