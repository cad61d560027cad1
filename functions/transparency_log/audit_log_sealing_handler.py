"""Append new audit entries to the transparency logs, and collect cosignatures.

A stream and two schedules call it.
"""

import logging
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from functions.transparency_log import daily_statements, sealing, witnessing
from shared import logs, wiring
from shared.model.audit.audit_log import entry_of
from shared.model.audit.records import milliseconds, ulid_of
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
        witness_round = witnessing.WitnessRound(ports, wiring.witness_client(), policy)
        tenant_ids = tenants.identifiers(ports)
        return dict(Counter(_request_cosignatures(witness_round, each) for each in tenant_ids))
    entry_ids: dict[str, list[str]] = {}
    for record in event.get("Records", ()):
        keys = record["dynamodb"]["Keys"]
        if (entry := entry_of(keys["pk"]["S"], keys["sk"]["S"])) is not None:
            entry_ids.setdefault(entry[0], []).append(entry[1])
    named = [*entry_ids] if "Records" in event else [*tenants.identifiers(ports)]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="seal") as pool:
        outcomes = list(pool.map(partial(_seal, ports, entry_ids), named))
    if failed := outcomes.count("failed"):
        raise NotSealedError(f"cannot extend {failed} of {len(outcomes)} logs")
    return {each: outcomes.count(each) for each in ("sealed", "nothing new")}


def _request_cosignatures(witness_round: witnessing.WitnessRound, tenant_id: str) -> str:
    try:
        result = witness_round.cosign(tenant_id)
    except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
        figures = {"AuditWitnessingFailed": 1}
        _log.exception("witnessing", extra=logs.fields(tenant_id=tenant_id, metrics=figures))
        return "failed"
    return "nothing new" if result is None else "refused" if result.problems else "signed"


def _seal(ports: Ports, entry_ids: Mapping[str, list[str]], tenant_id: str) -> str:
    """Append the named entries of a tenant, or its missing entries. Return the outcome."""
    new_ids = entry_ids.get(tenant_id)
    started = time.monotonic()
    try:
        if new_ids is None:
            extended = daily_statements.sweep(ports, tenant_id)
        else:
            extended = sealing.extend(ports, tenant_id, entry_ids=new_ids)
        if (sink := wiring.audit_sink_from_environment()) is not None:
            sealing.copy_to_sink(ports, sink, tenant_id)
    except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
        figures = {"AuditSealingFailed": 1}
        _log.exception("sealing", extra=logs.fields(tenant_id=tenant_id, metrics=figures))
        return "failed"
    metrics: dict[str, float] = {}
    if added := extended.size - extended.first:
        metrics = {"AuditSealed": added, "AuditLate": extended.late}
        now_ms = ports.now().timestamp() * 1000
        if ages := [(now_ms - milliseconds(ulid_of(each))) / 1000 for each in new_ids or ()]:
            metrics["AuditLogLag"] = max(0.0, *ages)
    outcome, seconds = "sealed" if added else "nothing new", time.monotonic() - started
    fields = logs.fields(tenant_id=tenant_id, outcome=outcome, seconds=seconds, metrics=metrics)
    _log.info("sealing", extra=fields)
    return outcome
