"""Audit entries. An entry is stored in the same write as its change (AUDIT-1)."""

from shared.model.audit import audit_log as model
from shared.model.audit import records
from shared.model.audit.audit_log import AuditAction, AuditEntry
from shared.model.callers import Caller
from shared.model.identifiers import AUDIT_ENTRY
from shared.model.items import Value
from shared.model.tenants import TenantSettings
from shared.operations.base import tenants
from shared.ports import Ports
from shared.ports.store import Expect, Put


def entry(
    ports: Ports,
    caller: Caller,
    action: AuditAction,
    resource_id: str,
    /,
    *,
    settings: TenantSettings | None = None,
    **details: Value,
) -> Put:
    """Return the write that stores an audit entry; `details` must not contain a secret.

    The entry expires after the audit retention of `settings`, which are read if they are not given.
    The details also include the session, and the account of an operator on the machine.
    """
    settings, now = settings or tenants.settings(ports, caller.tenant_id), ports.now()
    by: dict[str, Value] = {"operator": caller.operator} if caller.operator else {}
    by |= {"session_id": caller.session_id} if caller.session_id else {}
    audit_entry = AuditEntry(
        # The identifier contains the same time, because queries for a period compare identifiers
        # only.
        id=ports.new_id(AUDIT_ENTRY, at=now),
        timestamp=now,
        actor=caller.identity,
        action=action,
        resource_id=resource_id,
        result="success",
        source_ip=caller.source_ip,
        request_id=caller.request_id,
        details=details | by,
        expires=int((now + settings.audit_retention).timestamp()),
        actor_key_id=caller.key_id,
        actor_name=caller.name,
        actor_id=caller.person_id if caller.owner_id else None,
    )
    item = audit_entry.to_item()
    records.check(item)
    return Put(model.address(caller.tenant_id, audit_entry.id, now), item, Expect.ABSENT)
