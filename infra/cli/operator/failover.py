"""`rescind failover`, for operators on AWS: make the second region writable."""

import os
import re
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import boto3
import typer
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

import functions
from infra import private_files
from infra.cli.commands import format_error, local_command
from infra.cli.errors import ExitCode, UsageError, argument, option
from infra.cli.operator.maintenance import Signers
from infra.cli.operator.operators import Operator, operator_command
from infra.cli.operator.srl_publication import PublicationFailed
from infra.cli.output import Output
from shared import wiring
from shared.errors import RescindError
from shared.model import times
from shared.operations.base import tenants
from shared.operations.lists import publication
from shared.operations.operator import deployment, failover
from shared.operations.operator.failover import NOBODY
from shared.ports import Ports
from shared.settings import Settings

_EXAMPLE: Final = "rescind failover --from eu-west-1 --to eu-central-1"
_PREFIX: Final = re.compile(r"(rescind-.+-)(?:r[1-9]-)?", re.ASCII)
_COPIED_SECONDS: Final = 120.0
_LOST: Final = (
    "Before {region} serves again, delete its tables and create them again as replicas. Changes "
    "that it did not replicate would contradict {to}."
)

From = Annotated[str, option("--from", "Region to leave.", "REGION")]
To = Annotated[str, option("--to", "Region that takes over.", "REGION")]
Region = Annotated[str, argument("REGION", "AWS region.")]
SourceUnavailable = Annotated[
    bool, option("--source-unavailable", "Continue although the other region does not respond.")
]
DryRun = Annotated[bool, option("--dry-run", "Print the steps; change nothing.")]
SkippedTenants = Annotated[
    list[str] | None,
    option(
        "--skip-tenant",
        "Continue although this tenant cannot be recovered; may be repeated.",
        "TENANT",
    ),
]
Endpoint = Annotated[
    str | None, option("--from-endpoint", "AWS endpoint in the region to leave.", "URL")
]

# It has no store.
_KEPT: Final = "console"
_CONFIG: Final = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 3})


class NotRecovered(RescindError):
    """A tenant could not be recovered, so the failover stopped."""


def register(root: typer.Typer) -> None:
    """Add the commands."""
    local_command(root, "failover", example=_EXAMPLE)(fail_over)
    operator_command(root, "set-write-region", example="rescind set-write-region eu-west-1")(
        set_write_region
    )


def set_write_region(operator: Operator, region: Region) -> None:
    """Set the AWS region that writes, before you create a second one."""
    current = deployment.read_deployment(operator.ports).region
    if current not in (None, region):
        raise UsageError(f"{current} is the write region; to change it, run: rescind failover.")
    deployment.put_in_charge(operator.ports, region)
    operator.out.print_message(f"{region} is the write region.")


@dataclass(frozen=True)
class _Failover:
    """The regions of a failover, and the settings of the new region."""

    out: Output
    settings: Settings
    from_: str
    to: str
    endpoint: str | None

    @property
    def functions(self) -> list[str]:
        """The functions that must stop writing."""
        match = _PREFIX.fullmatch(self.settings.store.location)
        if match is None:
            raise UsageError("RESCIND_STORE must name the tables of a stage: dynamodb:rescind-…")
        return function_names(match[1])


def fail_over(
    out: Output,
    from_: From,
    to: To,
    source_unavailable: SourceUnavailable = False,
    dry_run: DryRun = False,
    signer: Signers = None,
    skip_tenant: SkippedTenants = None,
    from_endpoint: Endpoint = None,
) -> int:
    """Make the copy of a stage in another region writable, and publish all SRLs from there.

    Run the command with the settings of the new region. You can repeat it after an interruption.
    Exit code 3: the failover succeeded, but some changes are unknown. Review the changes that it
    prints.
    """
    settings = wiring.settings(os.environ)
    if settings.region != to or from_ == to:
        raise UsageError(
            f"set AWS_DEFAULT_REGION and RESCIND_… to the values of {to}; --from must be another "
            "region."
        )
    doing = _Failover(out, settings, from_, to, from_endpoint)
    named = doing.functions
    if dry_run:
        _print_steps(doing, source_unavailable=source_unavailable)
        return ExitCode.DONE
    with closing(wiring.assemble(settings)) as copy:
        if deployment.read_deployment(copy).region == to:
            out.print_message(f"{to} is already the write region.")
            _publish(out, copy)
            return ExitCode.DONE
        _stop_other_region(doing, named, copy, source_unavailable=source_unavailable)
        unknown = _take_over(doing, copy, signer or [], skip_tenant or [])
    if source_unavailable:
        out.print_message(_LOST.format(region=from_, to=to))
    return ExitCode.UNKNOWN if unknown else ExitCode.DONE


