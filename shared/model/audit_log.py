"""The audit log: what was done, by whom, from where (decisions 3, audit log)."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from shared.model import times
from shared.model.callers import Caller
from shared.model.items import Item, Key, Partition, Table, Value


class Action(StrEnum):
    """Everything that leaves an entry."""

    API_KEY_CREATE = "api_key.create"
    API_KEY_REVOKE = "api_key.revoke"
    API_KEY_DELETE = "api_key.delete"
    REVOCATION_CREATE = "revocation.create"
    REVOCATION_DELETE = "revocation.delete"
    SRL_REGENERATE = "srl.regenerate"
    SRL_ROTATE_KEY = "srl.rotate_key"
    TENANT_CREATE = "tenant.create"


@dataclass(frozen=True, slots=True)
class Entry:
    """One change, written in the same transaction as the change itself."""

    id: str
    timestamp: datetime
    caller: Caller
    action: Action
    resource_id: str
    details: dict[str, Value] = field(default_factory=dict)

    def to_item(self, *, retention: timedelta) -> Item:
        """The item; the store drops it once its `expires` (epoch seconds) has passed."""
        return {
            "id": self.id,
            "timestamp": times.text(self.timestamp),
            "actor": self.caller.identity,
            "action": self.action.value,
            "resource_id": self.resource_id,
            "result": "success",
            "source_ip": self.caller.source_ip,
            "request_id": self.caller.request_id,
            "details": self.details,
            "expires": int((self.timestamp + retention).timestamp()),
        }

    @property
    def key(self) -> Key:
        """Where it is stored: with the other entries of its tenant and month, in order of time."""
        return months(self.caller.tenant_id, self.timestamp).key(self.id)


def months(tenant_id: str, moment: datetime) -> Partition:
    """The entries of the month in which `moment` lies."""
    return Partition(Table.AUDIT, f"{tenant_id}#{moment:%Y-%m}")
