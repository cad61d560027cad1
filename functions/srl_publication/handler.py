"""Publish the lists of the tenants in the queue. SQS calls it; it speaks no HTTP."""

import logging
import time
from typing import Any

from shared import logs, wiring
from shared.operations import srl_publication
from shared.ports import Ports

_log = logging.getLogger(__name__)


def handler(event: dict[str, Any], _context: object) -> dict[str, list[dict[str, str]]]:
    """The messages whose tenant could not be published: SQS delivers these again, no others."""
    logs.to_standard_output()
    ports = wiring.from_environment()
    records = event["Records"]
    failed = [each["messageId"] for each in records if not _publish(ports, each["body"])]
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}


def _publish(ports: Ports, tenant_id: str) -> bool:
    started = time.monotonic()
    try:
        published = srl_publication.publish_if_due(ports, tenant_id)
    except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
        figures = {"PublicationFailed": 1}
        _log.exception("publication", extra=logs.fields(tenant_id=tenant_id, metrics=figures))
        return False
    seconds = time.monotonic() - started
    metrics = {"Published": 1, "PublicationSeconds": seconds} if published else None
    outcome = "published" if published else "not due"
    _log.info(
        "publication",
        extra=logs.fields(tenant_id=tenant_id, outcome=outcome, seconds=seconds, metrics=metrics),
    )
    return True
