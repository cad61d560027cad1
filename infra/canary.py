"""Measure how long a revocation takes to reach every authorizer of a tenant (docs/fleet.md)."""

from collections.abc import Callable

from shared.errors import RescindError
from shared.model.callers import Caller
from shared.operations.fleet import progress as canary
from shared.operations.fleet import propagation as registry
from shared.operations.fleet.progress import Progress
from shared.ports import Ports

Report = Callable[[str], None]

# For a fleet that reports within its spread, and authorizers that are closed after a minute.
SECONDS_DEFAULT = 180


class NotComplete(RescindError):
    """Not every authorizer is known to refuse the canary."""


def run(ports: Ports, caller: Caller, seconds: int, *, report: Report) -> float:
    """Revoke a canary, wait up to `seconds` for the fleet, restore it; return how long it took.

    Raises `NotComplete` if not every authorizer is known to refuse it.
    """
    if not any(True for _ in registry.registrations(ports, caller.tenant_id)):
        raise NotComplete("no authorizer is registered, so there is nothing to measure.")
    try:
        taken, last = _measured(ports, caller, seconds, report)
    except KeyboardInterrupt:
        raise NotComplete("interrupted; the canary is restored.") from None
    if not last.propagation.is_complete:
        for each in last.propagation.stragglers:
            found = each.authorizer
            report(f"  {each.proof}: {found.name} ({found.id}) has {_entry(found.sequence)}.")
        raise NotComplete(f"{last.propagation.unknown} authorizer(s) unknown after {taken:.1f} s")
    return taken


def _measured(
    ports: Ports, caller: Caller, seconds: float, report: Report
) -> tuple[float, Progress]:
    """Return how long it took, and what was known then."""
    with canary.canary(ports, caller) as record:
        report(f"Revoked {record.warrant_id} ({record.id}).")
        said = ""
        for passed, progress in canary.watched(ports, caller, record.id, seconds=seconds):
            if (now := _described(progress)) != said:
                said = now
                report(f"{passed:6.1f} s: {now}")
    report(f"Restored {record.warrant_id}.")
    return passed, progress


def _described(progress: Progress) -> str:
    published, found = progress.traced.published, progress.propagation
    if published is None:
        return f"not in the feed yet; {found.registered} authorizers are registered."
    return (
        f"entry {published.sequence} of the feed; {found.holding} of {found.registered} have it, "
        f"{found.closed} closed, {found.unknown} unknown."
    )


def _entry(sequence: int | None) -> str:
    return "no entry" if sequence is None else f"entry {sequence}"
