"""Batches of revocations: revoke or unrevoke many warrants (REVOKE-20).

A write has at most 100 changes, so a call makes several writes. Each write has warrants of one
shard, which share one counter. It has a separate audit entry and stores a separate part of the
batch. Writes are independent: a conflict of one does not affect the others (docs/adr/19).
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from shared import logs
from shared.errors import ApprovalRequired, PreconditionFailed, RescindError, Unavailable
from shared.model import revocation_batches as model
from shared.model import revocations, times
from shared.model.audit.audit_log import AuditAction as Audited
from shared.model.callers import Caller, Scope
from shared.model.identifiers import BATCH, REVOCATION
from shared.model.items import Address, Value
from shared.model.revocation_batches import (
    BatchAction,
    BatchOutcome,
    BatchPart,
    BatchRequest,
    BatchResult,
    BatchResults,
)
from shared.model.revocations import Revocation
from shared.model.tenants import TenantSettings
from shared.model.warrants import WarrantState
from shared.operations.base import allowance, audit, operation, tenants
from shared.operations.base.operation import GroupRunner, group_by_key
from shared.operations.changes import revocation_changes as changes
from shared.operations.changes.revocation_changes import BatchSummary
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Change, Expect, Put

if TYPE_CHECKING:
    from shared.operations.identities.protected_acts import UnrevokeAdmission

_log = logging.getLogger(__name__)

_UNAVAILABLE: Final = logs.fields(metrics={"RequestsUnavailable": 1})

# In addition to the changes of its warrants, a write has the counter, the mark on the tenant, the
# audit entry and the part. The first write also has the summary. A revocation takes four changes.
# Unrevoking takes at most five.
_REVOKED_A_WRITE: Final = (MOST_CHANGES - 5) // 4
_RESTORED_A_WRITE: Final = (MOST_CHANGES - 5) // 5
# In addition, a limited write has the approval with its entry and the check of its approver, or the
# hourly count.
_LIMITED_A_WRITE: Final = (MOST_CHANGES - 8) // 5
# Records that are read together before the warrants are known.
_READ_TOGETHER: Final = 100


_NO_MORE: Final = (
    "The limit of the approval or the hourly limit is reached; request another approval."
)


@dataclass(frozen=True, slots=True)
class _BatchCall:
    """A call of `apply`, with the runner of its groups.

    `summary` is the audit entry for the whole call.
    """

    ports: Ports
    caller: Caller
    batch: BatchRequest
    batch_id: str
    settings: TenantSettings
    groups: GroupRunner
    summary: BatchSummary
    restoring: "UnrevokeAdmission | None"

    @property
    def tenant_id(self) -> str:
        return self.caller.tenant_id


@dataclass(frozen=True, slots=True)
class _UnrevokeTarget:
    """A revocation to delete, and the identifier by which the caller named it."""

    id: str
    revocation_id: str
    warrant_id: str


def _undoes_safety(*, batch: BatchRequest) -> bool:
    return batch.action is not BatchAction.REVOKE and not batch.dry_run


@operation.operation(Scope.ADMIN, Scope.REVOKER, fresh=_undoes_safety, rate_limited=True)
def apply(ports: Ports, caller: Caller, *, batch: BatchRequest) -> BatchResults:
    """Revoke or unrevoke the warrants of a batch; return a result for each.

    A repeated call with the same `batch.id` returns the results of the first call (REVOKE-22).
    Raises `InvalidRequest` if `batch.ends_at` is not in the future, and `Unavailable` if no change
    is known to be made.
    """
    changes.check_end(ports, batch.ends_at)
    return carry_out(ports, caller, batch)


def carry_out(
    ports: Ports, caller: Caller, batch: BatchRequest, subject: str | None = None
) -> BatchResults:
    """Return the results of `apply`.

    An approval is for the `subject`, or None for a plain batch.
    """
    batch_id = batch.id or ports.new_id(BATCH)
    settings = tenants.settings(ports, caller.tenant_id)
    groups = GroupRunner(ports, operation.PACING.clock() + operation.PACING.limit)
    summary = BatchSummary(_summary(ports, caller, batch, batch_id, settings))
    found = _out_of_reach(caller, batch)
    reached = replace(batch, ids=tuple(each for each in batch.ids if each not in found))
    unrevokes = batch.action is BatchAction.UNREVOKE and not batch.dry_run
    restoring = changes.restoring(ports, caller, subject) if unrevokes else None
    call = _BatchCall(ports, caller, reached, batch_id, settings, groups, summary, restoring)
    found |= _revoke_all(call) if batch.action is BatchAction.REVOKE else _unrevoke_batch(call)
    results = [found[each] for each in batch.ids]
    if not batch.dry_run:
        _count(call, results)
    _report(results)
    return BatchResults(call.batch_id, results)


def _out_of_reach(caller: Caller, batch: BatchRequest) -> dict[str, BatchResult]:
    """Return the results for warrants outside the role limits. Revocations are checked later."""
    if batch.by_revocation:
        return {}
    faults = ((each, allowance.fault_of_warrant(caller, each)) for each in batch.ids)
    return {each: _failure_result(each, fault) for each, fault in faults if fault}


def _summary(
    ports: Ports, caller: Caller, batch: BatchRequest, batch_id: str, settings: TenantSettings
) -> Put:
    """Return the write that stores the audit entry for the whole call (REVOKE-25)."""
    details: dict[str, Value] = {
        "batch_id": batch_id,
        "action": batch.action.value,
        "reason": batch.reason,
        "asked": len(batch.ids),
        **changes.end_details(batch.ends_at),
    }
    action = Audited.REVOCATION_BATCH
    return audit.entry(ports, caller, action, batch_id, settings=settings, **details)


def _count(call: _BatchCall, results: Sequence[BatchResult]) -> None:
    """Log the number of results with each outcome, for the metrics."""
    counts = Counter(each.outcome for each in results)
    changes.count_unrevoked(call.tenant_id, counts[BatchOutcome.UNREVOKED])
    for outcome, number in counts.items():
        by = {"Action": call.batch.action.value, "Outcome": outcome.value}
        figures = logs.fields(tenant_id=call.tenant_id, metrics={"BatchItems": number}, by=by)
        _log.info("batch", extra=figures)


def _report(results: Sequence[BatchResult]) -> None:
    """Log how many results are unavailable. Raises `Unavailable` if all are."""
    failed = [each.error for each in results if isinstance(each.error, Unavailable)]
    if len(failed) == len(results):
        raise failed[0]
    if failed:
        _log.error(
            "%d of %d changes of a batch failed because the service is unavailable",
            len(failed),
            len(results),
            exc_info=failed[0],
            extra=_UNAVAILABLE,
        )


def _revoke_all(call: _BatchCall) -> dict[str, BatchResult]:
    allowance.check_asks_nothing(call.caller)
    ids, shard = call.batch.ids, partial(revocations.shard_of, call.tenant_id)
    groups = group_by_key(ids, shard, most=_REVOKED_A_WRITE)
    return call.groups.run_first_then_rest(groups, partial(_revoke, call), _failure_result)


def _revoke(call: _BatchCall, warrant_ids: Sequence[str]) -> dict[str, BatchResult]:
    """Revoke warrants of one shard in one write. Raises `PreconditionFailed`, `Unavailable`."""
    standings = changes.standings(call.ports, call.tenant_id, warrant_ids)
    named = {name: each.revocation_id for name, each in standings.items() if each.revocation_id}
    # If a revocation was deleted between the two reads, the warrant is not revoked.
    records = changes.records(call.ports, call.tenant_id, named.values())
    known = {name: records[each][1] for name, each in named.items() if each in records}
    free = {name: each for name, each in standings.items() if name not in known}
    ends_at, now = call.batch.ends_at, call.ports.now()
    faults = {
        name: changes.fault_of_end(standing, ends_at) or changes.fault_of_cutoff(name, now)
        for name, standing in free.items()
    }
    new = [_record(call, name) for name, fault in faults.items() if fault is None]
    after = {
        name: standings[name].revoke_again(ends_at, record.compare_maker(call.caller))
        for name, record in known.items()
    }
    again = {name: each for name, each in after.items() if each is not standings[name]}
    later = {name for name in again if standings[name].is_extended_by(ends_at)}
    if new and not call.batch.dry_run:
        _write_revocations(call, standings, new)
    if again and not call.batch.dry_run:
        _write_again(call, known, standings, again)
    return {
        **{name: _existing_result(call, record) for name, record in known.items()},
        **{name: BatchResult(name, BatchOutcome.EXTENDED, known[name].id) for name in later},
        **{name: _failure_result(name, fault) for name, fault in faults.items() if fault},
        **{each.warrant_id: _created_result(call, each) for each in new},
    }


def _record(call: _BatchCall, warrant_id: str) -> Revocation:
    return Revocation(
        call.ports.new_id(REVOCATION),
        warrant_id,
        call.batch.reason,
        call.ports.now(),
        call.caller.identity,
        call.batch_id,
        call.caller.key_id,
        call.caller.name,
        call.caller.person_id,
    )


def _existing_result(call: _BatchCall, record: Revocation) -> BatchResult:
    """Return the result for a revoked warrant. A repeated call returns the first result."""
    is_ours = record.batch_id == call.batch_id
    outcome = BatchOutcome.REVOKED if is_ours else BatchOutcome.ALREADY_REVOKED
    return BatchResult(record.warrant_id, outcome, record.id)


def _created_result(call: _BatchCall, record: Revocation) -> BatchResult:
    stored = None if call.batch.dry_run else record.id
    return BatchResult(record.warrant_id, BatchOutcome.REVOKED, stored)


def _failure_result(name: str, error: RescindError) -> BatchResult:
    return BatchResult(name, BatchOutcome.FAILED, error=error)


def _write_revocations(
    call: _BatchCall, standings: Mapping[str, WarrantState], new: Sequence[Revocation]
) -> None:
    ends_at = call.batch.ends_at
    revoked = [
        changes.revoke_changes(call.tenant_id, standings[each.warrant_id], each, ends_at)
        for each in new
    ]
    details: dict[str, Value] = {"reason": call.batch.reason, **changes.end_details(ends_at)}
    named: list[Value] = [{"id": each.id, "warrant_id": each.warrant_id} for each in new]
    _write(call, Audited.REVOCATION_CREATE_BATCH, revoked, new, details | {"revocations": named})


def _write_again(
    call: _BatchCall,
    known: Mapping[str, Revocation],
    standings: Mapping[str, WarrantState],
    existing: Mapping[str, WarrantState],
) -> None:
    """Record other makers and later expiries.

    They are in no part, so the batch does not undo them.
    """
    now, made, named = call.ports.now(), list[Change](), list[Value]()
    for name, after in existing.items():
        standing = standings[name]
        made += changes.revoke_again(call.tenant_id, standing, after, name, now)
        details = changes.extension_details(standing, after)
        named.append({"id": known[name].id, "warrant_id": name, **details})
    entry = audit.entry(
        call.ports,
        call.caller,
        Audited.REVOCATION_EXTEND_BATCH,
        call.batch_id,
        settings=call.settings,
        reason=call.batch.reason,
        revocations=named,
        batch_id=call.batch_id,
        summary_id=call.summary.id,
    )
    some = next(iter(existing))
    call.summary.write_with(
        call.ports.store,
        *made,
        *changes.count_changes(call.tenant_id, some, len(existing), is_extension=True),
        entry,
    )


def _unrevoke_batch(call: _BatchCall) -> dict[str, BatchResult]:
    ids = call.batch.ids
    chunks = [ids[at : at + _READ_TOGETHER] for at in range(0, len(ids), _READ_TOGETHER)]
    found = call.groups.each(chunks, partial(_find, call), _failure_result)
    # Read last: a revocation that exists although this call deleted one is newer.
    before = _earlier_results(call) if call.batch.id else {}
    results = {each.id: each for each in found.values() if isinstance(each, BatchResult)} | before
    wanted = [
        each
        for each in found.values()
        if isinstance(each, _UnrevokeTarget) and each.id not in before
    ]
    restored = _unrevoke_all(call, wanted)
    results |= {each.id: each for each in restored.values()}
    gone = [each.id for each in results.values() if each.outcome is BatchOutcome.NOT_REVOKED]
    return results | call.groups.each(
        [gone] if gone else [], partial(_not_revoked_results, call), _failure_result
    )


def _unrevoke_all(
    call: _BatchCall, targets: Sequence[_UnrevokeTarget]
) -> dict[_UnrevokeTarget, BatchResult]:
    """Unrevoke the targets. Limited writes are sequential, because all change one item."""
    limited = call.restoring if call.restoring and call.restoring.is_limited else None
    groups = group_by_key(
        targets,
        lambda each: revocations.shard_of(call.tenant_id, each.warrant_id),
        most=_LIMITED_A_WRITE if limited else _RESTORED_A_WRITE,
    )
    attempt = partial(_restore, call)
    if limited is None:
        allowance.check_asks_nothing(call.caller)
        return call.groups.run_first_then_rest(groups, attempt, _failed_wanted)
    ids = [each.revocation_id for each in targets]
    records = [record for _, record in changes.records(call.ports, call.tenant_id, ids).values()]
    names = (each.warrant_id for each in records)
    standings = changes.standings(call.ports, call.tenant_id, names)
    found = [(each, standings[each.warrant_id]) for each in records]
    try:
        limited.check([each for each in found if not _fault_of_taking_back(call, *each)])
    except ApprovalRequired:
        _check_present(call, records)
        raise
    runs = (call.groups.each([group], attempt, _failed_wanted) for group in groups)
    return dict(chain.from_iterable(each.items() for each in runs))


def _failed_wanted(target: _UnrevokeTarget, error: RescindError) -> BatchResult:
    return _failure_result(target.id, error)


def _not_revoked_results(call: _BatchCall, ids: Sequence[str]) -> dict[str, BatchResult]:
    """Return the results for warrants that are not revoked.

    This call unrevoked them if the response to a write was lost, or if the call runs twice.
    """
    done = dict[str, BatchResult]()
    if not call.batch.dry_run:
        # The deletion of a revocation may be visible before the part of its write is.
        operation.wait_for_writes()
        done = _earlier_results(call)
    return {each: done.get(each) or BatchResult(each, BatchOutcome.NOT_REVOKED) for each in ids}


def _earlier_results(call: _BatchCall) -> dict[str, BatchResult]:
    """Return the results of this call so far, by the identifiers in the call."""
    after, before = model.around_parts_of(call.batch.call)
    partition = model.parts(call.tenant_id, call.batch_id)
    rows = call.ports.store.query(partition, after=after, before=before)
    pairs = chain.from_iterable(BatchPart.from_item(row.item).pairs for row in rows)
    taken = (
        _restored_result(call, warrant_id, revocation_id) for warrant_id, revocation_id in pairs
    )
    return {each.id: each for each in taken}


def _restored_result(call: _BatchCall, warrant_id: str, revocation_id: str) -> BatchResult:
    if call.batch.by_revocation:
        taken = BatchOutcome.UNREVOKED
        return BatchResult(revocation_id, taken, revocation_id, warrant_id=warrant_id)
    return BatchResult(warrant_id, BatchOutcome.UNREVOKED, revocation_id)


def _find(call: _BatchCall, ids: Sequence[str]) -> dict[str, _UnrevokeTarget | BatchResult]:
    """Find the revocation that each identifier names."""
    if call.batch.by_revocation:
        records = changes.records(call.ports, call.tenant_id, ids)
        found = {
            name: _UnrevokeTarget(name, name, each.warrant_id)
            for name, (_, each) in records.items()
        }
    else:
        standings = changes.standings(call.ports, call.tenant_id, ids)
        found = {
            name: _UnrevokeTarget(name, each.revocation_id, name)
            for name, each in standings.items()
            if each.revocation_id
        }
    return {each: found.get(each) or BatchResult(each, BatchOutcome.NOT_REVOKED) for each in ids}


def _restore(
    call: _BatchCall, targets: Sequence[_UnrevokeTarget]
) -> dict[_UnrevokeTarget, BatchResult]:
    """Unrevoke warrants of one shard in one write. Raises the same errors as `_revoke`."""
    records = changes.records(call.ports, call.tenant_id, (each.revocation_id for each in targets))
    known = [each for each in targets if each.revocation_id in records]
    standings = changes.standings(call.ports, call.tenant_id, (each.warrant_id for each in known))
    pairs = {each: (records[each.revocation_id][1], standings[each.warrant_id]) for each in known}
    faults = {
        each: fault for each, pair in pairs.items() if (fault := _fault_of_taking_back(call, *pair))
    }
    present = [each for each in known if each not in faults]
    found = [(*records[each.revocation_id], standings[each.warrant_id]) for each in present]
    # A write in flight may be only partly visible. Also, a warrant has only one revocation.
    lost = [at for at, record, standing in found if standing.revocation_id != record.id]
    if lost:
        raise PreconditionFailed(lost)
    if found and not call.batch.dry_run:
        number, fault = _write_admitted(call, found)
        faults |= dict.fromkeys(present[number:], fault)
        present = present[:number]
    gone = {each: BatchResult(each.id, BatchOutcome.NOT_REVOKED) for each in targets}
    refused = {each: _failure_result(each.id, fault) for each, fault in faults.items()}
    return (
        gone
        | refused
        | {each: _restored_result(call, each.warrant_id, each.revocation_id) for each in present}
    )


def _fault_of_taking_back(
    call: _BatchCall, record: Revocation, standing: WarrantState
) -> RescindError | None:
    return changes.fault_of_taking_back(call.caller, call.settings, record, standing)


def _write_admitted(
    call: _BatchCall, targets: Sequence[tuple[Address, Revocation, WarrantState]]
) -> tuple[int, RescindError]:
    """Unrevoke as many warrants as the call may; return their number and the others' error."""
    pairs = [(record, standing) for _, record, standing in targets]
    fault: RescindError = ApprovalRequired(_NO_MORE)
    try:
        number, taken = call.restoring.take(pairs) if call.restoring else (len(targets), [])
    except ApprovalRequired as error:
        number, taken, fault = 0, [], error
    if number < len(targets):
        _check_present(call, (record for record, _ in pairs))
    if number:
        _write_restorations(call, targets[:number], taken)
    return number, fault


