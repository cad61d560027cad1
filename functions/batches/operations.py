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
from typing import TYPE_CHECKING, Final, NamedTuple

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


@dataclass(slots=True)
class _BatchCall:
    """A call of `apply`, with the runner of its groups.

    `summary` is the audit entry for the whole call. The first write stores it, so other entries can
    always refer to it.
    """

    ports: Ports
    caller: Caller
    batch: BatchRequest
    batch_id: str
    settings: TenantSettings
    groups: GroupRunner[str, BatchResult]
    summary: Put
    restoring: "UnrevokeAdmission | None"
    is_summary_stored: bool = False

    @property
    def tenant_id(self) -> str:
        return self.caller.tenant_id

    def create_entry(self, action: Audited, details: dict[str, Value]) -> Put:
        """Return the write of the audit entry for one write of the call."""
        details |= {"batch_id": self.batch_id, "summary_id": self.summary.address.sk}
        return audit.entry(
            self.ports, self.caller, action, self.batch_id, settings=self.settings, **details
        )

    def write(self, *changes: Change) -> None:
        """Apply the changes, and store the summary in the same write unless it is stored.

        Raises `PreconditionFailed` also if the summary was stored since: by a concurrent write of
        the call, or by a write with a lost response. Raises `Unavailable`.
        """
        summary = () if self.is_summary_stored else (self.summary,)
        try:
            self.ports.store.write(*changes, *summary)
        except PreconditionFailed as error:
            self.is_summary_stored = self.is_summary_stored or self.summary.address in error.lost
            raise
        self.is_summary_stored = True


class _UnrevokeTarget(NamedTuple):
    """A warrant to unrevoke, and its revocation to delete."""

    warrant_id: str
    revocation_id: str


def _unrevokes(*, batch: BatchRequest) -> bool:
    return batch.action is not BatchAction.REVOKE and not batch.dry_run


@operation.operation(Scope.ADMIN, Scope.REVOKER, fresh=_unrevokes, rate_limited=True)
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
    deadline = operation.PACING.clock() + operation.PACING.limit
    runner = GroupRunner(ports, deadline, _failure_result)
    # The entry for the whole call (REVOKE-25).
    summary = audit.entry(
        ports,
        caller,
        Audited.REVOCATION_BATCH,
        batch_id,
        settings=settings,
        batch_id=batch_id,
        action=batch.action.value,
        reason=batch.reason,
        asked=len(batch.ids),
        **changes.end_details(batch.ends_at),
    )
    # The warrants of revocations are compared with the role limits after they are read.
    results = {
        each: _failure_result(each, fault)
        for each in (() if batch.by_revocation else batch.ids)
        if (fault := allowance.fault_of_warrant(caller, each))
    }
    reached = replace(batch, ids=tuple(each for each in batch.ids if each not in results))
    restoring = changes.restoring(ports, caller, subject) if _unrevokes(batch=batch) else None
    call = _BatchCall(ports, caller, reached, batch_id, settings, runner, summary, restoring)
    if batch.action is BatchAction.REVOKE:
        allowance.check_asks_nothing(caller)
        shard = partial(revocations.shard_of, caller.tenant_id)
        groups = group_by_key(reached.ids, shard, most=_REVOKED_A_WRITE)
        results |= runner.run_first_then_rest(groups, partial(_revoke, call))
    else:
        results |= _unrevoke_batch(call)
    ordered = [results[each] for each in batch.ids]
    if not batch.dry_run:
        counts = Counter(each.outcome for each in ordered)
        changes.count_unrevoked(caller.tenant_id, counts[BatchOutcome.UNREVOKED])
        for outcome, number in counts.items():
            by = {"Action": batch.action.value, "Outcome": outcome.value}
            figures = logs.fields(tenant_id=caller.tenant_id, metrics={"BatchItems": number}, by=by)
            _log.info("batch", extra=figures)
    failed = [each.error for each in ordered if isinstance(each.error, Unavailable)]
    if len(failed) == len(ordered):
        raise failed[0]
    if failed:
        _log.error(
            "%d of %d changes of a batch failed because the service is unavailable",
            len(failed),
            len(ordered),
            exc_info=failed[0],
            extra=_UNAVAILABLE,
        )
    return BatchResults(batch_id, ordered)


