"""Append new audit entries to the transparency logs, and collect cosignatures.

A stream and two schedules call it.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from shared import logs, wiring
from shared.model.audit.audit_log import entry_of
from shared.model.audit.records import milliseconds, ulid_of
from shared.operations.audit import sealing, statements, witnessing
from shared.operations.audit.sealing import AppendResult
from shared.operations.base import tenants
from shared.ports import Ports

_log = logging.getLogger(__name__)

_THREADS: Final = 16


class NotSealedError(Exception):
    """The logs of some tenants could not be extended; a retry is harmless."""


def handler(event: dict[str, Any], _context: object) -> dict[str, int]:
    """Append the entries in a batch of the stream, or the missing entries of all tenants.

    With `witnesses` in the event, it appends no entries and requests cosignatures instead (LOG-31).

    A failure is logged and counted, and does not stop other tenants. At the end it raises
    `NotSealedError`, so that the stream delivers the batch again.
    """
    logs.configure_standard_output()
    ports = wiring.from_environment()
    if not ports.is_in_charge():
        return {}
    if event.get("witnesses"):
        policy = wiring.witnesses()
        if policy is None:
            return {}
        asking = witnessing.WitnessRound(ports, wiring.witness_client(), policy)
        return dict(
            Counter(_request_cosignatures(asking, each) for each in tenants.identifiers(ports))
        )
    named = _entry_ids_by_tenant(event["Records"]) if "Records" in event else None
    tenant_ids = list(tenants.identifiers(ports)) if named is None else named
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="seal") as pool:
        outcomes = list(pool.map(partial(_seal, ports, named), tenant_ids))
    if failed := outcomes.count("failed"):
        raise NotSealedError(f"cannot extend {failed} of {len(outcomes)} logs")
    return {each: outcomes.count(each) for each in ("sealed", "nothing new")}


def _request_cosignatures(asking: witnessing.WitnessRound, tenant_id: str) -> str:
    try:
        found = asking.cosign(tenant_id)
    except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
        figures = {"AuditWitnessingFailed": 1}
        _log.exception("witnessing", extra=logs.fields(tenant_id=tenant_id, metrics=figures))
        return "failed"
    return "nothing new" if found is None else "refused" if found.problems else "signed"


def _entry_ids_by_tenant(batch: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the identifiers of the entries in a batch, by tenant."""
    found: dict[str, list[str]] = {}
    for each in batch:
        keys = each["dynamodb"]["Keys"]
        entry = entry_of(keys["pk"]["S"], keys["sk"]["S"])
        if entry is not None:
            found.setdefault(entry[0], []).append(entry[1])
    return found


def _seal(ports: Ports, entry_ids: Mapping[str, list[str]] | None, tenant_id: str) -> str:
    extend: Callable[[], AppendResult] = partial(statements.sweep, ports, tenant_id)
    if entry_ids is not None:
        extend = partial(sealing.extend, ports, tenant_id, entry_ids=entry_ids[tenant_id])
    started = time.monotonic()
    try:
        extended = extend()
        if (to := wiring.audit_sink_from_environment()) is not None:
            sealing.copy_to_sink(ports, to, tenant_id)
    except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
        figures = {"AuditSealingFailed": 1}
        _log.exception("sealing", extra=logs.fields(tenant_id=tenant_id, metrics=figures))
        return "failed"
    outcome = "sealed" if extended.size > extended.first else "nothing new"
    metrics = _figures(ports, extended, (entry_ids or {}).get(tenant_id, ()))
    seconds = time.monotonic() - started
    fields = logs.fields(tenant_id=tenant_id, outcome=outcome, seconds=seconds, metrics=metrics)
    _log.info("sealing", extra=fields)
    return outcome


def _figures(
    ports: Ports, append_result: AppendResult, entry_ids: Iterable[str]
) -> dict[str, float] | None:
    added = append_result.size - append_result.first
    if not added:
        return None
    now_ms = ports.now().timestamp() * 1000
    ages = [(now_ms - milliseconds(ulid_of(each))) / 1000 for each in entry_ids]
    oldest = {"AuditLogLag": max(0.0, *ages)} if ages else {}
    return {"AuditSealed": added, "AuditLate": append_result.late, **oldest}