def _take_over(
    doing: _Failover, copy: Ports, trusted_keys: list[bytes], skipped: list[str]
) -> bool:
    """Recover the tenants, and make the region writable. Returns whether changes are unknown."""
    last_changes = [
        f"{tenant.handle}: the last replicated change is {entry.action} of "
        f"{times.format_utc(entry.timestamp)}; later acknowledged changes may be lost."
        for tenant in tenants.directory(copy)
        if (entry := failover.newest_arrived(copy, tenant.tenant_id))
    ]
    report = doing.out.print_message
    result = failover.recover(
        copy, user=private_files.name(), trusted_keys=trusted_keys, report=report
    )
    for handle, error in result.failed.items():
        report(f"{handle}: not recovered: {format_error(error)}")
    if missing := sorted(result.failed.keys() - set(skipped)):
        raise NotRecovered(
            f"{len(missing)} tenant(s) could not be recovered, so {doing.to} is not the write "
            "region. Fix the cause and repeat, or continue without them: --skip-tenant "
            f"{missing[0]}"
        )
    report(f"Recovered {len(result.recovered)} tenant(s).")
    deployment.put_in_charge(copy, doing.to)
    report(f"{doing.to} is the write region.")
    _publish(doing.out, copy)
    for line in last_changes:
        report(line)
    return any(each.unknown for each in result.recovered.values())


def _print_steps(doing: _Failover, *, source_unavailable: bool) -> None:
    steps = [
        f"Stop {len(doing.functions)} functions in {doing.from_}: {', '.join(doing.functions)}.",
        f"Fence {doing.from_}, and wait until all its writes are replicated to {doing.to}.",
        f"Recover each tenant in {doing.to}: repair partial writes, and skip ahead in the feed.",
        f"Make {doing.to} the write region, publish every SRL, and print the last changes.",
    ]
    if source_unavailable:
        steps[0] += " Continue if it does not respond."
        steps[1] = "Do not wait for replication. Changes that were not replicated are lost."
    for number, each in enumerate(steps, 1):
        doing.out.print_message(f"{number}. {each}")


def _stop_other_region(
    doing: _Failover, names: list[str], copy: Ports, *, source_unavailable: bool
) -> None:
    """Stop writes in the other region, and wait until its last writes are replicated."""
    original = replace(
        copy, store=wiring.store_in(doing.settings, doing.from_, endpoint=doing.endpoint)
    )
    try:
        stop_functions(names, region=doing.from_, endpoint=doing.endpoint)
        doing.out.print_message(f"Stopped {len(names)} functions in {doing.from_}.")
        failover.fence(original)
    except RescindError as error:
        if not source_unavailable:
            remedy = "If the region is lost, add --source-unavailable. Later changes are lost."
            raise SilentRegion(f"{format_error(error)}\n{remedy}") from None
        doing.out.print_message(f"Continuing without {doing.from_}: {error}")
    if source_unavailable:
        # When the other region returns, it reads this and does not write.
        deployment.put_in_charge(copy, NOBODY)
        return
    failover.wait_until_copied(original, copy, seconds=_COPIED_SECONDS)
    doing.out.print_message(f"All writes of {doing.from_} are replicated to {doing.to}.")


def _publish(out: Output, copy: Ports) -> None:
    tick = publication.publish_due(copy)
    for tenant_id, error in tick.failed.items():
        out.print_message(f"{tenant_id}: not published: {format_error(error)}")
    if tick.failed:
        raise PublicationFailed(
            f"{len(tick.failed)} SRL(s) could not be published; run: rescind srl publish-due"
        )


class SilentRegion(RescindError):
    """A region does not respond, or refuses."""


def function_names(prefix: str) -> list[str]:
    """Return the names of a stage's functions that have a store."""
    handlers = Path(functions.__path__[0]).glob("*/*handler.py")
    # A second entry point of a folder is named by its module, as `webhook_delivery_handler`.
    names = (
        each.parent.name if each.stem == "handler" else each.stem.removesuffix("_handler")
        for each in handlers
    )
    return [f"{prefix}{each.replace('_', '-')}" for each in sorted(names) if each != _KEPT]


def stop_functions(names: list[str], *, region: str, endpoint: str | None) -> None:
    """Set the concurrency of the functions to 0, which prevents new invocations.

    Functions that do not exist are skipped. Raises `SilentRegion` if none exists, or if AWS
    refuses.
    """
    client: Any = boto3.client("lambda", region_name=region, endpoint_url=endpoint, config=_CONFIG)
    stopped = []
    try:
        for name in names:
            # Releases differ in functions.
            with suppress(client.exceptions.ResourceNotFoundException):
                client.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=0)
                stopped.append(name)
    except (BotoCoreError, ClientError) as error:
        raise SilentRegion(f"cannot stop the functions in {region}: {error}") from None
    if not stopped:
        raise SilentRegion(f"no function of this stage exists in {region}: {', '.join(names)}.")
