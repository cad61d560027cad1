"""Protected actions, which need a second person's approval (APPROVAL-1).

A protected operation calls `approval_changes`, or `UnrevokeAdmission` if it unrevokes warrants. Its
write contains the returned changes, so an action happens only as often as approved. A call that
only requests an approval ends there. The service itself needs no approval, and the operator's
commands need one only for `tenant purge`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from shared.errors import ApprovalRequested, ApprovalRequired, InvalidRequest
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import ApprovalHeader, Caller, Scope
from shared.model.differences import changed_details
from shared.model.identities import approvals as model
from shared.model.identities.approvals import ProtectedAction, ProtectedActions, UnrevokeUsage
from shared.model.items import Value
from shared.model.revocations import Revocation, is_maker
from shared.model.unrevoke_manifests import GROUPS_MAX, UnrevokeManifest, count_groups
from shared.model.warrants import WarrantState
from shared.operations.base import allowance, audit
from shared.operations.base.guard import PolicyAsked
from shared.operations.base.operation import operation, settle
from shared.operations.identities import approvals, approvers
from shared.ports import Ports
from shared.ports.store import Change, Check, Expect, Put, VersionIs, expect_version

_ALONE: Final = (
    "This action requires an approval by another person; send the request with Rescind-Approval: "
    "request."
)
_PEOPLE_ONLY: Final = (
    "This action requires an approval, which only a person who is signed in can request."
)
_MANIFEST: Final = (
    "This action requires an approval by another person; create a manifest with POST "
    "/v1/unrevoke-manifests, and send its parts with Rescind-Approval."
)
_MANY: Final = (
    f"An approval shows at most {GROUPS_MAX} creators and reasons; request fewer revocations at "
    "once."
)
_POLICY: Final = "protected actions"
_PROTECT: Final = AuditAction.TENANT_UPDATE_PROTECTED_ACTIONS
_OVERRIDE: Final = AuditAction.APPROVAL_OVERRIDE

# A revocation to delete, and the state of its warrant.
_Found = tuple[Revocation, WarrantState]


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def get(ports: Ports, caller: Caller) -> ProtectedActions:
    """Return the tenant's actions that need an approval."""
    return read_protected_actions(ports, caller.tenant_id)


@operation(Scope.ADMIN, fresh=True)
def update(
    ports: Ports,
    caller: Caller,
    *,
    actions: tuple[ProtectedAction, ...],
    unrevoke_threshold: int | None,
) -> ProtectedActions:
    """Set the tenant's actions that need an approval.

    Raises `TooFewApprovers` unless two people could approve; `ApprovalRequired` if an action is
    protected.
    """
    before = read_protected_actions(ports, caller.tenant_id)
    changed = replace(
        before, actions=tuple(dict.fromkeys(actions)), unrevoke_threshold=unrevoke_threshold
    )
    is_same, after = changed == before, replace(changed, version=before.version + 1)
    details = changed_details(_POLICY, before, after)
    approval = access_changed(
        ports, caller, _POLICY, details, version=before.version, is_needed=not is_same
    )
    if is_same:
        return before
    checks = list[Change]()
    if after.protects:
        checks = approvers.keep_two(ports, caller, extra_changes=approval, is_protected=True)
    ports.store.write(
        _put_protected_actions(caller.tenant_id, before, after),
        audit.entry(ports, caller, _PROTECT, caller.tenant_id, settings=None, **details),
        *approval,
        *checks,
    )
    return after


def clear(ports: Ports, operator: Caller, *, reason: str) -> None:
    """Remove all protection, as the operator of a tenant that is locked out."""

    def remove_protection() -> None:
        before = read_protected_actions(ports, operator.tenant_id)
        after = ProtectedActions(version=before.version + 1)
        details = changed_details(_POLICY, before, after) | {"reason": reason}
        ports.store.write(
            _put_protected_actions(operator.tenant_id, before, after),
            audit.entry(ports, operator, _OVERRIDE, operator.tenant_id, settings=None, **details),
        )

    settle(remove_protection)


def read_protected_actions(ports: Ports, tenant_id: str) -> ProtectedActions:
    """Read the tenant's actions that need an approval."""
    item = ports.store.get(model.protected_address(tenant_id))
    return ProtectedActions() if item is None else ProtectedActions.from_item(item)


