"""Append passes, which add new audit entries to the transparency log (LOG-1).

A pass reads the log head, stores its full tiles, finds the entries that are not in the log, and
writes the next log head. That write alone is decisive: no failure before or after it loses an entry
or appends it twice (docs/adr/18). Appended entries are then copied to the audit sink (LOG-27).
"""

import heapq
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Final, NamedTuple

from functions.transparency_log import checkpoint, log, outside, signers
from functions.transparency_log import head as model
from functions.transparency_log.checkpoint import Checkpoint, PinnedCheckpoint
from functions.transparency_log.head import APPENDED_MAX, LogHead
from shared import logs
from shared.errors import DataCorrupt
from shared.model import times
from shared.model.audit import audit_log, log_state, records
from shared.model.audit.audit_log import AuditAction, EntryFilters
from shared.model.audit.records import EntryCommitment
from shared.model.identifiers import AUDIT_ENTRY, before_all_of
from shared.model.items import ItemRow
from shared.model.records import Record
from shared.operations.audit import audit_log as audit_entries
from shared.operations.audit import revocation_counts
from shared.operations.base import operation, tenants
from shared.operations.base.operation import settle
from shared.ports import Ports
from shared.ports.outside import AuditSink, CopiedRange
from shared.ports.store import Change, Expect, ItemFilter, Put, expect_version

_log = logging.getLogger(__name__)

# How far a pass reads behind the newest appended entry, for entries that became visible late. A
# change takes 30 seconds at most, and clocks differ by a few.
OVERLAP: Final = timedelta(seconds=60)
# How far the daily sweep reads back.
SWEEP: Final = timedelta(hours=48)

_SECONDS: Final = 20.0
# How far the clock of another instance may be ahead.
_AHEAD_MS: Final = 1000
# A tenant exists before its first entry, but the clock at its creation may have been wrong.
_BEFORE: Final = timedelta(days=1)

# The most leaves in one copy.
_COPIED_MAX: Final = 1000


class AppendResult(NamedTuple):
    """The log size before and after a pass, and the number of late entries."""

    first: int
    size: int
    late: int


def extend(
    ports: Ports,
    tenant_id: str,
    *,
    entry_ids: Iterable[str] = (),
    overlap: timedelta = OVERLAP,
    seconds: float = _SECONDS,
) -> AppendResult:
    """Append the entries that are not in the log yet, in passes, for about `seconds` seconds.

    Entries that became visible more than `overlap` after newer entries are found only if
    `entry_ids` contains them. Repeated and concurrent calls are harmless. Raises `DataCorrupt` if
    an entry or the log is damaged, or if the log was cut (LOG-12); `Unavailable`.
    """
    deadline = operation.PACING.clock() + seconds
    begin: LogHead | None = None
    wanted = sorted(set(entry_ids))
    while True:
        before, after = settle(lambda: _pass(ports, tenant_id, wanted, overlap))
        begin = begin or before
        whole = after.size - before.size < APPENDED_MAX and not after.full_tiles()
        if whole or operation.PACING.clock() >= deadline:
            return AppendResult(begin.size, after.size, after.late - begin.late)


def sweep(ports: Ports, tenant_id: str) -> AppendResult:
    """Append entries of the last two days that every pass has missed.

    Raises `DataCorrupt`, `Unavailable`.
    """
    return extend(ports, tenant_id, overlap=SWEEP)


def _pass(
    ports: Ports, tenant_id: str, entry_ids: list[str], overlap: timedelta
) -> tuple[LogHead, LogHead]:
    """Run one pass; return the log head before and after it. Raises `PreconditionFailed`."""
    before = outside.head(ports, tenant_id)
    if before is None:
        before = LogHead.empty(log.FIRST_GENERATION, ports.now())
    log.store_tiles(ports, tenant_id, before)
    after = before.drop_stored_records()
    rows = _read_unlogged_rows(ports, tenant_id, after, entry_ids, overlap)
    added = list[bytes]()
    for row in rows:
        commitment = EntryCommitment.of(row.item)
        if commitment.id != row.sk:
            raise DataCorrupt(f"the audit entry stored as {row.sk} has another identifier")
        added.append(commitment.data)
    if not added and after.stored == before.stored:
        return before, before
    changes: list[Change] = []
    if added:
        # The first pass of each minute also checks the anchors.
        if before.sealed_at.replace(second=0, microsecond=0) != ports.now().replace(
            second=0, microsecond=0
        ):
            outside.check_anchors(ports, tenant_id)
        items = [row.item for row in rows]
        log.index(ports, tenant_id, items)
        counted_from = revocation_counts.start_counting(ports, tenant_id, after)
        after = replace(after.append(added, ports.now()), counted_from=counted_from)
        after, changes = _sign_checkpoint(ports, tenant_id, after)
        changes += revocation_counts.count_changes(ports, tenant_id, after, items)
    expect = expect_version(before.version)
    ports.store.write(Put(model.address(tenant_id), after.to_item(), expect), *changes)
    if added:
        _report(tenant_id, rows)
        log.keep_checkpoint(ports, tenant_id, PinnedCheckpoint.of(after), after.checkpoint)
    return before, after


def _report(tenant_id: str, rows: list[ItemRow]) -> None:
    """Log overrides by the operator and changes of trust anchors, for the alarms.

    The operator's command is not part of the service, and its metrics are not collected.
    """
    if number := sum(row.item["action"] == AuditAction.APPROVAL_OVERRIDE for row in rows):
        figures = logs.fields(tenant_id=tenant_id, metrics={"ApprovalsOverridden": number})
        _log.warning("the operator overrode approvals", extra=figures)
    details = [row.item["details"] for row in rows]
    if number := sum(isinstance(each, dict) and "anchors_changed" in each for each in details):
        figures = logs.fields(tenant_id=tenant_id, metrics={"TrustAnchorChanged": number})
        _log.warning("the people who can sign in and approve changed", extra=figures)


