"""`rescind doctor`, `upgrade`, `recover`, `mark-restored` and `canary`, for operators."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer

from functions.authorizers import propagation as registry
from infra.cli.errors import ExitCode, option, public_keys
from infra.cli.operator.operators import Handle, Operator, operator_command
from shared.errors import RescindError
from shared.model.callers import Caller
from shared.model.deployment import SCHEMA
from shared.operations.access import api_keys
from shared.operations.base import tenants
from shared.operations.operator import deployment, doctor, restored
from shared.operations.operator.recovery import recovery
from shared.ports import Ports

_ADMIN_KEY_AGE_MAX: Final = timedelta(days=30)

TrustVersion = Annotated[
    int,
    option(
        "--trust-version",
        "Newest version of the trust document that clients have, if its blob is lost.",
        "N",
        min=0,
    ),
]
Signers = Annotated[
    list[bytes] | None,
    public_keys(
        "--signer",
        "Public key, in base64, of an SRL signer that the restored tables lack; may be repeated.",
        "PUBLIC_KEY",
    ),
]
CompleteReview = Annotated[
    bool, option("--complete-review", "Complete the review that an earlier recovery required.")
]
NoDataLoss = Annotated[
    bool,
    option(
        "--no-data-loss",
        "Record that no change is lost, after a PostgreSQL failover to a synchronous standby "
        "or a complete copy of the tables.",
    ),
]
Seconds = Annotated[int, option("--seconds", "Maximum seconds to wait for the authorizers.", "N")]

Report = Callable[[str], None]

# Covers the jitter of heartbeats, and authorizers that fail closed after one minute.
SECONDS_DEFAULT = 180


class Unhealthy(RescindError):
    """The doctor found a problem."""


def register(root: typer.Typer) -> None:
    """Add the commands."""
    for name, example, function in (
        ("doctor", "rescind doctor --data .data", examine),
        ("recover", "rescind recover acme --data .data", recover),
        ("mark-restored", "rescind mark-restored", mark_restored),
        ("upgrade", "rescind upgrade --data .data", upgrade),
        ("canary", "rescind canary acme --seconds 60", run_canary),
    ):
        operator_command(root, name, example=example)(function)


def examine(operator: Operator) -> None:
    """Print each finding and its remedy. Exits with 1 if there is a problem.

    Remarks are printed too but do not affect the exit code. They report possible operator choices.
    """
    _warn_of_old_admin_key(operator)
    findings = list(doctor.examine(operator.ports, operator.out.print_message))
    for each in findings:
        kind = " (remark)" if each.is_remark else ""
        operator.out.print_message(f"{each.subject}{kind}: {each.problem}\n  → {each.remedy}")
    if problems := sum(not each.is_remark for each in findings):
        raise Unhealthy(f"{problems} problem(s) found")
    operator.out.print_message("No problem was found." if findings else "All is well.")


def _warn_of_old_admin_key(operator: Operator) -> None:
    """Print a warning if the first admin key's file is old and the key is still valid."""
    if operator.data is None or not (path := operator.data / "admin.key").exists():
        return
    written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    if (age := operator.ports.now() - written) < _ADMIN_KEY_AGE_MAX:
        return
    with suppress(RescindError):
        secret = path.read_text(encoding="ascii", errors="replace").strip()
        api_keys.authenticate(operator.ports, secret)
        operator.out.print_message(f"{path} is {age.days} days old, and its key is still valid.")
        operator.out.print_message(
            "  → create the keys that you need, revoke this one, and delete the file"
        )


def upgrade(operator: Operator) -> None:
    """Lock out earlier releases. Run this after all processes are updated."""
    deployment.mark_schema(operator.ports)
    # Record the identity of these tables, which detects replaced tables later.
    restored.are_other_tables(operator.ports)
    operator.out.print_message(f"The data has schema {SCHEMA}. Earlier releases refuse to use it.")


