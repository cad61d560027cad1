"""Changes that revoke trust: their subject, maker and reason (FLEET-30)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from shared.model.audit.audit_log import AuditAction, AuditEntry


class ChangeKind(StrEnum):
    """The kind of resource that a change revoked."""

    WARRANT = "warrant"
    BATCH = "batch"
    SIGNING_KEY = "signing_key"
    API_KEY = "api_key"
    SRL_SIGNER = "srl_signer"

    @property
    def action(self) -> AuditAction:
        """The action of its audit entry."""
        return _ACTIONS[self]


_ACTIONS = {
    ChangeKind.WARRANT: AuditAction.REVOCATION_CREATE,
    ChangeKind.BATCH: AuditAction.REVOCATION_BATCH,
    ChangeKind.SIGNING_KEY: AuditAction.KEY_REVOKE,
    ChangeKind.API_KEY: AuditAction.API_KEY_REVOKE,
    ChangeKind.SRL_SIGNER: AuditAction.SRL_REVOKE_KEY,
}


@dataclass(frozen=True, slots=True)
class ChangeFilters:
    """The changes to return: of this kind, or of any kind if None. Both times are inclusive."""

    kind: ChangeKind | None
    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class Actor:
    """The maker of a change: identity, API key, and the key's name at that time, if known."""

    identity: str
    key_id: str | None
    name: str | None

    @classmethod
    def of(cls, entry: AuditEntry) -> "Actor":
        """Return the maker of the change in an audit entry."""
        return cls(entry.actor, entry.actor_key_id, entry.actor_name)


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change. `name` is the name of the key or warrant. `actor` is None if unknown."""

    id: str
    kind: ChangeKind
    name: str | None
    recorded_at: datetime
    reason: str | None
    actor: Actor | None

    @classmethod
    def of_entry(cls, entry: AuditEntry, kind: ChangeKind | None = None) -> "RecordedChange":
        """Return the change in an audit entry, which determines the kind."""
        kind = kind or next(each for each in ChangeKind if each.action is entry.action)
        details = entry.details
        name = details.get("warrant_id") or details.get("name")
        return cls(
            entry.resource_id,
            kind,
            None if name is None else str(name),
            entry.timestamp,
            None if details.get("reason") is None else str(details["reason"]),
            Actor.of(entry),
        )