def access_changed(
    ports: Ports,
    caller: Caller,
    subject: str,
    details: Mapping[str, Value],
    *,
    version: int = 0,
    is_needed: bool = True,
) -> list[Change]:
    """Return the approval changes for a change of access, for example to a provider or a role."""
    action = ProtectedAction.CHANGE_ACCESS
    return approval_changes(
        ports, caller, action, subject, details, version=version, is_needed=is_needed
    )


def approval_changes(  # noqa: PLR0913 (what an approval is made of)
    ports: Ports,
    caller: Caller,
    action: ProtectedAction,
    subject: str,
    details: Mapping[str, Value],
    *,
    version: int = 0,
    is_needed: bool = True,
) -> list[Change]:
    """Return the approval changes for the write of a protected action.

    Call it on every path, even if no approval `is_needed`: it then raises `InvalidState` if the
    call requests one. `details` describe the changes to the record at this `version`, or 0 for a
    new record. Raises `ApprovalRequired`; `ApprovalRequested` if the call requested an approval.
    """
    policy = (
        ProtectedActions() if caller.is_inside else read_protected_actions(ports, caller.tenant_id)
    )
    if not is_needed or not policy.has(action):
        allowance.check_asks_nothing(caller)
        # The write fails if the action becomes protected concurrently. A change of the policy
        # itself already has the policy as a precondition.
        kind = PolicyAsked if subject == _POLICY else Check
        return [] if caller.is_inside else [_required_nothing(policy, caller.tenant_id, kind)]
    header = _header(caller)
    request: dict[str, Value]
    request = {"method": header.method, "path": header.path, "sha256": header.sha256}
    if caller.asks_approval:
        approval = approvals.create_request(
            ports,
            caller,
            action,
            subject,
            reason=header.reason,
            request=request,
            details=dict(details),
            record_version=version,
        )
        raise ApprovalRequested(approval)
    approval = approvals.usable(ports, caller, header.id or "", [action], subject)
    if approval.request != request:
        message = "The approval is for another request; send the same method, path and body."
        raise ApprovalRequired(message)
    if approval.record_version != version:
        message = "The record has changed after the request; request another approval."
        raise ApprovalRequired(message)
    return approvals.use_changes(ports, caller, approval, 1)


