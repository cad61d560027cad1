"""Approvals: request, decide and use them (APPROVAL-2 to APPROVAL-4).

The service never performs the approved request. The requester repeats it with the approval.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from shared.errors import (
    ApprovalRequired,
    Conflict,
    DataCorrupt,
    InsufficientScope,
    InvalidState,
    NotFound,
)
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identifiers import APPROVAL, is_identifier
from shared.model.identities import approvals as model
from shared.model.identities import people, sessions
from shared.model.identities.approvals import Approval, ApprovalStatus, ProtectedAction
from shared.model.identities.people import Person
from shared.model.identities.sessions import SessionRecord
from shared.model.items import Item, Value
from shared.operations.base import audit
from shared.operations.base.idempotency import Keep, idempotent, of_record
from shared.operations.base.operation import operation, settle
from shared.operations.base.paging import PageQueryPlan
from shared.operations.identities import approvers
from shared.operations.identities.authentication import read_access
from shared.ports import Ports
from shared.ports.store import Change, Check, Expect, Put, VersionIs

_KEPT: Final = of_record(Approval)
_READERS: Final = frozenset({Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR})
_NOT_BY_KEY: Final = "Only a person who is signed in can decide on an approval."
_COOLING_OFF: Final = (
    "An identity provider changed less than 24 hours ago, and your session began after the "
    "change. A person with an older session can approve, or the operator can run `rescind "
    "approvals override`."
)
_NO_APPROVER: Final = (
    "The person who approved can no longer approve; request an approval by another person."
)
_TOO_MANY: Final = (
    f"At most {model.PENDING_MAX} requests of a person and {model.PENDING_OF_TENANT_MAX} of a "
    "tenant can wait for a decision; first have some decided."
)
_NOT_ALONE: Final = "The requester cannot decide on an approval; another person must decide."


@operation(*Scope)
def page(
    ports: Ports,
    caller: Caller,
    *,
    before: str | None,
    limit: int,
    status: ApprovalStatus | None = None,
) -> tuple[list[Approval], str | None]:
    """Return approvals, newest first, and `before` for the next page or None.

    With a `status`, returns only approvals that are shown with it. A caller who may not read the
    settings of the tenant sees only its own.
    """
    has_ended = _ending(ports, caller.tenant_id)

    def read(item: Item) -> Approval:
        return _show(Approval.from_item(item), has_ended)

    def keep(approval: Approval) -> bool:
        return status in (None, approval.status) and _may_see(caller, approval)

    return PageQueryPlan(model.approvals(caller.tenant_id), read, before, limit, keep).run(ports)


@operation(*Scope)
def get(ports: Ports, caller: Caller, *, approval_id: str) -> Approval:
    """Return an approval that `page` would show. Raises `NotFound`."""
    approval = _require_approval(ports, caller, approval_id)
    if not _may_see(caller, approval):
        raise NotFound
    return _show(approval, _ending(ports, caller.tenant_id))


def _show(approval: Approval, has_ended: Callable[[Approval], bool]) -> Approval:
    """Return an approval with its shown status: `used` and `expired` are not stored."""
    if approval.status is ApprovalStatus.REJECTED:
        return approval
    if not approval.remaining:
        return replace(approval, status=ApprovalStatus.USED)
    return replace(approval, status=ApprovalStatus.EXPIRED) if has_ended(approval) else approval


@idempotent(Scope.ADMIN, keeps=_KEPT, fresh=True)
def approve(ports: Ports, caller: Caller, keep: Keep[Approval], *, approval_id: str) -> Approval:
    """Approve a request for an hour. An approved one is returned unchanged.

    Raises `NotFound`; `InsufficientScope` unless another person than the requester calls;
    `InvalidState` if it was rejected, or has expired.
    """
    return _decide(ports, caller, keep, approval_id, ApprovalStatus.APPROVED)


@idempotent(Scope.ADMIN, keeps=_KEPT, fresh=True)
def reject(ports: Ports, caller: Caller, keep: Keep[Approval], *, approval_id: str) -> Approval:
    """Reject a request, or the rest of an approval. Raises the same errors as `approve`.

    The requester may call this, too, to withdraw the request.
    """
    return _decide(ports, caller, keep, approval_id, ApprovalStatus.REJECTED)


def override(ports: Ports, operator: Caller, *, approval_id: str, reason: str) -> Approval:
    """Approve in place of a person, as the operator. Raises `NotFound`, `InvalidState`."""

    def attempt() -> Approval:
        before = _require_approval(ports, operator, approval_id)
        _check_open(ports, before, ApprovalStatus.APPROVED)
        if before.status is ApprovalStatus.APPROVED:
            shown = _show(before, _ending(ports, operator.tenant_id))
            if shown.status is not ApprovalStatus.APPROVED:
                raise InvalidState(f"The approval is {shown.status}; request another approval.")
            return before
        after = before.decide(ApprovalStatus.APPROVED, operator.identity, None, ports.now())
        ports.store.write(
            Put(after.address, after.to_item(), VersionIs(before.version)),
            _entry(ports, operator, AuditAction.APPROVAL_OVERRIDE, after, reason=reason),
        )
        return after

    return settle(attempt)


def _decide(
    ports: Ports, caller: Caller, keep: Keep[Approval], approval_id: str, status: ApprovalStatus
) -> Approval:
    before = _require_approval(ports, caller, approval_id)
    if caller.person_id is None:
        raise InsufficientScope([Scope.ADMIN], _NOT_BY_KEY)
    person = _person(ports, caller.tenant_id, caller.person_id)
    requester = _requester(ports, before)
    is_own = requester is not None and requester.account == person.account
    if is_own and status is ApprovalStatus.APPROVED:
        raise InsufficientScope([Scope.ADMIN], _NOT_ALONE)
    _check_open(ports, before, status)
    if before.status is status:
        return before
    is_approved = status is ApprovalStatus.APPROVED
    if is_approved:
        _check_cooled_off(ports, caller)
    after = before.decide(status, caller.identity, person, ports.now())
    action = AuditAction.APPROVAL_APPROVE if is_approved else AuditAction.APPROVAL_REJECT
    ports.store.write(
        Put(after.address, after.to_item(), VersionIs(before.version)),
        _entry(ports, caller, action, after, requested_by=before.requested_by),
        *keep(after),
    )
    return after


def _require_approval(ports: Ports, caller: Caller, approval_id: str) -> Approval:
    """Read an approval. Raises `NotFound`."""
    approval = _read_approval(ports, caller.tenant_id, approval_id)
    if approval is None:
        raise NotFound
    return approval


def _check_open(ports: Ports, approval: Approval, status: ApprovalStatus) -> None:
    """Raise `InvalidState` unless an approval may get a status, or has it."""
    if approval.status is status:
        return
    if approval.status is ApprovalStatus.REJECTED:
        raise InvalidState("The approval was rejected; request another approval.")
    if _ending(ports, approval.tenant_id)(approval):
        raise InvalidState("The approval has expired; request another approval.")


def _check_cooled_off(ports: Ports, caller: Caller) -> None:
    """Raise `InsufficientScope` if the session of an approver began after a trust anchor changed.

    The provider controls its claims about a sign-in, so the start of the session counts. Stored
    times are whole seconds: a session of the same second counts as later than the change.
    """
    changed_at = read_access(ports, caller.tenant_id).anchors_changed_at
    if changed_at is None or ports.now() - changed_at >= model.COOLING_OFF:
        return
    address = sessions.sessions(caller.tenant_id).address(caller.session_id or "")
    session = SessionRecord.from_optional(ports.store.get(address))
    if session is None or session.created_at >= changed_at:
        raise InsufficientScope([Scope.ADMIN], _COOLING_OFF)


def _person(ports: Ports, tenant_id: str, person_id: str) -> Person:
    item = ports.store.get(people.people(tenant_id).address(person_id))
    if item is None:
        raise DataCorrupt("a session names a person without a record")
    return Person.from_item(item)


def _requester(ports: Ports, approval: Approval) -> Person | None:
    """Return the requester, or None for the operator."""
    asker = approval.requested_by_id
    return None if asker is None else _person(ports, approval.tenant_id, asker)


def _may_see(caller: Caller, approval: Approval) -> bool:
    if not _READERS.isdisjoint(caller.scopes):
        return True
    return caller.person_id is not None and approval.requested_by_id == caller.person_id


def create_request(  # noqa: PLR0913 (what an approval is made of)
    ports: Ports,
    caller: Caller,
    action: ProtectedAction,
    subject: str,
    *,
    reason: str,
    count: int = 1,
    request: dict[str, Value] | None = None,
    details: dict[str, Value],
    record_version: int = 0,
) -> Approval:
    """Store and return a request for approval. Raises `Conflict` if too many are pending."""
    now, by, has_ended = ports.now(), caller.person_id, _ending(ports, caller.tenant_id)
    pending = list[Approval]()
    for row in ports.store.query(model.approvals(caller.tenant_id), newest_first=True):
        listed = Approval.from_item(row.item)
        if now - listed.created_at >= model.WAITS:
            break
        if listed.status is ApprovalStatus.PENDING and not has_ended(listed):
            pending.append(listed)
    own = sum(each.requested_by_id == by for each in pending)
    if own >= model.PENDING_MAX or len(pending) >= model.PENDING_OF_TENANT_MAX:
        raise Conflict(_TOO_MANY)
    approval = Approval(
        id=ports.new_id(APPROVAL),
        tenant_id=caller.tenant_id,
        action=action,
        subject=subject,
        count=count,
        remaining=count,
        reason=reason,
        requested_by=caller.identity,
        created_at=now,
        expires_at=times.truncate_to_second(now + model.WAITS),
        expires=int((now + model.LISTED).timestamp()),
        details=details,
        requested_by_id=by,
        requested_by_epoch=_person(ports, caller.tenant_id, by).epoch if by else 0,
        request=request,
        record_version=record_version,
    )
    ports.store.write(
        Put(approval.address, approval.to_item(), Expect.ABSENT),
        _entry(ports, caller, AuditAction.APPROVAL_REQUEST, approval, reason=reason, count=count),
    )
    return approval


def usable(
    ports: Ports, caller: Caller, approval_id: str, actions: Sequence[ProtectedAction], subject: str
) -> Approval:
    """Return an approval that the caller may use for one of these actions and this subject.

    Raises `ApprovalRequired`, with the reason.
    """
    approval = _read_approval(ports, caller.tenant_id, approval_id)
    if approval is None:
        raise ApprovalRequired("There is no such approval.")
    if approval.requested_by_id != caller.person_id:
        raise ApprovalRequired("Another person requested this approval.")
    if approval.action not in actions or approval.subject != subject:
        raise ApprovalRequired("The approval is for another action or resource.")
    if approval.status is not ApprovalStatus.APPROVED:
        raise ApprovalRequired(f"The approval is {approval.status}.")
    if _ending(ports, approval.tenant_id)(approval):
        raise ApprovalRequired("The approval has expired.")
    if approval.remaining <= 0:
        raise ApprovalRequired("The approval was used already; request another approval.")
    return approval


def use_changes(ports: Ports, caller: Caller, approval: Approval, number: int) -> list[Change]:
    """Return the changes that use an approval `number` times, up to the remaining count.

    Raises `ApprovalRequired` if the approver may no longer approve. An operator always may.
    """
    after, checks = approval.use(number), list[Check]()
    if approval.decided_by_id is not None:
        person = _person(ports, approval.tenant_id, approval.decided_by_id)
        access = read_access(ports, approval.tenant_id)
        if person.epoch != approval.decided_by_epoch or not approvers.may_approve(person, access):
            raise ApprovalRequired(_NO_APPROVER)
        checks = [Check(person.address, VersionIs(person.version))]
    left = after.remaining
    return [
        *checks,
        Put(after.address, after.to_item(), VersionIs(approval.version)),
        _entry(ports, caller, AuditAction.APPROVAL_CONSUME, after, number=number, remaining=left),
    ]


def _entry(
    ports: Ports, caller: Caller, action: AuditAction, approval: Approval, /, **details: Value
) -> Put:
    """Return the write that stores an audit entry about an approval."""
    shown: dict[str, Value] = {"action": approval.action.value, "subject": approval.subject}
    return audit.entry(ports, caller, action, approval.id, settings=None, **shown, **details)


def _read_approval(ports: Ports, tenant_id: str, approval_id: str) -> Approval | None:
    if not is_identifier(approval_id, kind=APPROVAL):
        return None
    return Approval.from_optional(ports.store.get(model.approvals(tenant_id).address(approval_id)))


def _ending(ports: Ports, tenant_id: str) -> Callable[[Approval], bool]:
    """Return a function that checks whether an approval has ended. Reads each requester once."""
    access = read_access(ports, tenant_id)
    # Ends all approvals that were requested before this time (OPS-9, APPROVAL-6).
    ends = [each for each in (access.sessions_after, access.anchors_changed_at) if each is not None]
    barrier, now = max(ends, default=None), ports.now()
    people_ = dict[str | None, Person | None]()

    def has_ended(approval: Approval) -> bool:
        asker = approval.requested_by_id
        if asker not in people_:
            people_[asker] = _requester(ports, approval)
        return approval.has_ended(now, barrier, people_[asker])

    return has_ended
