"""Send events to webhooks. SQS, a stream and a schedule call it, not HTTP."""

import logging
import time
from typing import Any

from functions.transparency_log import head
from functions.webhooks import delivery, dispatch
from shared import logs, wiring
from shared.ports import Ports

_log = logging.getLogger(__name__)


def handler(event: dict[str, Any], _context: object) -> dict[str, int]:
    """Send to the webhook of each message, or queue webhooks and return their number.

    A batch of the stream names the transparency logs that have grown. The webhooks of these tenants
    are queued. Any other event is a run of the schedule, which queues the webhooks that are due.
    Raises `Unavailable` if no webhook could be processed. The event is then delivered again.
    """
    logs.configure_standard_output()
    ports = wiring.from_environment()
    if not ports.is_in_charge():
        return {"queued": 0}
    records = event.get("Records")
    if records is None:
        names = dispatch.due(ports)
    elif records[0]["eventSource"] == "aws:sqs":
        names = [each["body"] for each in records if _deliver(ports, each["body"])]
    else:
        keys = [each["dynamodb"]["Keys"] for each in records]
        tenant_ids = {head.tenant_of(each["pk"]["S"], each["sk"]["S"]) for each in keys}
        names = []
        for tenant_id in sorted(filter(None, tenant_ids)):
            names += dispatch.of_tenant(ports, tenant_id)
    # Without webhooks to queue, the client of SQS is not created.
    if names:
        wiring.queue_from_environment().send(names)
    return {"queued": len(names)}


def _deliver(ports: Ports, name: str) -> bool:
    """Send events to a webhook for a limited time. Return whether there are more."""
    tenant_id, webhook_id = dispatch.parts(name)
    sender, started = wiring.sender_from_environment(), time.monotonic()
    has_more = delivery.deliver(ports, sender, tenant_id, webhook_id)
    seconds = time.monotonic() - started
    _log.info("webhook", extra=logs.fields(tenant_id=tenant_id, seconds=seconds))
    return has_more
