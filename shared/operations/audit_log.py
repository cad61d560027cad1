"""Writing the audit log: the entry rides in the write of its change (decisions 3, audit log)."""

from shared.model.audit_log import Action, Entry
from shared.model.callers import Caller
from shared.model.identifiers import AUDIT_ENTRY
from shared.model.items import Value
from shared.model.tenants import Settings
from shared.ports import Ports
from shared.ports.store import Expect, Put


def entry(
    ports: Ports,
    caller: Caller,
    action: Action,
    resource_id: str,
    *,
    settings: Settings,
    **details: Value,
) -> Put:
    """The change that records `action` on `resource_id`; `details` must hold no secret."""
    made = Entry(ports.new_id(AUDIT_ENTRY), ports.now(), caller, action, resource_id, details)
    return Put(made.key, made.to_item(retention=settings.audit_retention), Expect.ABSENT)
