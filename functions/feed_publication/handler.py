"""Publish the feeds of tenants with new outbox marks. A stream calls it, not HTTP."""

import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Final

from shared import logs, wiring
from shared.model.lists.schedule import concerns_trust, tenant_of_mark
from shared.operations.base import operation
from shared.operations.lists import publication, wake
from shared.operations.lists.journal import Journals
from shared.ports import Ports

_log = logging.getLogger(__name__)

# A batch has few tenants, unless many change at the same time.
_THREADS: Final = 16
_journals = Journals()
# Blobs are stored after the feeds, in these threads, which may outlast an invocation. The next
# batch of the stream does not wait for an unresponsive blob store.
_storing = ThreadPoolExecutor(_THREADS, thread_name_prefix="blobs")
_STORING_SECONDS: Final = 2.0


def handler(event: dict[str, Any], _context: object) -> dict[str, int]:
    """Publish the feed of each tenant with a mark in the batch. Returns outcome counts.

    If keys have changed, the feed also names the current signing keys (TRUST-9).

    A failure is logged and counted, and does not stop other tenants. The batch is not delivered
    again, because the schedule publishes the remaining changes (docs/adr/11). Raises if no tenant
    can be published, for example `InvalidSettings`. The batch is then delivered twice more.
    """
    logs.configure_standard_output()
    ports = wiring.from_environment()
    if not ports.is_in_charge():
        return {}
    marks = [each["dynamodb"]["Keys"]["sk"]["S"] for each in event["Records"]]
    tenant_ids = dict.fromkeys(map(tenant_of_mark, marks))
    changed = frozenset(tenant_of_mark(each) for each in marks if concerns_trust(each))
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="feed") as pool:
        outcomes = list(pool.map(partial(_publish, ports, changed), tenant_ids))
    stored = [_storing.submit(store) for _, store in outcomes]
    wait(stored, timeout=_STORING_SECONDS)
    names = [outcome for outcome, _ in outcomes]
    return {each: names.count(each) for each in ("published", "nothing new", "left", "failed")}


def _publish(ports: Ports, ids: Collection[str], tenant_id: str) -> tuple[str, Callable[[], None]]:
    """Publish the feed of a tenant. Return the outcome and a call that stores its blobs."""
    started = time.monotonic()
    try:
        woken = wake.publish_within_window(ports, tenant_id)
        if woken.list_due:
            wiring.queue_from_environment().send([tenant_id])
    except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
        _log_failure("feed", tenant_id)
        return "failed", lambda: None
    seconds = time.monotonic() - started
    figures: dict[str, float] = {"FeedWoken": 1}
    outcome = "left" if woken.wait_seconds else "nothing new"
    if woken.entries:
        outcome = "published"
        figures |= {"FeedPublished": 1, "FeedEntries": woken.entries}
        figures["FeedPublicationSeconds"] = seconds
    fields = logs.fields(tenant_id=tenant_id, outcome=outcome, seconds=seconds, metrics=figures)
    _log.info("feed", extra=fields)

    def name_keys() -> None:
        # The mark may be visible before the key.
        operation.wait_for_writes()
        publication.name_keys(ports, tenant_id, woken.unnamed)

    def store() -> None:
        """Name the signing keys if any may have changed, and write the journal."""
        if woken.unnamed or tenant_id in ids:
            _run_duty("keys", tenant_id, name_keys)
        write = partial(_journals.write_missing_records, ports, tenant_id, woken.done)
        _run_duty("journal", tenant_id, write)

    return outcome, store


def _run_duty(duty: str, tenant_id: str, run: Callable[[], None]) -> None:
    try:
        run()
    except Exception:  # noqa: BLE001 (a failure of one duty must not stop the other)
        _log_failure(duty, tenant_id)


def _log_failure(duty: str, tenant_id: str) -> None:
    figures = {"FeedWoken": 1, "FeedPublicationFailed": 1}
    _log.exception(duty, extra=logs.fields(tenant_id=tenant_id, metrics=figures))
