"""`rescind tenant` and `rescind admin-key`, for operators."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import typer

from functions.trust import publishing
from infra import data_folder, private_files
from infra.cli.columns import Column
from infra.cli.commands import confirm, noun
from infra.cli.errors import (
    LIFETIME,
    NeverExpires,
    UsageError,
    Yes,
    argument,
    option,
)
from infra.cli.operator.operators import Handle, Operator, operator_command
from infra.cli.output import Output
from shared.model import text, times
from shared.model.tenants import TenantSettings
from shared.operations.access.api_key_creation import CreatedKey
from shared.operations.base import tenants
from shared.operations.operator import onboarding, removal
from shared.operations.operator import tenants as operations

_UNITS: Final = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}
_COLUMNS: Final = (
    Column("name", "name"),
    Column("tenant", "tenant_id"),
    Column("created at", "created_at"),
)


def _duration(value: str) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]{0,4})([dhm])", value)
    if match is None:
        raise ValueError("must be a number of days, hours or minutes, such as 30d, 12h or 45m")
    return int(match[1]) * _UNITS[match[2]]


ExpiresIn = Annotated[
    timedelta | None,
    option("--expires-in", "Lifetime, such as 30d, 12h or 45m (default: 90d).", "TIME", _duration),
]

Grace = Annotated[
    timedelta | None,
    option(
        "--grace", "Grace period before deletion: 1d to 365d (default: 30d).", "TIME", _duration
    ),
]
Export = Annotated[
    Path | None, option("--export", "Export all data of the tenant to a new file first.", "FILE")
]
NoExport = Annotated[bool, option("--no-export", "Delete without an export.")]

RequestApproval = Annotated[
    str | None,
    option(
        "--request-approval",
        "Delete nothing; request an approval from the tenant's administrators.",
        "WHY",
        text.reason,
    ),
]
ApprovalOption = Annotated[str | None, option("--approval", "Use this approval (svc_apr_…).", "ID")]

app = noun("Manage tenants, for operators.")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(app, name="tenant")
    operator_command(root, "admin-key", example="rescind admin-key acme --expires-in 12h")(
        create_admin_key
    )


@operator_command(app, "create", example="rescind tenant create acme --data .data > admin.key")
def create(operator: Operator, tenant: Handle) -> None:
    """Create a tenant, and print its first admin key, which is shown only once."""
    settings, created = onboarding.create_tenant(
        operator.ports, handle=tenant, user=private_files.name()
    )
    publishing.create_first(operator.ports, settings.tenant_id)
    operator.out.print_message(f"Created tenant {settings.handle} ({settings.tenant_id}).")
    show_key(operator.out, created)


@operator_command(app, "list", example="rescind tenant list --data .data")
def list_(operator: Operator) -> None:
    """List the tenants, oldest first."""
    rows = [
        {
            "name": each.handle,
            "tenant_id": each.tenant_id,
            "created_at": times.format_utc(each.created_at),
        }
        for each in tenants.directory(operator.ports)
    ]
    operator.out.print_table({"tenants": rows}, rows, _COLUMNS)


@operator_command(app, "show", example="rescind tenant show acme --data .data")
def show(operator: Operator, tenant: Handle) -> None:
    """Show a tenant: its settings, its current SRL, and its number of keys and accounts."""
    summary = operations.show(operator.ports, handle=tenant)
    operator.out.record(
        {
            **_document(summary.settings),
            "api_keys": summary.api_keys,
            "service_accounts": summary.service_accounts,
            "srl_version": summary.list.version,
            "srl_count": summary.list.count,
            "srl_expires_at": times.format_utc(summary.list.expires_at),
        }
    )


@operator_command(app, "rename", example="rescind tenant rename acme acme-corp --data .data")
def rename(operator: Operator, tenant: Handle, new: Handle) -> None:
    """Rename a tenant. The old name stays reserved, and these commands still accept it.

    Service accounts keep their identities, because the audit log refers to them.
    """
    done = operations.rename(operator.ports, handle=tenant, new=new, user=private_files.name())
    operator.out.print_message(f"Renamed the tenant {done.tenant_id} to {done.handle}.")


@operator_command(
    app, "schedule-delete", example="rescind tenant schedule-delete acme --grace 30d --data .data"
)
def schedule_delete(operator: Operator, tenant: Handle, grace: Grace = None) -> None:
    """Schedule the deletion of a tenant, which is served as before until `tenant purge`.

    To cancel it, run `rescind tenant cancel-delete`.
    """
    grace = grace or operations.GRACE_DEFAULT
    try:
        done = operations.delete(
            operator.ports, handle=tenant, grace=grace, user=private_files.name()
        )
    except ValueError as error:
        raise UsageError(str(error)) from None
    operator.out.record(_document(done))
    operator.out.print_message(f"After the grace period, run: rescind tenant purge {done.handle}")


@operator_command(app, "cancel-delete", example="rescind tenant cancel-delete acme --data .data")
def cancel_delete(operator: Operator, tenant: Handle) -> None:
    """Cancel the scheduled deletion of a tenant."""
    done = operations.cancel_delete(operator.ports, handle=tenant, user=private_files.name())
    operator.out.print_message(f"Canceled the deletion of the tenant {done.handle}.")


@operator_command(app, "export", example="rescind tenant export acme acme.ndjson --data .data")
def export(operator: Operator, tenant: Handle, file: Annotated[Path, argument("FILE")]) -> None:
    """Write all data of a tenant to a new file, one JSON object per line, without secrets."""
    _export(operator, tenants.identifier(operator.ports, tenant), file)


@operator_command(
    app, "purge", example="rescind tenant purge acme --export acme.ndjson --data .data"
)
def purge(
    operator: Operator,
    tenant: Handle,
    export: Export = None,
    no_export: NoExport = False,
    yes: Yes = False,
    request_approval: RequestApproval = None,
    approval: ApprovalOption = None,
) -> None:
    """Delete a tenant with all its data after its grace time. This cannot be undone.

    If the command is interrupted, repeat it with --no-export.
    """
    if request_approval is not None:
        user = private_files.name()
        request = removal.request(operator.ports, handle=tenant, reason=request_approval, user=user)
        operator.out.record(
            {"approval_id": request.id, "expires_at": times.format_utc(request.expires_at)}
        )
        operator.out.print_message(
            f"After the approval, run the command with --approval {request.id}"
        )
        return
    if (export is None) is not no_export:
        raise UsageError("use one of --export and --no-export.")
    tenant_id = removal.check_due(operator.ports, handle=tenant)
    confirm(f"Delete the tenant {tenant} with all its data?", yes=yes)
    if export is not None:
        _export(operator, tenant_id, export)
    user = private_files.name()
    removed = removal.remove(operator.ports, handle=tenant, user=user, approval_id=approval)
    operator.out.print_message(f"Deleted the tenant {tenant}: {removed} items, and all its SRLs.")


def _export(operator: Operator, tenant_id: str, file: Path) -> None:
    lines = removal.export(operator.ports, tenant_id)
    try:
        written = data_folder.write_lines(file, lines)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}.") from error
    operator.out.print_message(f"Wrote {written} lines to {file}.")


def _document(settings: TenantSettings) -> dict[str, object]:
    return {
        "name": settings.handle,
        "tenant_id": settings.tenant_id,
        "created_at": times.format_utc(settings.created_at),
        "delete_after": settings.delete_after and times.format_utc(settings.delete_after),
    }


def create_admin_key(
    operator: Operator,
    tenant: Handle,
    expires_in: ExpiresIn = None,
    never_expires: NeverExpires = False,
) -> None:
    """Create an admin key for a tenant that is locked out, and print it."""
    if expires_in and never_expires:
        raise UsageError("use one of --expires-in and --never-expires.")
    now = operator.ports.now()
    expires_at = (
        None
        if never_expires
        else times.truncate_to_second(now + (expires_in or _duration(LIFETIME)))
    )
    created = onboarding.mint_admin_key(
        operator.ports, handle=tenant, user=private_files.name(), expires_at=expires_at
    )
    show_key(operator.out, created)


def show_key(out: Output, created_key: CreatedKey) -> None:
    """Print only the secret on standard output, so it can be redirected to a file."""
    key_id, secret = created_key.api_key.id, created_key.secret
    out.print_message(f"Admin key {key_id}; its secret is shown only once:")
    out.show({"api_key_id": key_id, "key": secret}, secret)
