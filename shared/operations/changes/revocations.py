"""Revocations: create, list, get, delete. Check warrants by live records (CHECK-1)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Final

from shared.errors import NotFound, Unavailable
from shared.model import revocations as model
from shared.model import times, warrants
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identifiers import REVOCATION, is_identifier
from shared.model.items import Address, Partition, Value
from shared.model.revocations import Revocation, RevocationFilters, WarrantStatus
from shared.model.tenants import TenantSettings
from shared.model.warrants import WarrantState
from shared.operations.base import allowance, audit, counters, tenants
from shared.operations.base.idempotency import Keep, OutcomeCodec, idempotent
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page, merge_partitions
from shared.operations.changes import revocation_changes as changes
from shared.operations.changes import revocation_search
from shared.operations.lists import in_force, reach
from shared.operations.lists.reach import PublicationStatus
from shared.operations.lists.verdicts import token_verdicts
from shared.ports import Ports
from shared.ports.store import Put

_EVERYTHING: Final = RevocationFilters()
_CREATED: Final = OutcomeCodec[tuple[Revocation, bool]](
    lambda created: created[0].to_item() | {"is_new": created[1]},
    lambda _ports, _caller, item, **_: (Revocation.from_item(item), bool(item["is_new"])),
)


@idempotent(Scope.ADMIN, Scope.REVOKER, keeps=_CREATED, rate_limited=True)
def create(  # noqa: PLR0913
    ports: Ports,
    caller: Caller,
    keep: Keep[tuple[Revocation, bool]],
    *,
    warrant_id: str,
    reason: str,
    warrant_expires_at: datetime | None = None,
    issuer: str | None = None,
    token_value: str | None = None,
) -> tuple[Revocation, bool]:
    """Revoke a warrant; return the revocation, and whether it is new.

    `warrant_expires_at` is the expiry of the warrant. The warrant leaves the SRL one SRL lifetime
    later (REVOKE-3). `issuer` and `token_value` name a token. A subject cutoff of a bound `issuer`
    has an expiry by default (TOKEN-11).

    If the warrant is revoked already, its first revocation is returned (REVOKE-2). It changes only
    in two cases: a given expiry is extended by a later or absent `warrant_expires_at`, or the
    caller is the first other maker.

    Raises `InvalidRequest` if `warrant_expires_at` differs from a signed expiry or is not in the
    future. Also raises it if a subject cutoff is more than a day in the future.
    """
    allowance.check_warrants(caller, [warrant_id])
    changes.check_end(ports, warrant_expires_at)
    if fault := changes.fault_of_cutoff(warrant_id, ports.now()):
        raise fault
    if warrant_expires_at is None and issuer is not None:
        warrant_expires_at = changes.end_of_cutoff(ports, caller.tenant_id, warrant_id, issuer)
    standing, settings = ports.gather(
        lambda: _standing(ports, caller, warrant_id),
        lambda: tenants.settings(ports, caller.tenant_id),
    )
    # If the revocation was deleted between the two reads, the warrant is not revoked.
    stored = _at(ports, caller, standing.revocation_id) if standing.revocation_id else None
    if stored is not None:
        _, existing = stored
        after = standing.revoke_again(warrant_expires_at, existing.compare_maker(caller))
        if after is not standing:
            again, action = replace(existing, reason=reason), AuditAction.REVOCATION_EXTEND
            details = changes.extension_details(standing, after)
            entry = _entry(ports, caller, action, again, settings, **details)
            ports.store.write(
                *changes.revoke_again(caller.tenant_id, standing, after, warrant_id, ports.now()),
                *changes.count_changes(caller.tenant_id, warrant_id, 1, is_extension=True),
                entry,
                *keep((existing, False)),
            )
        return existing, False
    if fault := changes.fault_of_end(standing, warrant_expires_at):
        raise fault
    record = Revocation(
        ports.new_id(REVOCATION),
        warrant_id,
        reason,
        ports.now(),
        caller.identity,
        actor_key_id=caller.key_id,
        created_by_name=caller.name,
        created_by_id=caller.person_id,
        token_issuer=issuer,
        token_value=token_value,
    )
    action, details = AuditAction.REVOCATION_CREATE, changes.end_details(warrant_expires_at)
    ports.store.write(
        *changes.revoke_changes(caller.tenant_id, standing, record, warrant_expires_at),
        *changes.count_changes(caller.tenant_id, warrant_id, 1),
        _entry(ports, caller, action, record, settings, **details),
        *keep((record, True)),
    )
    return record, True


@operation(Scope.ADMIN, Scope.REVOKER, rate_limited=True)
def delete(ports: Ports, caller: Caller, *, revocation_id: str, reason: str | None = None) -> None:
    """Delete a revocation, so its warrant is valid again (REVOKE-4).

    Raises `NotFound`; `InsufficientScope` if the caller may only delete its own revocations
    (REVOKE-9); `ApprovalRequired` (APPROVAL-1).
    """
    (address, record), settings, restoring = ports.gather(
        lambda: _find(ports, caller, revocation_id),
        lambda: tenants.settings(ports, caller.tenant_id),
        lambda: changes.restoring(ports, caller, revocation_id),
    )
    # Read first: the write then fails if another maker revokes the warrant in between.
    standing = _standing(ports, caller, record.warrant_id)
    if fault := changes.fault_of_taking_back(caller, settings, record, standing):
        raise fault
    restoring.check([(record, standing)])
    _, approval = restoring.take([(record, standing)])
    unrevoke_details: dict[str, Value] = {} if reason is None else {"unrevoke_reason": reason}
    ports.store.write(
        *changes.unrevoke_changes(caller.tenant_id, standing, record, address, ports.now()),
        *changes.count_changes(caller.tenant_id, record.warrant_id, -1),
        _entry(
            ports,
            caller,
            AuditAction.REVOCATION_DELETE,
            record,
            settings,
            created_at=times.format_utc(record.created_at),
            created_by=record.created_by,
            **changes.end_details(standing.said_to_end_at),
            **unrevoke_details,
        ),
        *approval,
    )
    changes.count_unrevoked(caller.tenant_id, 1)


@operation(Scope.ADMIN, Scope.REVOKER, Scope.AUDITOR)
def page(
    ports: Ports,
    caller: Caller,
    *,
    before: str | None,
    limit: int,
    filters: RevocationFilters = _EVERYTHING,
) -> Page[Revocation]:
    """Return a page of the tenant's revocations, newest first (REVOKE-6, REVOKE-30)."""
    if filters != _EVERYTHING:
        return revocation_search.page(ports, caller, filters=filters, before=before, limit=limit)
    shards = model.shards(caller.tenant_id)
    rows, total = merge_partitions(
        ports,
        model.records(caller.tenant_id),
        before=before,
        limit=limit + 1,
        counters=[partial(_count, ports, shard) for shard in shards],
    )
    entries = [Revocation.from_item(entry.item) for entry in rows[:limit]]
    return Page(entries, total, entries[-1].id if len(rows) > limit else None)


