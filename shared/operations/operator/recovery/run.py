"""A run of a recovery: the values that its steps share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from shared.capabilities import RecoveryContext
from shared.errors import DataCorrupt
from shared.model.audit import audit_log
from shared.model.audit.audit_log import AuditAction, EntryFilters
from shared.model.items import Value
from shared.operations.audit import log, outside, signers, statements
from shared.operations.base import audit
from shared.operations.base.operation import reread, settle
from shared.operations.operator.recovery.newest import NewestPublication
from shared.ports.store import Put

# Log generations that may have begun without the knowledge of a copy of the store.
_LOST: Final = 8


@dataclass(frozen=True, slots=True)
class RecoveryRun(RecoveryContext):
    """The recovery of a tenant. `version` is the version of its newest SRL."""

    version: int

    @property
    def reason(self) -> str:
        """The reason of a revocation if the original reason is lost."""
        return f"restored from SRL version {self.version}"

    def settle(self, step: Callable[[], str | None]) -> None:
        """Run a step, and report the line that it returns. Raises `Unavailable`."""
        if line := settle(step):
            self.report(line)

    def entry(self, action: AuditAction, resource_id: str, **details: Value) -> Put:
        """Return the write that stores the audit entry of a step."""
        return audit.entry(
            self.ports,
            self.operator,
            action,
            resource_id,
            settings=self.settings,
            restored_from=self.version,
            **details,
        )


def apply(run: RecoveryRun, newest: NewestPublication, *, compare_all: bool = False) -> None:
    """Begin the next log generation if the audit table is older than the log or the newest SRL.

    Each SRL is stored with an audit entry, so a table without an entry since then was restored.
    With `compare_all`, a generation always begins, because this store may lack some appended
    leaves.
    """
    ports, tenant_id = run.ports, run.tenant_id
    try:
        anchored = {*newest.logs, *outside.all_anchors(ports, tenant_id, passes_over=True)}
        reread(lambda: outside.compare_with_anchors(ports, tenant_id, anchored))
        is_older = False
    except DataCorrupt as error:
        run.report(f"Truncated: {error}")
        is_older = True
    is_older = is_older or signers.find_unknown_tiles(ports, tenant_id) is not None
    if compare_all or is_older or not _has_entry_since(run, newest):
        anchored = {*newest.logs, *outside.all_anchors(ports, tenant_id, passes_over=True)}
        above = max((each.generation for each in anchored), default=0)
        if compare_all:
            head = log.head(ports, tenant_id)
            above = max(above, head.generation if head else 0) + _LOST
        begun = settle(lambda: signers.begin(ports, tenant_id, run.entry, lower_bound=above))
        if begun is not None:
            run.report(f"The transparency log begins a new generation: {begun}")
    settle(lambda: _clear_latest_statement(run))


def _clear_latest_statement(run: RecoveryRun) -> None:
    """Discard the last counter statement, which may be older or newer than the log."""
    if changes := statements.forgotten(run.ports, run.tenant_id, run.entry):
        run.ports.store.write(*changes)


def _has_entry_since(run: RecoveryRun, newest: NewestPublication) -> bool:
    """Return whether the audit log has an entry since the newest SRL, or there is no SRL."""
    if newest.issued_at is None:
        return True
    filters = EntryFilters(newest.issued_at, max(newest.issued_at, run.ports.now()))
    return any(
        next(run.ports.store.query(each, after=filters.lower_bound, limit=1), None)
        for _, partitions in audit_log.months(run.tenant_id, filters)
        for each in partitions
    )