def _failure_result(name: str, error: RescindError) -> BatchResult:
    return BatchResult(name, BatchOutcome.FAILED, error=error)


def _revoke(call: _BatchCall, warrant_ids: Sequence[str]) -> dict[str, BatchResult]:
    """Revoke warrants of one shard in one write. Raises `PreconditionFailed`, `Unavailable`."""
    standings = changes.standings(call.ports, call.tenant_id, warrant_ids)
    ids = filter(None, (each.revocation_id for each in standings.values()))
    records = changes.records(call.ports, call.tenant_id, ids)
    ends_at, now = call.batch.ends_at, call.ports.now()
    new, again = list[Revocation](), dict[str, WarrantState]()
    results = dict[str, BatchResult]()
    for name, standing in standings.items():
        # If a revocation was deleted between the two reads, the warrant is not revoked.
        if standing.revocation_id in records:
            _, known = records[standing.revocation_id]
            # A repeated call returns the first result.
            is_ours = known.batch_id == call.batch_id
            outcome = BatchOutcome.REVOKED if is_ours else BatchOutcome.ALREADY_REVOKED
            after = standing.revoke_again(ends_at, known.compare_maker(call.caller))
            if after is not standing:
                again[name] = after
                outcome = BatchOutcome.EXTENDED if standing.is_extended_by(ends_at) else outcome
            results[name] = BatchResult(name, outcome, known.id)
            continue
        fault = changes.fault_of_end(standing, ends_at) or changes.fault_of_cutoff(name, now)
        if fault:
            results[name] = _failure_result(name, fault)
            continue
        record = Revocation(
            call.ports.new_id(REVOCATION),
            name,
            call.batch.reason,
            call.ports.now(),
            call.caller.identity,
            call.batch_id,
            call.caller.key_id,
            call.caller.name,
            call.caller.person_id,
        )
        new.append(record)
        stored_id = None if call.batch.dry_run else record.id
        results[name] = BatchResult(name, BatchOutcome.REVOKED, stored_id)
    if new and not call.batch.dry_run:
        _write_revocations(call, standings, new)
    if again and not call.batch.dry_run:
        _write_again(call, standings, again)
    return results


def _write_revocations(
    call: _BatchCall, standings: Mapping[str, WarrantState], new: Sequence[Revocation]
) -> None:
    ends_at = call.batch.ends_at
    revoked = [
        changes.revoke_changes(call.tenant_id, standings[each.warrant_id], each, ends_at)
        for each in new
    ]
    details: dict[str, Value] = {
        "reason": call.batch.reason,
        **changes.end_details(ends_at),
        "revocations": [{"id": each.id, "warrant_id": each.warrant_id} for each in new],
    }
    _write(call, Audited.REVOCATION_CREATE_BATCH, revoked, new, details)


def _write_again(
    call: _BatchCall, standings: Mapping[str, WarrantState], again: Mapping[str, WarrantState]
) -> None:
    """Record other makers and later expiries.

    They are in no part, so the batch does not undo them.
    """
    now, writes, entries = call.ports.now(), list[Change](), list[Value]()
    for name, after in again.items():
        standing = standings[name]
        writes += changes.revoke_again(call.tenant_id, standing, after, name, now)
        expiries = changes.extension_details(standing, after)
        entries.append({"id": standing.revocation_id, "warrant_id": name, **expiries})
    details: dict[str, Value] = {"reason": call.batch.reason, "revocations": entries}
    entry = call.create_entry(Audited.REVOCATION_EXTEND_BATCH, details)
    some = next(iter(again))
    counts = changes.count_changes(call.tenant_id, some, len(again), is_extension=True)
    call.write(*writes, *counts, entry)


