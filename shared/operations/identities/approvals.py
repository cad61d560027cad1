"""Approvals: ask for one, decide on it, use it (APPROVAL-2 to APPROVAL-4).

The service never does what was asked for: the requester repeats the request, with the approval.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from shared.errors import (
    ApprovalRequired,
    InsufficientScope,
    InvalidState,
    NotFound,
)
from shared.model import times
from shared.model.audit.audit_log import Action
from shared.model.callers import Caller, Scope
from shared.model.identifiers import APPROVAL, is_identifier
from shared.model.identities import approvals as model
from shared.model.identities import sessions
from shared.model.identities.approvals import Act, Approval, ApprovalStatus
from shared.model.identities.sessions import AccessRecord
from shared.model.items import Item, Value
from shared.operations.base import audit
from shared.operations.base.idempotency import Keep, of_record, once
from shared.operations.base.operation import operation, settle
from shared.operations.base.paging import Walk
from shared.ports import Ports
from shared.ports.store import At, Change, Expect, Put

_KEPT: Final = of_record(Approval)
_READERS: Final = frozenset({Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR})
_NOT_BY_KEY: Final = "Only a person who is signed in decides on an approval."
_NOT_ALONE: Final = "Another person than the one who asked decides on an approval."


@operation(*Scope)
def page(
    ports: Ports,
    caller: Caller,
    *,
    before: str | None,
    limit: int,
    status: ApprovalStatus | None = None,
) -> tuple[list[Approval], str | None]:
    """Return approvals, newest first, and `before` of the next page or None.

    With a `status`, those that have ended are left out. A caller who may not read the settings of
    the tenant sees its own.
    """
    now, barrier = ports.now(), _barrier(ports, caller.tenant_id)

    def keep(found: Approval) -> bool:
        if status is not None and (found.status is not status or found.has_ended(now, barrier)):
            return False
        return _may_see(caller, found)

    walk = Walk(model.approvals(caller.tenant_id), Approval.from_item, before, limit, keep)
    return walk.run(ports)


@operation(*Scope)
def get(ports: Ports, caller: Caller, *, approval_id: str) -> Approval:
    """Return an approval that `page` would show. Raises `NotFound`."""
    found, _ = _found(ports, caller, approval_id)
    if not _may_see(caller, found):
        raise NotFound
    return found


@once(Scope.ADMIN, keeps=_KEPT, fresh=True)
def approve(ports: Ports, caller: Caller, keep: Keep[Approval], *, approval_id: str) -> Approval:
    """Let the requester do what was asked for, for an hour. An approved one is returned unchanged.

    Raises `NotFound`; `InsufficientScope` unless another person than the requester calls;
    `InvalidState` if it was rejected, or has expired.
    """
    return _decided(ports, caller, keep, approval_id, ApprovalStatus.APPROVED)


@once(Scope.ADMIN, keeps=_KEPT, fresh=True)
def reject(ports: Ports, caller: Caller, keep: Keep[Approval], *, approval_id: str) -> Approval:
    """Refuse what was asked for, or what is left of an approval. Raises as `approve`."""
    return _decided(ports, caller, keep, approval_id, ApprovalStatus.REJECTED)


def override(ports: Ports, operator: Caller, *, approval_id: str, reason: str) -> Approval:
    """Approve in place of a person, as the operator. Raises `NotFound`, `InvalidState`."""
    return settle(lambda: _overridden(ports, operator, approval_id, reason))


def _overridden(ports: Ports, operator: Caller, approval_id: str, reason: str) -> Approval:
    before, barrier = _found(ports, operator, approval_id)
    _check_open(before, ApprovalStatus.APPROVED, ports.now(), barrier)
    if before.status is ApprovalStatus.APPROVED:
        return before
    after = before.decided(ApprovalStatus.APPROVED, operator.identity, None, ports.now())
    ports.store.write(
        Put(after.address, after.to_item(), At(before.version)),
        _entry(ports, operator, Action.APPROVAL_OVERRIDE, after, reason=reason),
    )
    return after


def _decided(
    ports: Ports, caller: Caller, keep: Keep[Approval], approval_id: str, status: ApprovalStatus
) -> Approval:
    before, barrier = _found(ports, caller, approval_id)
    if caller.person_id is None:
        raise InsufficientScope([Scope.ADMIN], _NOT_BY_KEY)
    if before.requested_by_id == caller.person_id:
        raise InsufficientScope([Scope.ADMIN], _NOT_ALONE)
    _check_open(before, status, ports.now(), barrier)
    if before.status is status:
        return before
    after = before.decided(status, caller.identity, caller.person_id, ports.now())
    is_approved = status is ApprovalStatus.APPROVED
    action = Action.APPROVAL_APPROVE if is_approved else Action.APPROVAL_REJECT
    ports.store.write(
        Put(after.address, after.to_item(), At(before.version)),
        _entry(ports, caller, action, after, requested_by=before.requested_by),
        *keep(after),
    )
    return after


def _found(ports: Ports, caller: Caller, approval_id: str) -> tuple[Approval, datetime | None]:
    """Return what `_read` does. Raises `NotFound`."""
    found, barrier = _read(ports, caller.tenant_id, approval_id)
    if found is None:
        raise NotFound
    return found, barrier


def _check_open(
    found: Approval, status: ApprovalStatus, now: datetime, barrier: datetime | None
) -> None:
    """Raise `InvalidState` unless an approval may get a status, or has it."""
    if found.status is status:
        return
    if found.status is ApprovalStatus.REJECTED:
        raise InvalidState("The approval was rejected; ask for another one.")
    if found.has_ended(now, barrier):
        raise InvalidState("The approval has expired; ask for another one.")


def _may_see(caller: Caller, found: Approval) -> bool:
    if not _READERS.isdisjoint(caller.scopes):
        return True
    return caller.person_id is not None and found.requested_by_id == caller.person_id


def requested(  # noqa: PLR0913 (what an approval is made of)
    ports: Ports,
    caller: Caller,
    act: Act,
    subject: str,
    *,
    reason: str,
    count: int = 1,
    request: dict[str, Value] | None = None,
    details: dict[str, Value],
    record_version: int = 0,
) -> Approval:
    """Store and return what waits for an approval."""
    now = ports.now()
    made = Approval(
        id=ports.new_id(APPROVAL),
        tenant_id=caller.tenant_id,
        act=act,
        subject=subject,
        count=count,
        remaining=count,
        reason=reason,
        requested_by=caller.identity,
        created_at=now,
        expires_at=times.whole(now + model.WAITS),
        expires=int((now + model.LISTED).timestamp()),
        details=details,
        requested_by_id=caller.person_id,
        request=request,
        record_version=record_version,
    )
    ports.store.write(
        Put(made.address, made.to_item(), Expect.ABSENT),
        _entry(ports, caller, Action.APPROVAL_REQUEST, made, reason=reason, count=count),
    )
    return made


def usable(
    ports: Ports, caller: Caller, approval_id: str, acts: Sequence[Act], subject: str
) -> Approval:
    """Return an approval that the caller may use for one of these acts, and this subject.

    Raises `ApprovalRequired`, with the reason.
    """
    found, barrier = _read(ports, caller.tenant_id, approval_id)
    if found is None:
        raise ApprovalRequired("There is no such approval.")
    if found.requested_by_id != caller.person_id:
        raise ApprovalRequired("Another person asked for this approval.")
    if found.act not in acts or found.subject != subject:
        raise ApprovalRequired("The approval is for another act or subject.")
    if found.status is not ApprovalStatus.APPROVED:
        raise ApprovalRequired(f"The approval is {found.status}.")
    if found.has_ended(ports.now(), barrier):
        raise ApprovalRequired("The approval has expired.")
    if found.remaining <= 0:
        raise ApprovalRequired("The approval is used up.")
    return found


def used(ports: Ports, caller: Caller, approval: Approval, number: int) -> list[Change]:
    """Return the changes that use an approval a `number` of times, at most what remains."""
    after = approval.used(number)
    return [
        Put(after.address, after.to_item(), At(approval.version)),
        _entry(ports, caller, Action.APPROVAL_USE, after, number=number, remaining=after.remaining),
    ]


def _entry(
    ports: Ports, caller: Caller, action: Action, approval: Approval, /, **details: Value
) -> Put:
    """Return the change that stores an audit entry about an approval."""
    shown: dict[str, Value] = {"act": approval.act.value, "subject": approval.subject}
    return audit.entry(ports, caller, action, approval.id, settings=None, **shown, **details)


def _read(
    ports: Ports, tenant_id: str, approval_id: str
) -> tuple[Approval | None, datetime | None]:
    """Read an approval, and the moment up to which all ended (OPS-9)."""
    if not is_identifier(approval_id, kind=APPROVAL):
        return None, None
    places = [model.approvals(tenant_id).address(approval_id), sessions.access_address(tenant_id)]
    found = ports.store.get_many(places)
    item, access = (found.get(each) for each in places)
    return None if item is None else Approval.from_item(item), _after(access)


def _barrier(ports: Ports, tenant_id: str) -> datetime | None:
    return _after(ports.store.get(sessions.access_address(tenant_id)))


def _after(access: Item | None) -> datetime | None:
    return AccessRecord.of(access).sessions_after