def _check_present(call: _BatchCall, records: Iterable[Revocation]) -> None:
    """Raise `PreconditionFailed` if another call deleted some of these revocations since the read.

    That call may have used up the approval for them, or the hourly limit.
    """
    places = {revocations.record_address(call.tenant_id, each.id) for each in records}
    if gone := places - call.ports.store.get_many(places).keys():
        raise PreconditionFailed([*gone])


def _write_restorations(
    call: _BatchCall,
    targets: Sequence[tuple[Address, Revocation, WarrantState]],
    taken: Sequence[Change],
) -> None:
    now = call.ports.now()
    restored = [
        changes.unrevoke_changes(call.tenant_id, standing, record, at, now)
        for at, record, standing in targets
    ]
    reasons = list(dict.fromkeys(record.reason for _, record, _ in targets))
    named: list[Value] = [
        {
            "id": record.id,
            "warrant_id": record.warrant_id,
            "reason": reasons.index(record.reason),
            "created_at": times.format_utc(record.created_at),
            "created_by": record.created_by,
            **({"batch_id": record.batch_id} if record.batch_id else {}),
            **changes.end_details(standing.said_to_end_at),
        }
        for _, record, standing in targets
    ]
    details: dict[str, Value] = {
        "reasons": [*reasons],
        "revocations": named,
        "reason": call.batch.reason,
    }
    records = [record for _, record, _ in targets]
    _write(call, Audited.REVOCATION_DELETE_BATCH, [*restored, taken], records, details)


def _write(
    call: _BatchCall,
    action: Audited,
    writes: Iterable[Sequence[Change]],
    records: Sequence[Revocation],
    details: dict[str, Value],
) -> None:
    """Write the changes of some warrants, with the counter, the part and the audit entry."""
    details |= {"batch_id": call.batch_id, "summary_id": call.summary.id}
    entry = audit.entry(
        call.ports, call.caller, action, call.batch_id, settings=call.settings, **details
    )
    part = BatchPart(
        call.batch.action,
        tuple(each.warrant_id for each in records),
        tuple(each.id for each in records),
    )
    sk = model.part_sk(call.batch.call, entry.address.sk)
    address = model.parts(call.tenant_id, call.batch_id).address(sk)
    amount = len(records) if call.batch.action is BatchAction.REVOKE else -len(records)
    call.summary.write_with(
        call.ports.store,
        *chain.from_iterable(writes),
        *changes.count_changes(call.tenant_id, records[0].warrant_id, amount),
        Put(address, part.to_item(), Expect.ABSENT),
        entry,
    )