def recover(
    operator: Operator,
    tenant: Handle,
    signer: Signers = None,
    complete_review: CompleteReview = False,
    trust_version: TrustVersion = 0,
) -> int:
    """Re-apply revocations from the newest SRL after a restore, and publish.

    Exit code 3: recovered, but some changes since the restored moment are unknown. Review what the
    command lists, then run it again with --complete-review.
    """
    recovered = recovery.recover(
        operator.ports,
        operator.caller(tenant),
        report=operator.out.print_message,
        trusted_keys=signer or [],
        reviewed=complete_review,
        trust_version=trust_version,
    )
    head = recovered.head
    operator.out.print_message(f"Published version {head.version} with {head.count} warrants.")
    if recovered.locked_out:
        operator.out.print_message(
            f"No admin key is left; to create one, run: rescind admin-key {tenant}"
        )
    return ExitCode.UNKNOWN if recovered.unknown else ExitCode.DONE


def mark_restored(operator: Operator, no_data_loss: NoDataLoss = False) -> None:
    """Mark all tenants as restored, after you restored the store by other means than `restore`.

    Then run `recover` for each tenant. With --no-data-loss, mark no tenant; record that the new
    tables or their server contain every acknowledged change.
    """
    if no_data_loss:
        deployment.note_tables(operator.ports)
        operator.out.print_message("Recorded that these tables contain every acknowledged change.")
        return
    restored.mark(operator.ports, copied_at=None)
    deployment.note_tables(operator.ports)
    operator.out.print_message("Marked as restored. Before you start a server, run:")
    for each in tenants.directory(operator.ports):
        operator.out.print_message(f"  rescind recover {each.handle}")


def run_canary(operator: Operator, tenant: Handle, seconds: Seconds = SECONDS_DEFAULT) -> None:
    """Measure the seconds from a revocation until all registered authorizers refuse it."""
    taken = measure(
        operator.ports, operator.caller(tenant), seconds, report=operator.out.print_message
    )
    operator.out.show({"seconds": round(taken, 1)}, f"{taken:.1f}")


class NotComplete(RescindError):
    """Some registered authorizers are not known to refuse the canary."""


def measure(ports: Ports, caller: Caller, seconds: int, *, report: Report) -> float:
    """Revoke a canary, wait up to `seconds` for the authorizers, and restore it.

    Returns the time to deny, in seconds. Raises `NotComplete` if some authorizers are not known to
    refuse the canary.
    """
    if not any(True for _ in registry.registrations(ports, caller.tenant_id)):
        raise NotComplete("no authorizer is registered; there is nothing to measure.")
    try:
        with registry.canary(ports, caller) as record:
            report(f"Revoked {record.warrant_id} ({record.id}).")
            last_line = ""
            for passed, progress in registry.watch(ports, caller, record.id, seconds=seconds):
                published, propagation = progress.traced.published, progress.propagation
                line = f"not in the feed yet; {propagation.total} authorizers are registered."
                if published is not None:
                    line = (
                        f"feed entry {published.sequence}; {propagation.enforced} of "
                        f"{propagation.total} enforce it, {propagation.fail_closed} fail closed, "
                        f"{propagation.unknown} unknown."
                    )
                if line != last_line:
                    last_line = line
                    report(f"{passed:6.1f} s: {line}")
        report(f"Unrevoked {record.warrant_id}.")
    except KeyboardInterrupt:
        raise NotComplete("interrupted; the canary is unrevoked.") from None
    propagation = progress.propagation
    if not propagation.is_complete:
        for each in propagation.lagging_authorizers:
            authorizer, sequence = each.authorizer, each.authorizer.sequence
            entry = "no entry" if sequence is None else f"entry {sequence}"
            report(f"  {each.enforcement}: {authorizer.name} ({authorizer.id}) has {entry}.")
        raise NotComplete(f"{propagation.unknown} authorizer(s) unknown after {passed:.1f} s")
    return passed
