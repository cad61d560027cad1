"""Audit entries; each is stored in the same write as its change (AUDIT-1)."""

from dataclasses import replace

from shared.model import api_keys
from shared.model.api_keys import ApiKey
from shared.model.audit import audit_log as model
from shared.model.audit import records
from shared.model.audit.audit_log import Action, AuditEntry
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
    action: Action,
    resource_id: str,
    /,
    *,
    settings: TenantSettings | None = None,
    **details: Value,
) -> Put:
    """Return the change that stores an audit entry; `details` must not contain a secret.

    The entry expires after the audit retention of `settings`, which are read if they are not given.
    If an operator acts, the details also name the operator's account on the machine.
    """
    settings, now = settings or tenants.settings(ports, caller.tenant_id), ports.now()
    made = AuditEntry(
        # The identifier holds the same time: queries for a period compare identifiers only.
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
        actor_name=named(ports, caller).name,
    )
    item = made.to_item()
    records.check(item)
    return Put(model.address(caller.tenant_id, made.id, now), item, Expect.ABSENT)


def named(ports: Ports, caller: Caller) -> Caller:
    """Return a caller with the name of its API key, which a credential of release 0.3.0 lacks."""
    if caller.name is not None or caller.key_id is None:
        return caller
    item = ports.store.get(api_keys.records(caller.tenant_id).address(caller.key_id))
    return caller if item is None else replace(caller, name=ApiKey.from_item(item).name)