def _unrevoke_batch(call: _BatchCall) -> dict[str, BatchResult]:
    """Find the revocations of a batch, delete them, and check what is not revoked."""
    ids = call.batch.ids
    chunks = [ids[at : at + _READ_TOGETHER] for at in range(0, len(ids), _READ_TOGETHER)]
    lookups = call.groups.each(chunks, partial(_find_targets, call))
    results = {name: each for name, each in lookups.items() if isinstance(each, BatchResult)}
    # Read last: a revocation that exists although this call deleted one is newer.
    results |= _earlier_results(call) if call.batch.id else {}
    targets = {
        name: each
        for name, each in lookups.items()
        if isinstance(each, _UnrevokeTarget) and name not in results
    }
    limited = call.restoring if call.restoring and call.restoring.is_limited else None
    groups = group_by_key(
        targets,
        lambda name: revocations.shard_of(call.tenant_id, targets[name].warrant_id),
        most=_LIMITED_A_WRITE if limited else _RESTORED_A_WRITE,
    )
    attempt = partial(_unrevoke, call, targets)
    if limited is None:
        allowance.check_asks_nothing(call.caller)
        results |= call.groups.run_first_then_rest(groups, attempt)
    else:
        revocation_ids = (each.revocation_id for each in targets.values())
        known = changes.records(call.ports, call.tenant_id, revocation_ids).values()
        names = (record.warrant_id for _, record in known)
        standings = changes.standings(call.ports, call.tenant_id, names)
        pairs = [(record, standings[record.warrant_id]) for _, record in known]
        try:
            limited.check([each for each in pairs if not _fault_of_target(call, *each)])
        except ApprovalRequired:
            _check_present(call, (record for record, _ in pairs))
            raise
        # Sequential, because all limited writes change one item.
        for group in groups:
            results |= call.groups.each([group], attempt)
    missing = [each.id for each in results.values() if each.outcome is BatchOutcome.NOT_REVOKED]
    groups = [missing] if missing else []
    return results | call.groups.each(groups, partial(_not_revoked_results, call))


def _find_targets(call: _BatchCall, ids: Sequence[str]) -> dict[str, _UnrevokeTarget | BatchResult]:
    """Find the revocation that each identifier names."""
    targets: dict[str, _UnrevokeTarget | BatchResult]
    targets = {each: BatchResult(each, BatchOutcome.NOT_REVOKED) for each in ids}
    if call.batch.by_revocation:
        for name, (_, record) in changes.records(call.ports, call.tenant_id, ids).items():
            targets[name] = _UnrevokeTarget(record.warrant_id, name)
    else:
        for name, standing in changes.standings(call.ports, call.tenant_id, ids).items():
            if standing.revocation_id:
                targets[name] = _UnrevokeTarget(name, standing.revocation_id)
    return targets


def _not_revoked_results(call: _BatchCall, ids: Sequence[str]) -> dict[str, BatchResult]:
    """Return the results for warrants that are not revoked.

    This call unrevoked them if the response to a write was lost, or if the call runs twice.
    """
    results = {each: BatchResult(each, BatchOutcome.NOT_REVOKED) for each in ids}
    if not call.batch.dry_run:
        # The deletion of a revocation may be visible before the part of its write is.
        operation.wait_for_writes()
        earlier = _earlier_results(call)
        results |= {each: earlier[each] for each in ids if each in earlier}
    return results


def _earlier_results(call: _BatchCall) -> dict[str, BatchResult]:
    """Return the results of this call so far, by the identifiers in the call."""
    after, before = model.around_parts_of(call.batch.call)
    partition = model.parts(call.tenant_id, call.batch_id)
    rows = call.ports.store.query(partition, after=after, before=before)
    pairs = chain.from_iterable(BatchPart.from_item(row.item).pairs for row in rows)
    results = (_unrevoked_result(call, *each) for each in pairs)
    return {each.id: each for each in results}


def _unrevoked_result(call: _BatchCall, warrant_id: str, revocation_id: str) -> BatchResult:
    outcome = BatchOutcome.UNREVOKED
    if call.batch.by_revocation:
        return BatchResult(revocation_id, outcome, revocation_id, warrant_id=warrant_id)
    return BatchResult(warrant_id, outcome, revocation_id)


