"""The audit entry that is stored in the write of its change (AUDIT-1)."""

from shared.model import audit_log as model
from shared.model.audit_log import Action, Entry
from shared.model.callers import Caller
from shared.model.identifiers import AUDIT_ENTRY
from shared.model.items import Value
from shared.model.tenants import TenantSettings
from shared.ports import Ports
from shared.ports.store import Expect, Put


def entry(
    ports: Ports,
    caller: Caller,
    action: Action,
    resource_id: str,
    *,
    settings: TenantSettings,
    **details: Value,
) -> Put:
    """The change that records `action` on `resource_id`; `details` must hold no secret.

    The entry is kept for the retention of `settings`. If an operator acts, `details` also says
    which user of the machine that is.
    """
    now = ports.now()
    made = Entry(
        # Of the same moment: a window of time is looked for by identifiers alone.
        id=ports.new_id(AUDIT_ENTRY, at=now),
        timestamp=now,
        actor=caller.identity,
        action=action,
        resource_id=resource_id,
        result="success",
        source_ip=caller.source_ip,
        request_id=caller.request_id,
        details=details | ({"operator": caller.operator} if caller.operator else {}),
        expires=int((now + settings.audit_retention).timestamp()),
        actor_key_id=caller.key_id,
    )
    return Put(model.address(caller.tenant_id, made.id, now), made.to_item(), Expect.ABSENT)
