"""`rescind approvals`: manage approvals and protected actions, with an operator override."""

from typing import Annotated, Final

from infra.cli.client import segment
from infra.cli.columns import Column
from infra.cli.commands import ApiSession, command, noun
from infra.cli.errors import SHOWN, Limit, Reason, UsageError, argument, option
from infra.cli.operator.operators import Handle, Operator, operator_command
from shared.model import times
from shared.model.identities.approvals import ApprovalStatus, ProtectedAction
from shared.operations.identities import approvals, protected_acts

_PATH: Final = "/v1/approvals"
_POLICY: Final = "/v1/tenant/protected-actions"
_COLUMNS: Final = (
    Column("approval", "id"),
    Column("status", "status"),
    Column("action", "action"),
    Column("subject", "subject"),
    Column("remaining", "remaining"),
    Column("requested by", "requested_by"),
    Column("expires at", "expires_at"),
    Column("reason", "reason", wraps=True),
)

ApprovalArgument = Annotated[str, argument("APPROVAL", "Identifier (svc_apr_…).")]
StatusOption = Annotated[
    ApprovalStatus | None, option("--status", "Show only approvals with this status.")
]
ApprovalOrNone = Annotated[
    str | None, argument("APPROVAL", "Approval that a person requested (svc_apr_…).")
]
Clear = Annotated[bool, option("--clear", "Remove the protection of all actions of the tenant.")]
ProtectedOption = Annotated[
    list[ProtectedAction] | None,
    option(
        "--action",
        "Action to protect; may be repeated. Use --unrevoke-threshold for "
        "revocations.unrevoke; access.change is implied.",
    ),
]
UnrevokeThreshold = Annotated[
    int | None,
    option(
        "--unrevoke-threshold",
        "Warrants that may be unrevoked per hour without an approval.",
        min=0,
    ),
]

app = noun("List, approve and reject approvals, and protect actions.")


@command(app, "list", example="rescind approvals list --status pending", watches=True)
def list_(session: ApiSession, limit: Limit = SHOWN, status: StatusOption = None) -> None:
    """List approvals and pending requests."""
    params = {"status": status.value if status else None}
    page = session.api.list_records(_PATH, "approvals", most=limit, params=params)
    session.out.print_page(page, "approvals", _COLUMNS)


@command(app, "show", example="rescind approvals show svc_apr_01J…", watches=True)
def show(session: ApiSession, approval: ApprovalArgument) -> None:
    """Show one approval and the change that it permits."""
    session.out.record(session.api.get(f"{_PATH}/{segment(approval)}"))


@command(app, "approve", example="rescind approvals approve svc_apr_01J…")
def approve(session: ApiSession, approval: ApprovalArgument) -> None:
    """Approve a request. The requester must act within one hour."""
    session.out.record(session.api.post(f"{_PATH}/{segment(approval)}/approve"))


@command(app, "reject", example="rescind approvals reject svc_apr_01J…")
def reject(session: ApiSession, approval: ApprovalArgument) -> None:
    """Reject a request, or withdraw an approval."""
    session.out.record(session.api.post(f"{_PATH}/{segment(approval)}/reject"))


@command(app, "policy", example="rescind approvals policy")
def show_policy(session: ApiSession) -> None:
    """Show the actions that need an approval."""
    session.out.record(session.api.get(_POLICY))


@command(
    app, "protect", example="rescind approvals protect --action tenant.remove", is_protected=True
)
def protect(
    session: ApiSession,
    action: ProtectedOption = None,
    unrevoke_threshold: UnrevokeThreshold = None,
) -> None:
    """Replace the set of protected actions. Without options, no action is protected.

    At least two people must be able to approve.
    """
    policy = session.api.put(
        _POLICY, {"actions": action or [], "unrevoke_threshold": unrevoke_threshold}
    )
    session.out.record(policy)


@operator_command(
    app,
    "override",
    example='rescind approvals override acme svc_apr_01J… --reason "no approver is available"',
)
def override(
    operator: Operator,
    tenant: Handle,
    reason: Reason,
    approval: ApprovalOrNone = None,
    clear: Clear = False,
) -> None:
    """Approve a request as the operator. This is recorded in the audit log and fires an alarm.

    With --clear, remove the protection of all actions. Use it if all possible approvers are locked
    out.
    """
    if (approval is None) is not clear:
        raise UsageError("give either APPROVAL or --clear.")
    caller = operator.caller(tenant)
    if approval is None:
        protected_acts.clear(operator.ports, caller, reason=reason)
        operator.out.print_message(f"Removed the protection of all actions of {tenant}.")
        return
    done = approvals.override(operator.ports, caller, approval_id=approval, reason=reason)
    operator.out.record({"approval_id": done.id, "expires_at": times.format_utc(done.expires_at)})
