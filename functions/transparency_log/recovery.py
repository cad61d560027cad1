"""The transparency log in a recovery: a new generation, and the entries of the steps (LOG-10)."""

import math
from typing import Final

from functions.transparency_log import daily_statements, log, outside, sealing, signers
from functions.transparency_log.checkpoint import PinnedCheckpoint
from shared.capabilities import RecoveryContext
from shared.errors import DataCorrupt
from shared.model.audit import audit_log
from shared.model.audit.audit_log import EntryFilters
from shared.operations.base.operation import reread, settle

# Log generations that may have begun without the knowledge of a copy of the store.
_LOST: Final = 8


def begin(run: RecoveryContext) -> None:
    """Begin the next log generation if the audit table is older than the log or the newest SRL.

    Each SRL is stored with an audit entry, so a table without an entry since then was restored.
    In a copy, a generation always begins, because this store may lack some appended leaves.
    """
    ports, tenant_id = run.ports, run.tenant_id
    try:
        anchored = _list_anchors(run)
        reread(lambda: outside.compare_with_anchors(ports, tenant_id, anchored))
        is_older = False
    except DataCorrupt as error:
        run.report(f"Truncated: {error}")
        is_older = True
    is_older = is_older or signers.find_unknown_tiles(ports, tenant_id) is not None
    if run.is_copy or is_older or not _has_entry_since(run):
        above = max((each.generation for each in _list_anchors(run)), default=0)
        if run.is_copy:
            head = log.head(ports, tenant_id)
            above = max(above, head.generation if head else 0) + _LOST
        begun = settle(lambda: signers.begin(ports, tenant_id, run.entry, lower_bound=above))
        if begun is not None:
            run.report(f"The transparency log begins a new generation: {begun}")
    settle(lambda: _clear_latest_statement(run))


def _list_anchors(run: RecoveryContext) -> set[PinnedCheckpoint]:
    listed = PinnedCheckpoint.list_in_states(run.added_members)
    return {*listed, *outside.all_anchors(run.ports, run.tenant_id, passes_over=True)}


def _clear_latest_statement(run: RecoveryContext) -> None:
    """Discard the last counter statement, which may be older or newer than the log."""
    if changes := daily_statements.forgotten(run.ports, run.tenant_id, run.entry):
        run.ports.store.write(*changes)


def _has_entry_since(run: RecoveryContext) -> bool:
    """Return whether the audit log has an entry since the newest SRL, or there is no SRL."""
    if run.issued_at is None:
        return True
    filters = EntryFilters(run.issued_at, max(run.issued_at, run.ports.now()))
    return any(
        next(run.ports.store.query(each, after=filters.lower_bound, limit=1), None)
        for _, partitions in audit_log.months(run.tenant_id, filters)
        for each in partitions
    )


def append_entries(run: RecoveryContext) -> None:
    """Append all audit entries to the transparency log, including entries of the backup."""
    try:
        span = sealing.extend(run.ports, run.tenant_id, overlap=sealing.SWEEP, seconds=math.inf)
    except DataCorrupt as error:
        # The tenant is recovered without them. The doctor reports the same problem.
        run.report(f"The transparency log lacks audit entries: {error}")
        return
    if added := span.size - span.first:
        entries = "audit entry" if added == 1 else "audit entries"
        run.report(f"Appended to the transparency log: {added} {entries}")
