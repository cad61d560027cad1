"""Create and renew trust documents with the root key. A stream and a schedule call it, not HTTP."""

import logging
import secrets
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from functions.trust import documents, publishing
from shared import logs, wiring
from shared.model.lists.schedule import concerns_trust, tenant_of_mark
from shared.operations.base import operation, tenants
from shared.ports import Ports

_log = logging.getLogger(__name__)

_THREADS: Final = 16
# No further tenant is started if less than this is left of the function's timeout.
_LEFT_MILLISECONDS: Final = 30_000


class NotRenewedError(Exception):
    """The documents of some tenants could not be checked; a retry is harmless."""


def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    """Renew the documents of tenants with changed keys, or of all tenants.

    A batch of the stream names the tenants with changed keys. A run of the schedule processes all
    tenants in random order, so that no tenant is always last if time is short. A failure is logged
    and counted, and does not stop other tenants. At the end it raises `NotRenewedError`, so that
    the batch or the run is delivered again. It does nothing if another region is the writable one,
    or if the service is read-only (OPS-14).
    """
    logs.configure_standard_output()
    ports = wiring.from_environment()
    if wiring.is_read_only() or not ports.is_in_charge():
        return {}
    if "Records" in event:
        # A mark may be visible before the change.
        operation.wait_for_writes()
        marks = (each["dynamodb"]["Keys"]["sk"]["S"] for each in event["Records"])
        changed = dict.fromkeys(tenant_of_mark(each) for each in marks if concerns_trust(each))
        done = _renew_all(ports, changed)
    else:
        shuffled = sorted(tenants.identifiers(ports), key=lambda _: secrets.randbits(64))
        done = _renew_all(ports, shuffled, context)
        _log.info("trust", extra=logs.fields(metrics={"TrustRenewalOverdue": done["expiring"]}))
    if failed := done["failed"]:
        raise NotRenewedError(f"cannot check {failed} of {done.total()} trust documents")
    return dict(done)


def _renew_all(ports: Ports, tenant_ids: Iterable[str], context: Any = None) -> Counter[str]:
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="trust") as pool:
        return Counter(pool.map(partial(_renew, ports, context), tenant_ids))


def _renew(ports: Ports, context: Any, tenant_id: str) -> str:
    """Check and renew the document of a tenant, and return the outcome.

    The outcome is `expiring` if the document is in the last third of its lifetime.
    """
    if context is not None and context.get_remaining_time_in_millis() < _LEFT_MILLISECONDS:
        return "left"
    try:
        outcome = publishing.keep(ports, tenant_id)
        head = documents.read_head(ports, tenant_id)
    except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
        figures = {"TrustRenewalFailed": 1}
        _log.exception("trust", extra=logs.fields(tenant_id=tenant_id, metrics=figures))
        return "failed"
    is_expiring = head is not None and ports.now() >= head.warns_at
    if is_expiring:
        _log.error(
            "the trust document is in the last third of its lifetime and was not renewed",
            extra=logs.fields(tenant_id=tenant_id),
        )
    return "expiring" if is_expiring else outcome.value
