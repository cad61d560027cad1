"""Find the tenants whose list is due and queue them. EventBridge calls it; it speaks no HTTP."""

import logging
from typing import Any

from shared import logs, wiring
from shared.operations.srl import schedule

_log = logging.getLogger(__name__)


def handler(_event: dict[str, Any], _context: object) -> dict[str, int]:
    """How many tenants were queued, and how many lists are older than they may be.

    Raises where the tenants cannot be read or queued; a repeated run does no harm.
    """
    logs.to_standard_output()
    due = schedule.due(wiring.from_environment())
    figures = {
        "DueTenants": len(due.tenant_ids),
        "LateLists": due.late,
        "ExpiredLists": due.expired,
    }
    # Before they are queued: lists grow late where the queue is what fails.
    _log.info("schedule", extra=logs.fields(metrics=figures))
    queue = wiring.queue_from_environment()
    # Most ticks find nobody, and need no client of SQS.
    if due.tenant_ids:
        queue.send(due.tenant_ids)
    return {"queued": len(due.tenant_ids), "late": due.late}
