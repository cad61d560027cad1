"""Audit entries, and the checkpoints of the transparency log that are kept outside the store.

An entry is stored in the same write as its change (AUDIT-1). Checkpoints are blobs (LOG-12).
"""

from contextlib import suppress
from itertools import islice
from typing import Final

from shared.authorizer.formats.trust import LogAnchor
from shared.errors import BlobExists
from shared.model.audit import audit_log as model
from shared.model.audit import checkpoint as kept_model
from shared.model.audit import records
from shared.model.audit.audit_log import AuditAction, AuditEntry
from shared.model.audit.checkpoint import PinnedCheckpoint
from shared.model.callers import Caller
from shared.model.identifiers import AUDIT_ENTRY
from shared.model.items import Value
from shared.model.tenants import TenantSettings
from shared.operations.base import tenants
from shared.ports import Ports
from shared.ports.store import Expect, Put

# On one machine, all checkpoints but the newest are removed after this time. On AWS, a lifecycle
# rule of the bucket removes them.
_OLD_SECONDS: Final = 600.0
# Sorts after the names of all checkpoints.
_ALL: Final = "~"


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


def newest_checkpoint(ports: Ports, tenant_id: str) -> PinnedCheckpoint | None:
    """Return the newest checkpoint that is kept, or None. Raises `DataCorrupt`, `Unavailable`.

    Costs one listing.
    """
    names = ports.blobs.names(kept_model.folder(tenant_id))
    # The checkpoint of an empty generation has a longer name, which precedes checkpoints with
    # leaves.
    return max(map(PinnedCheckpoint.parse, islice(names, 2)), default=None)


def anchor(ports: Ports, tenant_id: str) -> LogAnchor | None:
    """Return the log anchor for a new trust document or journal record (LOG-12).

    Returns None if the log is still empty. Costs one listing. Raises `DataCorrupt`, `Unavailable`.
    """
    checkpoint = newest_checkpoint(ports, tenant_id)
    return None if checkpoint is None else checkpoint.anchor(tenant_id)


def keep_checkpoint(
    ports: Ports, tenant_id: str, pinned_checkpoint: PinnedCheckpoint, note: str = ""
) -> None:
    """Keep a checkpoint; `note` is its signed text. Raises `OutOfSpace`, `Unavailable`."""
    with suppress(BlobExists):
        ports.blobs.put(pinned_checkpoint.name(tenant_id), note.encode())
    folder = kept_model.folder(tenant_id)
    ports.blobs.discard(folder, before=_ALL, older_than_seconds=_OLD_SECONDS)