@operation(Scope.ADMIN, Scope.REVOKER, Scope.AUDITOR)
def get(
    ports: Ports, caller: Caller, *, revocation_id: str
) -> tuple[Revocation, PublicationStatus]:
    """Return a revocation and its publication status (REVOKE-8). Raises `NotFound`."""
    found = record(ports, caller, revocation_id=revocation_id)
    return found, reach.publication_status(ports, caller.tenant_id, found)


def record(ports: Ports, caller: Caller, *, revocation_id: str) -> Revocation:
    """Read a revocation of the caller's tenant. Raises `NotFound`."""
    return _find(ports, caller, revocation_id)[1]


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.REVOKER, Scope.AUDITOR, rate_limited=True)
def check(ports: Ports, caller: Caller, *, warrant_id: str) -> WarrantStatus:
    """Return the revocation status of a warrant from live records (CHECK-1).

    An unknown warrant is not revoked. Raises `DataCorrupt`, `Unavailable`: a fault is never
    reported as "not revoked".
    """
    return _read_statuses(ports, caller, [warrant_id])[warrant_id]


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.REVOKER, Scope.AUDITOR, rate_limited=True)
def check_batch(
    ports: Ports, caller: Caller, *, warrant_ids: Iterable[str]
) -> dict[str, WarrantStatus]:
    """Return the revocation status of each warrant, as `check` does."""
    return _read_statuses(ports, caller, list(warrant_ids))


def _read_statuses(
    ports: Ports, caller: Caller, warrant_ids: Sequence[str]
) -> dict[str, WarrantStatus]:
    allowance.check_warrants(caller, warrant_ids)
    # The SRL of a standby expires if replication has stopped (OPS-25).
    if (
        not ports.is_in_charge()
        and in_force.read_srl_head(ports, caller.tenant_id).expires_at <= ports.now()
    ):
        raise Unavailable("no data has arrived from the active region for too long")
    return token_verdicts(ports, caller.tenant_id, warrant_ids)


def _standing(ports: Ports, caller: Caller, warrant_id: str) -> WarrantState:
    return WarrantState.of(ports.store.get(warrants.warrant_address(caller.tenant_id, warrant_id)))


def _count(ports: Ports, shard: Partition) -> int:
    return counters.of_shard(ports, shard)["count"]


def _find(ports: Ports, caller: Caller, revocation_id: str) -> tuple[Address, Revocation]:
    """Read a revocation of the caller's tenant and its address. Raises `NotFound`."""
    stored = None
    # No record has a malformed identifier, and some are not valid as store keys.
    if is_identifier(revocation_id, kind=REVOCATION):
        stored = _at(ports, caller, revocation_id)
    if stored is None:
        raise NotFound
    return stored


def _at(ports: Ports, caller: Caller, revocation_id: str) -> tuple[Address, Revocation] | None:
    return changes.records(ports, caller.tenant_id, [revocation_id]).get(revocation_id)


def _entry(
    ports: Ports,
    caller: Caller,
    action: AuditAction,
    record: Revocation,
    settings: TenantSettings,
    **more: Value,
) -> Put:
    details: dict[str, Value] = {"warrant_id": record.warrant_id, "reason": record.reason}
    return audit.entry(ports, caller, action, record.id, settings=settings, **details, **more)