def _sign_checkpoint(ports: Ports, tenant_id: str, head: LogHead) -> tuple[LogHead, list[Change]]:
    """Return the log head with its checkpoint, and the write that stores the first signer."""
    known, changes = signers.read_settled(ports, tenant_id), list[Change]()
    if all(each.retired_at for each in known):
        signer = signers.make(ports, tenant_id)
        known.append(signer)
        changes += [Put(signer.address, signer.to_item(), Expect.ABSENT), signers.mark(tenant_id)]
    origin = checkpoint.origin(tenant_id, head.generation)
    note = signers.sign(ports, Checkpoint(origin, head.size, head.root), known)
    return head.with_checkpoint(note), changes


def _read_unlogged_rows(
    ports: Ports, tenant_id: str, head: LogHead, entry_ids: list[str], overlap: timedelta
) -> list[ItemRow]:
    """Return the rows of entries that are not in the log, oldest first, up to a limit."""
    now_ms = _ms(ports.now())
    newest_ms = head.newest_ms(now_ms)
    if newest_ms is None:
        newest_ms = _ms(tenants.settings(ports, tenant_id).created_at - _BEFORE)
    since_ms = newest_ms - int(overlap.total_seconds() * 1000)
    older = [each for each in entry_ids if _made_ms(each) < since_ms]
    logged = {
        ulid
        for first, end in head.leaves_since(min([since_ms, *map(_made_ms, older)]))
        for ulid in records.ulids(b"".join(log.data(ports, tenant_id, head, first, end)))
    }
    unlogged = [each for each in older if records.ulid_of(each) not in logged]
    late = audit_entries.read_entries(ports, tenant_id, unlogged)
    # Entries in the future are appended later, because they would hide other entries.
    rows = _entries(ports, tenant_id, since_ms, now_ms + _AHEAD_MS)
    candidates = chain((ItemRow(*each) for each in sorted(late.items())), rows)
    fresh = (row for row in candidates if records.ulid_of(row.sk) not in logged)
    alive = ItemFilter(alive_at=now_ms // 1000)
    return list(islice((row for row in fresh if alive.holds(row.item)), APPENDED_MAX))


def _entries(ports: Ports, tenant_id: str, since_ms: int, now_ms: int) -> Iterator[ItemRow]:
    """Yield the rows of the entries created between the two times, in order of identifiers."""
    start, end = _moment(max(since_ms, 0)), _moment(now_ms + 1)
    after, before = (before_all_of(each, kind=AUDIT_ENTRY) for each in (start, end))
    for _, partitions in reversed(list(audit_log.months(tenant_id, EntryFilters(start, end)))):
        queries = (ports.store.query(each, after=after, before=before) for each in partitions)
        yield from heapq.merge(*queries, key=lambda row: row.sk)


def _made_ms(entry_id: str) -> int:
    return records.milliseconds(records.ulid_of(entry_id))


def _moment(milliseconds: int) -> datetime:
    # The middle of the millisecond: no conversion rounds it down to the previous one.
    return times.from_seconds(0) + timedelta(milliseconds=milliseconds + 0.5)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@dataclass(frozen=True, slots=True)
class SinkCursor(Record):
    """How much of the log the sink contains: `size` leaves of a generation."""

    generation: int
    size: int
    version: int


def copy_to_sink(ports: Ports, sink: AuditSink, tenant_id: str) -> None:
    """Copy the appended entries that the sink lacks, with the checkpoint that covers them.

    After a failure, the next call begins where the last one ended, and may repeat a copy. Raises
    `DataCorrupt`, `Unavailable`.
    """
    while settle(lambda: _copy(ports, sink, tenant_id)):
        pass


def _copy(ports: Ports, sink: AuditSink, tenant_id: str) -> bool:
    """Copy up to `_COPIED_MAX` leaves; return whether there are more.

    A copy has a line for each leaf, with its entry unless that expired, and the checkpoint.
    Raises `PreconditionFailed`.
    """
    head = log.head(ports, tenant_id)
    if head is None:
        return False
    address = log_state.partition(tenant_id).address("sink")
    before = SinkCursor.from_optional(ports.store.get(address)) or SinkCursor(head.generation, 0, 0)
    first = before.size if before.generation == head.generation else 0
    end = min(head.size, first + _COPIED_MAX)
    if first == end:
        return False
    keep = ports.now() + tenants.settings(ports, tenant_id).audit_retention
    data = log.data(ports, tenant_id, head, first, end)
    ids = [EntryCommitment.parse(each).id for each in data]
    items = audit_entries.read_entries(ports, tenant_id, ids)
    lines = list[bytes]()
    for index, (entry_id, record) in enumerate(zip(ids, data, strict=True), first):
        entry = records.line(items[entry_id]) if entry_id in items else b"null"
        lines.append(
            b'{"entry":%b,"index":%d,"record":"%b"}\n' % (entry, index, record.hex().encode())
        )
    lines.append(json.dumps({"checkpoint": head.checkpoint}).encode() + b"\n")
    sink.add(CopiedRange(tenant_id, head.generation, first, end, b"".join(lines), keep))
    after = SinkCursor(head.generation, end, before.version + 1)
    ports.store.write(Put(address, after.to_item(), expect_version(before.version)))
    return end < head.size