@dataclass(frozen=True, slots=True)
class UnrevokeAdmission:
    """Whether a call may unrevoke warrants.

    `subject` is the one revocation or the manifest, or None for a batch, which uses no approval.
    """

    ports: Ports
    caller: Caller
    subject: str | None
    actions: ProtectedActions

    @property
    def is_limited(self) -> bool:
        """Whether some of these actions are protected."""
        others = self.actions.has(ProtectedAction.UNREVOKE_OTHERS)
        return not self.caller.is_inside and (others or self.actions.has(ProtectedAction.UNREVOKE))

    def check(self, items: Sequence[_Found]) -> None:
        """Check before the first write that the call may unrevoke all of these.

        Raises `ApprovalRequired`, `ApprovalRequested`, and `InvalidState` if it requests an
        unnecessary approval.
        """
        action = self._required_action(len(items), has_others=self._has_others(items))
        if self.caller.asks_approval and action is not None:
            details: dict[str, Value] = {
                "warrant_id": items[0][0].warrant_id,
                "groups": [*count_groups([record for record, _ in items])],
            }
            raise self._request_approval(action, 1, details)
        allowance.check_asks_nothing(self.caller)
        if action is not None and self.caller.approval is None:
            raise self._approval_required_error()
        if action is not None:
            self.take(items)

    def request_approval(
        self, manifest: UnrevokeManifest, has_other_makers: Callable[[], bool]
    ) -> None:
        """Raise `ApprovalRequested` for all members of a manifest.

        Raises `InvalidState` if the approval is unnecessary, and `InvalidRequest` if an approval
        cannot show all makers and reasons. `has_other_makers` returns whether others revoked any
        member again.
        """
        is_own = all(
            is_maker(self.caller, each["created_by"], each["created_by_id"])
            for each in manifest.groups
        )
        is_limited = self.actions.has(ProtectedAction.UNREVOKE_OTHERS)
        has_others = is_limited and (not is_own or has_other_makers())
        if action := self._required_action(manifest.count, has_others=has_others):
            if len(manifest.groups) > GROUPS_MAX:
                raise InvalidRequest(_MANY)
            details: dict[str, Value] = {"manifest_id": manifest.id, "sha256": manifest.sha256}
            details["groups"] = [*manifest.groups]
            raise self._request_approval(action, manifest.count, details)
        allowance.check_asks_nothing(self.caller)

    def take(self, items: Sequence[_Found]) -> tuple[int, list[Change]]:
        """Return how many of the first `items` a write may unrevoke, and its changes.

        Raises `ApprovalRequired` if it may unrevoke none.
        """
        if self.caller.is_inside:
            return len(items), []
        if not self.is_limited:
            return len(items), [self._require_same_policy()]
        has_others = self._has_others(items)
        if self.caller.approval is not None:
            actions = [ProtectedAction.UNREVOKE_OTHERS]
            if not has_others:
                actions.append(ProtectedAction.UNREVOKE)
            approval_id, subject = _header(self.caller).id or "", self.subject or ""
            approval = approvals.usable(self.ports, self.caller, approval_id, actions, subject)
            number = min(len(items), approval.remaining)
            return number, approvals.use_changes(self.ports, self.caller, approval, number)
        if has_others:
            raise self._approval_required_error()
        threshold = self.actions.unrevoke_threshold
        if threshold is None:
            return len(items), [self._require_same_policy()]
        recent, now = self._recent(), self.ports.now()
        number = min(len(items), threshold - recent.within_hour(now))
        if number <= 0:
            raise self._approval_required_error()
        address = model.restores_address(self.caller.tenant_id)
        expected = VersionIs(recent.version) if recent.version else Expect.ABSENT
        put = Put(address, recent.plus(number, now).to_item(), expected)
        return number, [self._require_same_policy(), put]

    def _request_approval(
        self, action: ProtectedAction, count: int, details: dict[str, Value]
    ) -> ApprovalRequested:
        approval = approvals.create_request(
            self.ports,
            self.caller,
            action,
            self.subject or "",
            reason=_header(self.caller).reason,
            count=count,
            details=details,
        )
        return ApprovalRequested(approval)

    def _approval_required_error(self) -> ApprovalRequired:
        is_batch = self.subject is None and self.caller.person_id is not None
        return ApprovalRequired(_MANIFEST) if is_batch else _approval_required_error(self.caller)

    def _require_same_policy(self) -> Check:
        return _required_nothing(self.actions, self.caller.tenant_id, PolicyAsked)

    def _required_action(self, wanted_count: int, *, has_others: bool) -> ProtectedAction | None:
        if not self.is_limited or not wanted_count:
            return None
        if has_others:
            return ProtectedAction.UNREVOKE_OTHERS
        most = self.actions.unrevoke_threshold
        if most is None or self._recent().within_hour(self.ports.now()) + wanted_count <= most:
            return None
        return ProtectedAction.UNREVOKE

    def _has_others(self, items: Sequence[_Found]) -> bool:
        is_limited = self.actions.has(ProtectedAction.UNREVOKE_OTHERS)
        return is_limited and any(
            standing.also_by or record.compare_maker(self.caller) for record, standing in items
        )

    def _recent(self) -> UnrevokeUsage:
        item = self.ports.store.get(model.restores_address(self.caller.tenant_id))
        return UnrevokeUsage() if item is None else UnrevokeUsage.from_item(item)


def restoring(ports: Ports, caller: Caller, subject: str | None) -> UnrevokeAdmission:
    """Return the decision whether a call may unrevoke warrants."""
    return UnrevokeAdmission(
        ports, caller, subject, read_protected_actions(ports, caller.tenant_id)
    )


def _header(caller: Caller) -> ApprovalHeader:
    """Return the approval header of the request. Raises `ApprovalRequired` if there is none."""
    if caller.approval is None or caller.person_id is None:
        raise _approval_required_error(caller)
    return caller.approval


def _approval_required_error(caller: Caller) -> ApprovalRequired:
    return ApprovalRequired(_PEOPLE_ONLY if caller.person_id is None else _ALONE)


def _required_nothing(policy: ProtectedActions, tenant_id: str, kind: type[Check]) -> Check:
    """Return the proof for the guard that this policy required no approval."""
    return kind(model.protected_address(tenant_id), expect_version(policy.version))


def _put_protected_actions(tenant_id: str, old: ProtectedActions, new: ProtectedActions) -> Put:
    return Put(model.protected_address(tenant_id), new.to_item(), expect_version(old.version))
