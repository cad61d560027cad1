"""Read the audit log, page by page (AUDIT-4) or in parts of bounded length (LOG-20)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, Self, TypeAlias

from shared.capabilities import INSTALLED
from shared.model import times
from shared.model.audit import audit_log as model
from shared.model.audit.audit_log import AuditAction, AuditEntry, EntryFilters
from shared.model.audit.records import line, moment
from shared.model.callers import Caller, Scope
from shared.model.items import Item
from shared.model.tenants import AUDIT_RETENTION_DAYS_MAX, AUDIT_RETENTION_DAYS_MIN
from shared.operations.base import tenants
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page, merge_partitions
from shared.ports import Ports
from shared.ports.store import ItemFilter

# Entries, each with the month of its partition.
_Rows: TypeAlias = list[tuple[str, AuditEntry]]

# The most bytes of entries in a page or in a part of an export; a first entry may be larger. A
# Lambda response has at most 6 MB, and JSON encoding may double the length of a text.
BYTES_MAX: Final = 2 * 1024 * 1024

# The most that the clock of one instance may be ahead of another.
_AHEAD_MAX: Final = timedelta(days=1)

# How many entries are read at a time. A page of a word search reads no more.
_ROUND: Final = 1000

# The actions of entries that name several warrants.
_OF_BATCHES: Final = tuple(each for each in AuditAction if each.endswith("_batch"))
# How much older than the newest appended entry an entry may be that is not appended yet.
_LATE_MAX: Final = timedelta(seconds=120)

# The entry of a tenant's creation may be older than its settings, because clocks differ.
_CREATED_BEFORE_MAX: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class AuditPosition:
    """The start of the next page: last entry so far, and window and total of the first page."""

    start: datetime
    end: datetime
    total: int
    month: str
    entry_id: str

    def __str__(self) -> str:
        start, end = int(self.start.timestamp()), int(self.end.timestamp())
        return f"{start}/{end}/{self.total}/{self.month}/{self.entry_id}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the result of `str`. Raises `ValueError` for any other text."""
        start, end, total, month, entry_id = text.split("/")
        try:
            return cls(_moment(start), _moment(end), int(total), month, entry_id)
        except (OverflowError, OSError) as error:
            raise ValueError("not a date of the calendar") from error


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page(
    ports: Ports, caller: Caller, *, filters: EntryFilters, before: AuditPosition | None, limit: int
) -> Page[AuditEntry]:
    """Return a page of the tenant's entries that match `filters`, newest first (AUDIT-4).

    It has at most `limit` entries and `BYTES_MAX` bytes. Matching entries are counted only for the
    first page. `before` carries their total and the window to the next pages. With words, entries
    are not counted, and a page has the matches among the next `_ROUND` entries.
    """
    if before is not None:
        filters = replace(filters, start=before.start, end=before.end)
    filters = reachable(ports, filters)
    rows: _Rows
    end, counted = None, None
    if filters.warrant_id is not None:
        about = [AuditEntry.from_item(each) for each in of_warrant(ports, caller, filters)]
        matching = [each for each in about if filters.finds(each)]
        rows = [("-", each) for each in matching if before is None or each.id < before.entry_id]
        counted = len(matching)
    elif filters.words:
        read, _ = _walk(ports, caller, filters, before=before, limit=_ROUND + 1, counts=())
        rows = [each for each in read[:_ROUND] if filters.finds(each[1])]
        end = read[_ROUND - 1] if len(read) > _ROUND else None
    else:
        where = where_of(ports, filters)
        bounds = {"after": filters.lower_bound, "before": filters.upper_bound}
        counts = [
            partial(ports.store.count, partition, **bounds, where=where)
            for _, partitions in (() if before else model.months(caller.tenant_id, filters))
            for partition in partitions
        ]
        rows, counted = _walk(ports, caller, filters, before=before, limit=limit + 1, counts=counts)
    total = before.total if before and counted is not None else counted
    shown = _fitting(rows[:limit])
    entries = [entry for _, entry in shown]
    if len(shown) < len(rows):
        end = shown[-1]
    if end is None:
        return Page(entries, total, None)
    month, last = end
    position = AuditPosition(filters.start, filters.end, total or 0, month, last.id)
    return Page(entries, total, str(position))


