"""Send events to webhooks. SQS, a stream and a schedule call it, not HTTP."""

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from shared import logs, wiring
from shared.model.audit import head
from shared.operations.webhooks import delivery, dispatch

_SQS: Final = "aws:sqs"

_log = logging.getLogger(__name__)


def handler(event: dict[str, Any], _context: object) -> dict[str, int]:
    """Send to the webhook of each message, or queue webhooks and return their number.

    A batch of the stream names the transparency logs that have grown. The webhooks of these tenants
    are queued. Any other event is a run of the schedule, which queues the webhooks that are due.
    Raises `Unavailable` if no webhook could be processed. The event is then delivered again.
    """
    logs.configure_standard_output()
    if not wiring.from_environment().is_in_charge():
        return {"queued": 0}
    records = event.get("Records")
    if records is None:
        return _message_counts(dispatch.due(wiring.from_environment()))
    if records[0]["eventSource"] == _SQS:
        return _message_counts([each["body"] for each in records if _send(each["body"])])
    return _message_counts(
        [name for each in _read_growing_tenants(records) for name in _of_tenant(each)]
    )


def _message_counts(names: list[str]) -> dict[str, int]:
    # Without webhooks to queue, the client of SQS is not created.
    if names:
        wiring.queue_from_environment().send(names)
    return {"queued": len(names)}


def _read_growing_tenants(batch: list[Mapping[str, Any]]) -> list[str]:
    keys = [each["dynamodb"]["Keys"] for each in batch]
    found = [head.tenant_of(each["pk"]["S"], each["sk"]["S"]) for each in keys]
    return sorted({each for each in found if each is not None})


def _of_tenant(tenant_id: str) -> list[str]:
    return dispatch.of_tenant(wiring.from_environment(), tenant_id)


def _send(name: str) -> bool:
    """Send events to a webhook for a limited time. Return whether there are more."""
    tenant_id, webhook_id = dispatch.parts(name)
    ports, sender = wiring.from_environment(), wiring.sender_from_environment()
    started = time.monotonic()
    more = delivery.deliver(ports, sender, tenant_id, webhook_id)
    seconds = time.monotonic() - started
    _log.info("webhook", extra=logs.fields(tenant_id=tenant_id, seconds=seconds))
    return more
