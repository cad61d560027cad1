"""Queue the tenants whose list is due, and count authorizers. EventBridge calls it, not HTTP."""

import logging
from typing import Any

from shared import logs, wiring
from shared.operations.srl import propagation, schedule
from shared.ports import Ports

_log = logging.getLogger(__name__)


def handler(_event: dict[str, Any], _context: object) -> dict[str, int]:
    """Queue the tenants that are due; return how many they are, and how many lists are late.

    Some runs then count the authorizers of which nothing is known (FLEET-15). Raises `Unavailable`
    if the tenants cannot be read or queued. A run may be repeated.
    """
    logs.to_standard_output()
    ports = wiring.from_environment()
    due = schedule.due(ports)
    tenants = len(due.tenant_ids)
    figures = {"DueTenants": tenants, "LateLists": due.late, "ExpiredLists": due.expired}
    # Logged before the tenants are queued: if the queue fails, these metrics show late lists.
    _log.info("schedule", extra=logs.fields(metrics=figures))
    queue = wiring.queue_from_environment()
    # On most ticks no tenant is due; the client of SQS is not created then.
    if due.tenant_ids:
        queue.send(due.tenant_ids)
    if propagation.is_due(ports.now()):
        _count_authorizers(ports)
    return {"queued": tenants, "late": due.late}


def _count_authorizers(ports: Ports) -> None:
    unknown = propagation.unknown(ports)
    # A stage without authorizers does not pay for the metric.
    if unknown is not None:
        _log.info("authorizers", extra=logs.fields(metrics={"AuthorizersUnknown": unknown}))
