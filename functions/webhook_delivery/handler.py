"""Send events to webhooks. SQS, a stream and a schedule call it; it speaks no HTTP."""

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
    """Send to the webhook of each message; or queue webhooks, and return how many.

    A batch of the stream names the heads of sealed logs that have grown: the webhooks of these
    tenants are queued. Any other event is a tick of the schedule: webhooks whose turn has come are
    queued. Raises `Unavailable` if nothing could be done; then the event comes again.
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
    # The client of SQS is not created if there is nothing to queue.
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
    """Send to a webhook for a while; return whether there is more to send."""
    tenant_id, webhook_id = dispatch.parts(name)
    ports, sender = wiring.from_environment(), wiring.sender_from_environment()
    started = time.monotonic()
    more = delivery.deliver(ports, sender, tenant_id, webhook_id)
    seconds = time.monotonic() - started
    _log.info("webhook", extra=logs.fields(tenant_id=tenant_id, seconds=seconds))
    return more