def newest(
    ports: Ports, caller: Caller, filters: EntryFilters, *, before: str | None, limit: int
) -> list[AuditEntry]:
    """Return up to `limit` entries that match, newest first, older than the entry `before`."""
    filters, entries = reachable(ports, filters), list[AuditEntry]()
    for _, partitions in model.months(caller.tenant_id, filters):
        rows, _ = merge_partitions(
            ports,
            partitions,
            limit=limit - len(entries),
            after=filters.lower_bound,
            before=min(filter(None, (before, filters.upper_bound))),
            where=where_of(ports, filters),
        )
        entries += AuditEntry.from_rows(rows)
        if len(entries) == limit:
            break
    return entries


def _fitting(entries: _Rows) -> _Rows:
    """Return the first entries that fit into a page, at least one."""
    size = 0
    for count, (_, entry) in enumerate(entries):
        size += len(str(entry.details).encode())
        if size > BYTES_MAX and count:
            return entries[:count]
    return entries


def of_warrant(ports: Ports, caller: Caller, filters: EntryFilters) -> list[Item]:
    """Return the items of all matching entries about the filter's warrant, newest first."""
    where = where_of(ports, filters)
    items = read_about_warrant(ports, caller.tenant_id, str(filters.warrant_id), filters)
    return [each for each in items if where.holds(each)]


def read_entries(ports: Ports, tenant_id: str, entry_ids: Sequence[str]) -> dict[str, Item]:
    """Return the items of these entries that exist, by identifier. Raises `Unavailable`."""
    items = ports.store.get_many(model.address(tenant_id, each, moment(each)) for each in entry_ids)
    return {address.sk: item for address, item in items.items()}


