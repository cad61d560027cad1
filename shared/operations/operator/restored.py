"""Marks on tenants that were restored to an earlier time, until their recovery is reviewed."""

from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from shared.capabilities import INSTALLED, RecoveryContext
from shared.errors import DataCorrupt, InvalidSettings, PreconditionFailed
from shared.model import deployment as model
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.deployment import UnreviewedRestore
from shared.operations.base import tenants
from shared.operations.base.operation import settle
from shared.operations.lists import journal
from shared.operations.operator import deployment
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put, VersionIs


def read_review(ports: Ports, tenant_id: str) -> UnreviewedRestore | None:
    """Return the mark on a tenant, or None. Raises `DataCorrupt`, `Unavailable`."""
    return UnreviewedRestore.from_optional(ports.store.get(model.address(tenant_id)))


def mark(ports: Ports, *, copied_at: datetime | None) -> None:
    """Mark all tenants as restored to `copied_at`, if it is known. Raises `Unavailable`."""
    for tenant in tenants.directory(ports):
        restored_at = times.truncate_to_second(ports.now())
        review = UnreviewedRestore(tenant.tenant_id, restored_at, copied_at)
        ports.store.write(Put(review.address, review.to_item(), Expect.ANYTHING))


def are_other_tables(ports: Ports) -> bool:
    """Return whether these tables differ from those the operator saw, as after a restore.

    Tables that no operator has seen are recorded as known. Raises `DataCorrupt`, `Unavailable`.
    """
    made_at = ports.store.made_at()
    current = deployment.read_deployment(ports)
    if made_at in ("", current.tables_made_at) or not current.version:
        return False
    if current.tables_made_at is None:
        with suppress(PreconditionFailed):  # then another command records it
            deployment.write(ports, current, current.next(tables_made_at=made_at))
        return False
    return True


def mark_restored_tables(ports: Ports) -> None:
    """Mark all tenants if these are not the tables that an operator saw.

    Raises `DataCorrupt`, `Unavailable`.
    """
    if are_other_tables(ports):
        # In this order: if it is interrupted, it is repeated.
        mark(ports, copied_at=None)
        deployment.note_tables(ports)


def record_recovery(run: RecoveryContext) -> None:
    """Record that the recovery of a marked tenant has ended. Raises `Unavailable`."""

    def update() -> None:
        review = read_review(run.ports, run.tenant_id)
        if review is None or review.recovered_at is not None:
            return
        now = times.truncate_to_second(run.ports.now())
        after = replace(review, recovered_at=now, version=review.version + 1)
        run.ports.store.write(Put(review.address, after.to_item(), VersionIs(review.version)))

    settle(update)


def complete_review(run: RecoveryContext, restore: UnreviewedRestore) -> None:
    """Remove the mark, because the operator has reviewed possible losses.

    Raises `PreconditionFailed`, `Unavailable`.
    """
    run.ports.store.write(
        Delete(restore.address, VersionIs(restore.version)),
        run.entry(
            AuditAction.RECOVERY_COMPLETE_REVIEW,
            run.tenant_id,
            restored_at=times.format_utc(restore.restored_at),
        ),
    )


def check_recovered(ports: Ports) -> None:
    """Raise `InvalidSettings` if a tenant needs a recovery first (OPS-22).

    It was restored and not recovered, or an older copy replaced the store. In the second case its
    records are older than its journal or a trust document.
    """
    waiting: list[str] = []
    for tenant in tenants.directory(ports):
        review = read_review(ports, tenant.tenant_id)
        if review is not None and review.recovered_at is None:
            waiting.append(f"Run: recover {tenant.handle}")
            continue
        try:
            journal.check_not_ahead(ports, tenant.tenant_id)
            for check in (check for each in INSTALLED for check in each.restore_checks()):
                check(ports, tenant.tenant_id)
        except DataCorrupt as error:
            waiting.append(f"{tenant.handle}: {error}. Run: recover {tenant.handle}")
    if waiting:
        raise InvalidSettings(
            "RESCIND_STORE: the records were restored from a backup. Later revocations are "
            "missing.",
            *waiting,
        )
