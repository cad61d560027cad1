"""Daily audit statements of the revocation counters (LOG-29).

The counters are written with each change. Between two statements, they must grow by exactly the
changes that the audit entries name. They grow by more if an entry is missing from the table.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Final

from functions.transparency_log import log, sealing
from functions.transparency_log import statements as model
from functions.transparency_log.head import APPENDED_MAX
from functions.transparency_log.sealing import AppendResult
from functions.transparency_log.statements import AuditStatement, LatestStatement
from shared.errors import PreconditionFailed
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller
from shared.operations.base import audit, counters, operation, tenants
from shared.ports import Ports
from shared.ports.store import Change, Put, VersionIs, expect_version

# A little less than a day, because the daily run must not find a statement just too early.
_APART: Final = timedelta(hours=20)
# Under constant changes, the counters may differ before and after a pass.
_TRIES: Final = 5

_log = logging.getLogger(__name__)


def sweep(ports: Ports, tenant_id: str) -> AppendResult:
    """Append entries that every pass has missed. Then write a statement if it is due.

    Raises `DataCorrupt`, `Unavailable`.
    """
    swept = sealing.sweep(ports, tenant_id)
    last = _last(ports, tenant_id)
    if _is_whole(swept) and (head := log.head(ports, tenant_id)) is not None:
        is_other = last is not None and last.generation != head.generation
        if last is None or is_other or ports.now() - last.stated_at >= _APART:
            _state(ports, tenant_id, last)
    head = log.head(ports, tenant_id)
    return swept if head is None else swept._replace(size=max(head.size, swept.size))


def forgotten(ports: Ports, tenant_id: str, entry: Callable[..., Put]) -> list[Change]:
    """Return the writes that prevent a comparison of later statements with earlier ones.

    After a restore, the counters differ from the last statement. `entry` creates the audit entry
    from action, resource and details. Returns an empty list if there is no statement.
    """
    last = _last(ports, tenant_id)
    if last is None or not last.generation:
        return []
    generation = last.generation
    latest = LatestStatement(0, 0, (0,) * len(last.changes), ports.now(), last.version + 1)
    return [
        Put(model.address(tenant_id), latest.to_item(), VersionIs(last.version)),
        entry(AuditAction.AUDIT_LOG_STATEMENT, f"audit_log/{generation}", generation=generation),
    ]


def _last(ports: Ports, tenant_id: str) -> LatestStatement | None:
    return LatestStatement.from_optional(ports.store.get(model.address(tenant_id)))


def _state(ports: Ports, tenant_id: str, last: LatestStatement | None) -> None:
    """Write a statement if there are changes since the last one and none during the read.

    It covers the entries of all counted changes, so these are appended first.
    """
    for _ in range(_TRIES):
        changes = _read_shard_counts(ports, tenant_id)
        stated = last.changes if last else (0,) * len(changes)
        if any(now < past for now, past in zip(changes, stated, strict=False)):
            _log.warning(
                "the counters of tenant %s decreased; if the store was restored, recover the "
                "tenant",
                tenant_id,
            )
            return
        if changes == stated:
            return
        before = log.head(ports, tenant_id)
        # After this pause, all items of the counted writes are visible. After the next one, the
        # counters of writes with appended entries are visible.
        operation.wait_for_writes()
        extended = sealing.extend(ports, tenant_id)
        operation.wait_for_writes()
        is_same = _read_shard_counts(ports, tenant_id) == changes
        head = log.head(ports, tenant_id)
        is_whole = is_same and _is_whole(extended)
        if is_whole and before and head and before.generation == head.generation:
            break
    else:
        return
    statement = AuditStatement(head.generation, extended.size, changes)
    settings = tenants.settings(ports, tenant_id)
    entry = audit.entry(
        ports,
        Caller.inside(tenant_id, name="sealing", handle=settings.handle),
        AuditAction.AUDIT_LOG_STATEMENT,
        f"audit_log/{statement.generation}",
        settings=settings,
        **statement.to_item(),
    )
    version = last.version if last else 0
    latest = LatestStatement(head.generation, extended.size, changes, ports.now(), version + 1)
    put = Put(model.address(tenant_id), latest.to_item(), expect_version(version))
    # If this conflicts, another run has written a statement, or a recovery has begun.
    with suppress(PreconditionFailed):
        ports.store.write(put, entry)


def _is_whole(append_result: AppendResult) -> bool:
    """Return whether the passes left no entry. An incomplete pass appends the maximum."""
    return append_result.size - append_result.first < APPENDED_MAX


def _read_shard_counts(ports: Ports, tenant_id: str) -> tuple[int, ...]:
    return tuple(each["changes"] for each in counters.of_shards(ports, tenant_id))
