"""The step of a recovery that closes the status lists."""

from functions.status_lists import operations
from shared.capabilities import RecoveryContext
from shared.model.audit.audit_log import AuditAction
from shared.ports.store import Put, VersionIs


def close_lists(run: RecoveryContext) -> None:
    """Close the status lists: entries may have been allocated since the backup (TOKEN-6)."""
    for each in operations.every(run.ports, run.operator):
        left = each.size - each.allocated
        if left:
            action, after = AuditAction.STATUS_LIST_ALLOCATE, each.allocating(left)
            run.ports.store.write(
                Put(each.address, after.to_item(), VersionIs(each.version)),
                run.entry(action, each.id, count=left, allocated=after.allocated),
            )
            run.report(f"Closed: status list {each.id}")
