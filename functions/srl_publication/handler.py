"""Publish the SRLs of the tenants in the queue. SQS calls it, not HTTP."""

import logging
import time
from typing import Any

from shared import logs, wiring
from shared.operations.lists import publication
from shared.ports import Ports

_log = logging.getLogger(__name__)


def handler(event: dict[str, Any], _context: object) -> dict[str, int]:
    """Publish for the tenant of each message. Returns counts of published, not due and failed.

    A failure is logged and counted. Its message is not delivered again, because the next run of the
    schedule queues the tenant again (docs/adr/11). Raises if no tenant can be published, for
    example `InvalidSettings`. SQS then delivers the messages again.
    """
    logs.configure_standard_output()
    ports = wiring.from_environment()
    if not ports.is_in_charge():
        return {}
    outcomes = [_publish(ports, each["body"]) for each in event["Records"]]
    return {each: outcomes.count(each) for each in ("published", "not due", "failed")}


def _publish(ports: Ports, tenant_id: str) -> str:
    started = time.monotonic()
    try:
        published = publication.publish_if_due(ports, tenant_id)
    except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
        figures = {"PublicationFailed": 1}
        _log.exception("publication", extra=logs.fields(tenant_id=tenant_id, metrics=figures))
        return "failed"
    seconds = time.monotonic() - started
    metrics = {"Published": 1, "PublicationSeconds": seconds} if published else None
    outcome = "published" if published else "not due"
    fields = logs.fields(tenant_id=tenant_id, outcome=outcome, seconds=seconds, metrics=metrics)
    _log.info("publication", extra=fields)
    return outcome
