"""Publish for every tenant that is due. EventBridge calls it; it speaks no HTTP."""

from typing import Any

from shared import wiring
from shared.operations import srl


def handler(_event: dict[str, Any], _context: object) -> dict[str, list[str]]:
    """What was published, as tenant identifiers.

    Raises `ScheduleFailed` after the run where a tenant failed, so that the failure is counted and
    the run is repeated; a repeated run does no harm.
    """
    tick = srl.publish_due(wiring.from_environment())
    if tick.failed:
        raise ScheduleFailed(f"{len(tick.failed)} tenants failed, {len(tick.published)} published")
    return {"published": tick.published}


class ScheduleFailed(Exception):
    """Some tenant's list could not be published; the log says which and why."""
