"""Recovery of the sealed log: a new generation, if leaves were lost (LOG-10)."""

from shared.errors import Corrupt
from shared.model import audit_log
from shared.model.audit_log import Filters
from shared.operations.audit import generations, outside, statements
from shared.operations.operator.recovery.newest import Newest
from shared.operations.operator.recovery.run import Run
from shared.operations.rules.operation import reread, settle


def apply(run: Run, newest: Newest) -> None:
    """Begin the next generation if the audit table is older than the log or the newest list.

    Each list is stored with an audit entry, so a table without an entry since then was restored.
    """
    ports, tenant_id = run.ports, run.tenant_id
    cut = _problem(run, newest)
    if cut is not None:
        run.report(f"Cut: {cut}")
    is_older = cut is not None or generations.beyond(ports, tenant_id) is not None
    if is_older or not _has_entry_since(run, newest):
        above = max((each.log.generation for each in newest.states if each.log), default=0)
        begun = settle(lambda: generations.begin(ports, tenant_id, run.entry, above=above))
        if begun is not None:
            run.report(f"The sealed log begins anew: generation {begun}")
    settle(lambda: _forget_statement(run))


def _problem(run: Run, newest: Newest) -> Corrupt | None:
    try:
        reread(lambda: outside.compared(run.ports, run.tenant_id, newest.states))
    except Corrupt as error:
        return error
    return None


def _forget_statement(run: Run) -> None:
    """Have the counters of revocations stated anew: they may be of another time than the log."""
    if changes := statements.forgotten(run.ports, run.tenant_id, run.entry):
        run.ports.store.write(*changes)


def _has_entry_since(run: Run, newest: Newest) -> bool:
    """Return whether the audit log has an entry since the newest list, or there is no list."""
    if newest.issued_at is None:
        return True
    filters = Filters(newest.issued_at, max(newest.issued_at, run.ports.now()))
    return any(
        next(run.ports.store.query(each, after=filters.after, limit=1), None)
        for _, partitions in audit_log.months(run.tenant_id, filters)
        for each in partitions
    )
