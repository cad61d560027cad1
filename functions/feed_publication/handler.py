"""Publish the feeds of tenants with new marks. A stream calls it; it speaks no HTTP."""

import logging
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from shared import logs, wiring
from shared.model.lists.schedule import concerns_trust, tenant_of_mark
from shared.operations.base import operation
from shared.operations.lists import published_keys, wake
from shared.operations.lists.journal import Journals
from shared.operations.lists.storage import Pen
from shared.operations.lists.wake import Woken
from shared.ports import Ports

_log = logging.getLogger(__name__)

# A batch has few tenants, unless many change at the same moment.
_THREADS: Final = 16
_journals = Journals()


def handler(event: dict[str, Any], _context: object) -> dict[str, int]:
    """Publish the feed of each tenant with a mark in the batch; return how many did what.

    If keys have changed, the feed also names the signing keys as they are now (TRUST-9).

    A failure is logged and counted, and stops no other tenant. The batch is not delivered again,
    because the schedule publishes what was left (docs/adr/11). Raises if nothing can be published
    at all, such as `InvalidSettings`; the batch is then delivered twice more.
    """
    logs.to_standard_output()
    ports = wiring.from_environment()
    if not ports.is_in_charge():
        return {}
    marks = [each["dynamodb"]["Keys"]["sk"]["S"] for each in event["Records"]]
    tenant_ids = dict.fromkeys(map(tenant_of_mark, marks))
    changed = frozenset(tenant_of_mark(each) for each in marks if concerns_trust(each))
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="feed") as pool:
        outcomes = list(pool.map(partial(_publish, ports, changed), tenant_ids))
    return {each: outcomes.count(each) for each in ("published", "nothing new", "left", "failed")}


def _publish(ports: Ports, changed: Collection[str], tenant_id: str) -> str:
    started = time.monotonic()
    try:
        woken = wake.publish_soon(ports, tenant_id)
        _journals.catch_up(ports, tenant_id, woken.done)
        if tenant_id in changed:
            # The mark may be visible before the key.
            operation.wait_for_writes()
            published_keys.name(ports, Pen(ports), tenant_id)
        if woken.list_due:
            wiring.queue_from_environment().send([tenant_id])
    except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
        figures = {"FeedWoken": 1, "FeedPublicationFailed": 1}
        _log.exception("feed", extra=logs.fields(tenant_id=tenant_id, metrics=figures))
        return "failed"
    seconds = time.monotonic() - started
    outcome = _outcome(woken)
    _log.info(
        "feed",
        extra=logs.fields(
            tenant_id=tenant_id, outcome=outcome, seconds=seconds, metrics=_figures(woken, seconds)
        ),
    )
    return outcome


def _outcome(woken: Woken) -> str:
    if woken.entries:
        return "published"
    return "left" if woken.wait_seconds else "nothing new"


def _figures(woken: Woken, seconds: float) -> dict[str, float]:
    if not woken.entries:
        return {"FeedWoken": 1}
    published = {"FeedPublished": 1, "FeedEntries": woken.entries}
    return {"FeedWoken": 1, **published, "FeedPublicationSeconds": seconds}
