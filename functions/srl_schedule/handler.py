"""Queue due SRLs, and announce unknown authorizers and expiring keys.

EventBridge calls it, not HTTP.
"""

import logging
from typing import Any

from shared import logs, wiring
from shared.capabilities import INSTALLED
from shared.errors import DataCorrupt
from shared.operations.access import unused_keys
from shared.operations.lists import expiring, schedule, unpublished
from shared.ports import Ports

_log = logging.getLogger(__name__)


def handler(_event: dict[str, Any], _context: object) -> dict[str, int]:
    """Queue the due tenants. Returns their number, and the number of late SRLs.

    Some runs then count the authorizers in an unknown state and announce them (FLEET-15, FLEET-18),
    announce keys that expire soon (APIKEY-11), and revoke unused keys (APIKEY-16). Raises
    `Unavailable` if the tenants cannot be read or queued. A run may be repeated. It does nothing if
    the service is read-only (OPS-14). In a standby region it only logs whether SRLs arrive
    (OPS-25).
    """
    logs.configure_standard_output()
    ports = wiring.from_environment()
    if wiring.is_read_only():
        _log.warning("the service is read-only; skipping the publication of SRLs")
        return {"queued": 0, "late": 0}
    due = schedule.read_due_tenants(ports)
    tenants = len(due.tenant_ids)
    figures = {"DueTenants": tenants, "SrlsOverdue": due.late, "SrlsExpired": due.expired}
    # Logged before the tenants are queued, so that these metrics show late SRLs if the queue fails.
    _log.info("schedule", extra=logs.fields(metrics=figures))
    if not ports.is_in_charge():
        return {"queued": 0, "late": due.late}
    queue = wiring.queue_from_environment()
    # On most runs no tenant is due, and the client of SQS is then not created.
    if due.tenant_ids:
        queue.send(due.tenant_ids)
    _report_age(ports)
    backlog = unpublished.summarize_backlog(ports)
    if backlog.late:
        figures = {"FeedsLagging": backlog.late}
        fields = logs.fields(seconds=backlog.oldest_seconds, metrics=figures)
        _log.error("unpublished", extra=fields)
    if schedule.is_survey_due(ports.now()):
        for step in (step for each in INSTALLED for step in each.schedule_steps()):
            step(ports)
    # Once an hour per tenant. A stage without such keys does not pay for the metric.
    for (kind, days), number in expiring.announce_due(ports).items():
        figures, by = {"CredentialsExpiring": number}, {"Kind": kind.value, "Within": f"{days}d"}
        _log.info("expiring", extra=logs.fields(metrics=figures, by=by))
    expiring.run_due(ports, unused_keys.revoke_unused)
    return {"queued": tenants, "late": due.late}


def _report_age(ports: Ports) -> None:
    """Log the age of the oldest current SRL."""
    try:
        issued_at = schedule.read_oldest_issue_time(ports)
    except DataCorrupt:
        # One tenant's item must not prevent the following steps for the others.
        _log.exception("cannot determine the age of the oldest SRL")
        return
    if issued_at is not None:
        age = (ports.now() - issued_at).total_seconds()
        _log.info("age", extra=logs.fields(metrics={"SrlAgeSeconds": age}))