def read_about_warrant(
    ports: Ports, tenant_id: str, warrant_id: str, filters: EntryFilters
) -> list[Item]:
    """Return the entries about a warrant from the window, newest first.

    The result may include expired entries. Raises `Unavailable`.
    """
    partition = model.entries_of(tenant_id, warrant_id)
    after, before = map(model.sort_key, (filters.lower_bound, filters.upper_bound))
    rows = ports.store.query(partition, after=after, before=before)
    items = read_entries(ports, tenant_id, [model.entry_id(row.sk) for row in rows])
    # Entries that may not be appended yet have no index, so they are searched.
    log, now_ms = INSTALLED.log.head(ports, tenant_id), int(ports.now().timestamp() * 1000)
    newest_ms = None if log is None else log.newest_ms(now_ms)
    if newest_ms is not None:
        since = times.from_seconds(newest_ms // 1000) - _LATE_MAX
        filters = EntryFilters(max(filters.start, since), filters.end)
    conditions = [
        ItemFilter({"details.warrant_id": warrant_id}),
        *(ItemFilter({"action": each}) for each in _OF_BATCHES),
    ]
    months = model.months(tenant_id, filters) if filters.start <= filters.end else ()
    for partition in chain.from_iterable(partitions for _, partitions in months):
        for where in conditions:
            for row in ports.store.query(
                partition, after=filters.lower_bound, before=filters.upper_bound, where=where
            ):
                if warrant_id in model.warrants_of(row.item):
                    items[str(row.item["id"])] = row.item
    return [items[entry_id] for entry_id in sorted(items, reverse=True)]


def _walk(
    ports: Ports,
    caller: Caller,
    filters: EntryFilters,
    *,
    before: AuditPosition | None,
    limit: int,
    counts: Sequence[Callable[[], int]],
) -> tuple[_Rows, int]:
    """Read up to `limit` entries, newest first, each with the month of its partition.

    Also returns the sum of `counts`, which are called concurrently with the first query.
    """
    rows: _Rows = []
    total = 0
    for month, partitions in model.months(caller.tenant_id, filters):
        last = filters.upper_bound
        if before is not None and month > before.month:
            continue
        if before is not None and month == before.month:
            last = min(last, before.entry_id)
        stored, counted = merge_partitions(
            ports,
            partitions,
            limit=limit - len(rows),
            counters=counts,
            after=filters.lower_bound,
            before=last,
            where=where_of(ports, filters),
        )
        rows += ((month, AuditEntry.from_item(each.item)) for each in stored)
        total, counts = total + counted, ()
        if len(rows) == limit:
            break
    return rows, total


def where_of(ports: Ports, filters: EntryFilters) -> ItemFilter:
    """Return the condition for the store.

    Entries younger than any retention cannot have expired.
    """
    now = ports.now()
    may_have_expired = filters.start <= now - timedelta(days=AUDIT_RETENTION_DAYS_MIN)
    return ItemFilter(filters.values, int(now.timestamp()) if may_have_expired else None)


def _moment(seconds: str) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def reachable(ports: Ports, filters: EntryFilters) -> EntryFilters:
    """Limit the window of the filters to the time that can have entries."""
    now = times.truncate_to_second(ports.now())
    start = max(filters.start, now - timedelta(days=AUDIT_RETENTION_DAYS_MAX))
    return replace(filters, start=start, end=min(filters.end, now + _AHEAD_MAX))


class ExportLine(NamedTuple):
    """An entry, and its export line. The transparency log contains the hash of the line."""

    entry: AuditEntry
    text: bytes


@dataclass(frozen=True, slots=True)
class ExportPart:
    """A part of an export. `next_after` is the position of the next part, or None at the end.

    At the end, `checkpoint` is the newest checkpoint of the log, or None if the log is empty.
    """

    lines: list[ExportLine]
    next_after: str | None
    checkpoint: str | None = None


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def part(
    ports: Ports, caller: Caller, *, filters: EntryFilters, after: AuditPosition | None
) -> ExportPart:
    """Return the next entries that match `filters`, up to `BYTES_MAX` bytes of lines (LOG-20).

    `after` is the end of the previous part. It carries the window of the first part, so new entries
    do not lengthen the export.
    """
    if after is not None:
        filters = replace(filters, start=after.start, end=after.end)
    filters = reachable(ports, filters)
    # Before the life of the tenant, a hundred months may be empty.
    created = tenants.settings(ports, caller.tenant_id).created_at - _CREATED_BEFORE_MAX
    filters = replace(filters, start=max(filters.start, created))
    items: Iterable[tuple[str, Item]]
    if filters.warrant_id is None:
        items = _export_walk(ports, caller, filters, after=after)
    else:
        oldest_first = reversed(of_warrant(ports, caller, filters))
        items = (
            ("-", each) for each in oldest_first if not after or str(each["id"]) > after.entry_id
        )
    lines: list[ExportLine] = []
    size = 0
    last = ("", "")
    for month, item in items:
        entry = AuditEntry.from_item(item)
        text = line(item)
        # Entries without the words count, because they were read as well.
        size += len(text)
        if size > BYTES_MAX and last[1]:
            return ExportPart(lines, str(AuditPosition(filters.start, filters.end, 0, *last)))
        if filters.finds(entry):
            lines.append(ExportLine(entry, text))
        last = (month, entry.id)
    log = INSTALLED.log.head(ports, caller.tenant_id)
    return ExportPart(lines, None, None if log is None else log.checkpoint)


def _export_walk(
    ports: Ports, caller: Caller, filters: EntryFilters, *, after: AuditPosition | None
) -> Iterator[tuple[str, Item]]:
    """Yield the items, oldest first, each with the month of its partition."""
    where = where_of(ports, filters)
    for month, partitions in reversed(list(model.months(caller.tenant_id, filters))):
        if after is not None and month < after.month:
            continue
        is_begun = after is not None and month == after.month
        first = after.entry_id if after is not None and is_begun else filters.lower_bound
        while True:
            rows, _ = merge_partitions(
                ports,
                partitions,
                limit=_ROUND,
                newest_first=False,
                after=first,
                before=filters.upper_bound,
                where=where,
            )
            yield from ((month, row.item) for row in rows)
            if len(rows) < _ROUND:
                break
            first = rows[-1].sk