def _fault_of_target(
    call: _BatchCall, record: Revocation, standing: WarrantState
) -> RescindError | None:
    return changes.fault_of_taking_back(call.caller, call.settings, record, standing)


def _unrevoke(
    call: _BatchCall, targets: Mapping[str, _UnrevokeTarget], names: Sequence[str]
) -> dict[str, BatchResult]:
    """Unrevoke warrants of one shard in one write. Raises the same errors as `_revoke`."""
    revocation_ids = (targets[each].revocation_id for each in names)
    records = changes.records(call.ports, call.tenant_id, revocation_ids)
    known = [each for each in names if targets[each].revocation_id in records]
    warrant_ids = (targets[each].warrant_id for each in known)
    standings = changes.standings(call.ports, call.tenant_id, warrant_ids)
    results = {each: BatchResult(each, BatchOutcome.NOT_REVOKED) for each in names}
    present = dict[str, tuple[Address, Revocation, WarrantState]]()
    for name in known:
        address, record = records[targets[name].revocation_id]
        standing = standings[targets[name].warrant_id]
        if fault := _fault_of_target(call, record, standing):
            results[name] = _failure_result(name, fault)
        else:
            present[name] = address, record, standing
    # A write in flight may be only partly visible. Also, a warrant has only one revocation.
    lost = [at for at, each, standing in present.values() if standing.revocation_id != each.id]
    if lost:
        raise PreconditionFailed(lost)
    admitted = list(present)
    if present and not call.batch.dry_run:
        pairs = [(record, standing) for _, record, standing in present.values()]
        refusal: RescindError = ApprovalRequired(_NO_MORE)
        try:
            number, approval = call.restoring.take(pairs) if call.restoring else (len(pairs), [])
        except ApprovalRequired as error:
            number, approval, refusal = 0, [], error
        if number < len(pairs):
            _check_present(call, (record for record, _ in pairs))
        results |= {each: _failure_result(each, refusal) for each in admitted[number:]}
        admitted = admitted[:number]
        if admitted:
            _write_unrevocations(call, [present[each] for each in admitted], approval)
    return results | {each: _unrevoked_result(call, *targets[each]) for each in admitted}


def _check_present(call: _BatchCall, records: Iterable[Revocation]) -> None:
    """Raise `PreconditionFailed` if another call deleted some of these revocations since the read.

    That call may have used up the approval for them, or the hourly limit.
    """
    places = {revocations.record_address(call.tenant_id, each.id) for each in records}
    if gone := places - call.ports.store.get_many(places).keys():
        raise PreconditionFailed([*gone])


def _write_unrevocations(
    call: _BatchCall,
    targets: Sequence[tuple[Address, Revocation, WarrantState]],
    approval: Sequence[Change],
) -> None:
    now = call.ports.now()
    unrevoked = [
        changes.unrevoke_changes(call.tenant_id, standing, record, address, now)
        for address, record, standing in targets
    ]
    records = [record for _, record, _ in targets]
    reasons = list(dict.fromkeys(record.reason for record in records))
    entries: list[Value] = [
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
        "revocations": entries,
        "reason": call.batch.reason,
    }
    _write(call, Audited.REVOCATION_DELETE_BATCH, [*unrevoked, approval], records, details)


def _write(
    call: _BatchCall,
    action: Audited,
    writes: Iterable[Sequence[Change]],
    records: Sequence[Revocation],
    details: dict[str, Value],
) -> None:
    """Write the changes of some warrants, with the counter, the part and the audit entry."""
    entry = call.create_entry(action, details)
    part = BatchPart(
        call.batch.action,
        tuple(each.warrant_id for each in records),
        tuple(each.id for each in records),
    )
    sk = model.part_sk(call.batch.call, entry.address.sk)
    address = model.parts(call.tenant_id, call.batch_id).address(sk)
    amount = len(records) if call.batch.action is BatchAction.REVOKE else -len(records)
    call.write(
        *chain.from_iterable(writes),
        *changes.count_changes(call.tenant_id, records[0].warrant_id, amount),
        Put(address, part.to_item(), Expect.ABSENT),
        entry,
    )
