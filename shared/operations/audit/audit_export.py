"""Exporting the audit log in parts of bounded length, oldest entry first (LOG-20)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, NamedTuple

from shared.model.audit import audit_log as model
from shared.model.audit.audit_log import AuditEntry, EntryFilters
from shared.model.audit.records import line
from shared.model.callers import Caller, Scope
from shared.model.items import Item
from shared.operations.audit import log
from shared.operations.audit.audit_log import (
    BYTES_MAX,
    AuditPosition,
    of_warrant,
    reachable,
    where_of,
)
from shared.operations.base import tenants
from shared.operations.base.operation import operation
from shared.operations.base.paging import merged
from shared.ports import Ports

# How many entries are read at a time.
_ROUND: Final = 1000

# The entry of a tenant's creation may be older than its settings by the differences of clocks.
_CREATED_BEFORE_MAX: Final = timedelta(days=1)


class ExportLine(NamedTuple):
    """An entry, and its line, whose hash is in the sealed log."""

    entry: AuditEntry
    text: bytes


@dataclass(frozen=True, slots=True)
class ExportPart:
    """A part of an export. `next_after` is the position of the next part, None at the end.

    At the end, `checkpoint` is the newest one of the sealed log, None if nothing is sealed.
    """

    lines: list[ExportLine]
    next_after: str | None
    checkpoint: str | None = None


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def part(
    ports: Ports, caller: Caller, *, filters: EntryFilters, after: AuditPosition | None
) -> ExportPart:
    """Return the next entries that match `filters`, up to `BYTES_MAX` bytes of lines (LOG-20).

    `after` is the end of the part before. It carries the window of the first part, so that entries
    that are made meanwhile do not lengthen the export.
    """
    if after is not None:
        filters = replace(filters, start=after.start, end=after.end)
    filters = _since_creation(ports, caller, reachable(ports, filters))
    lines: list[ExportLine] = []
    size = 0
    last = ""
    walk = _walk if filters.warrant_id is None else _walk_of_warrant
    for month, item in walk(ports, caller, filters, after=after):
        entry = AuditEntry.from_item(item)
        text = line(item)
        size += len(text)
        if size > BYTES_MAX and lines:
            return ExportPart(
                lines, str(AuditPosition(filters.start, filters.end, 0, last, lines[-1].entry.id))
            )
        lines.append(ExportLine(entry, text))
        last = month
    sealed = log.head(ports, caller.tenant_id)
    return ExportPart(lines, None, None if sealed is None else sealed.checkpoint)


def _since_creation(ports: Ports, caller: Caller, filters: EntryFilters) -> EntryFilters:
    """Limit the window to the life of the tenant; otherwise a hundred empty months are read."""
    created = tenants.settings(ports, caller.tenant_id).created_at - _CREATED_BEFORE_MAX
    return replace(filters, start=max(filters.start, created))


def _walk(
    ports: Ports, caller: Caller, filters: EntryFilters, *, after: AuditPosition | None
) -> Iterator[tuple[str, Item]]:
    """Yield the items, oldest first, each with the month of its partition."""
    where = where_of(ports, filters)
    for month, partitions in reversed(list(model.months(caller.tenant_id, filters))):
        if after is not None and month < after.month:
            continue
        is_begun = after is not None and month == after.month
        first = after.entry_id if after is not None and is_begun else filters.after
        while True:
            rows, _ = merged(
                ports,
                partitions,
                limit=_ROUND,
                newest_first=False,
                after=first,
                before=filters.before,
                where=where,
            )
            yield from ((month, row.item) for row in rows)
            if len(rows) < _ROUND:
                break
            first = rows[-1].sk


def _walk_of_warrant(
    ports: Ports, caller: Caller, filters: EntryFilters, *, after: AuditPosition | None
) -> Iterator[tuple[str, Item]]:
    """Yield the items about one warrant, oldest first."""
    for item in reversed(of_warrant(ports, caller, filters)):
        if after is None or str(item["id"]) > after.entry_id:
            yield "-", item
