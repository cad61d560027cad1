"""Find the tenants whose list is due and queue them. EventBridge calls it; it speaks no HTTP."""

import logging
from typing import Any

from shared import logs, wiring
from shared.operations.srl import schedule

_log = logging.getLogger(__name__)


def handler(_event: dict[str, Any], _context: object) -> dict[str, int]:
    """Queue the tenants that are due; return how many they are, and how many lists are late.

    Raises `Unavailable` if the tenants cannot be read or queued. A run may be repeated.
    """
    logs.to_standard_output()
    due = schedule.due(wiring.from_environment())
    tenants = len(due.tenant_ids)
    figures = {"DueTenants": tenants, "LateLists": due.late, "ExpiredLists": due.expired}
    # Logged before the tenants are queued: if the queue fails, these metrics show late lists.
    _log.info("schedule", extra=logs.fields(metrics=figures))
    queue = wiring.queue_from_environment()
    # On most ticks no tenant is due; the client of SQS is not created then.
    if due.tenant_ids:
        queue.send(due.tenant_ids)
    return {"queued": tenants, "late": due.late}
