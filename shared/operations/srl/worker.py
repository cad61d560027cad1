"""Publication for tenants that may be due, one after another (docs/adr/0016)."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from shared.errors import Corrupt, Unavailable
from shared.model.callers import Caller
from shared.model.items import Address, Table
from shared.model.srl.schedule import Turn, is_of_keys
from shared.operations.rules import counters, tenants
from shared.operations.rules.operation import settle
from shared.operations.srl import ended, in_force, marks, publication, schedule
from shared.operations.srl.content import Found
from shared.operations.srl.snapshot import Snapshot
from shared.ports import Ports
from shared.ports.store import At

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tick:
    """The result of one run: identifiers of published tenants, and errors by tenant identifier."""

    published: list[str] = field(default_factory=list)
    failed: dict[str, Exception] = field(default_factory=dict)


def publish_if_due(ports: Ports, tenant_id: str) -> bool:
    """Publish a tenant's list if it is due; return whether it was published.

    Repeated and concurrent calls are harmless. Raises `Corrupt`, `Unavailable` if it fails.
    """
    # Read first: a mark that is set from here on stays.
    on_tenant = marks.of_tenant(ports, tenant_id)
    # A list from all records finds changes that were in flight when the last list was made.
    now = ports.now()
    anew = any(is_of_keys(key) and mark.is_over(now) for key, mark in on_tenant.items())
    handle = tenants.settings(ports, tenant_id).handle
    caller = Caller.inside(tenant_id, name="schedule", handle=handle)

    def attempt() -> bool:
        if not (anew or _is_due(ports, tenant_id) or _is_marked(ports, tenant_id)):
            return False
        publication.publish(ports, caller, anew=anew, tidy=partial(tidy, ports))
        return True

    published = settle(attempt)
    marks.see(ports, on_tenant)
    return published


def publish_due(ports: Ports, *, until: Callable[[], bool] = lambda: False) -> Tick:
    """Publish for every tenant that is due, in this process; a failure does not stop the others.

    Stops before the next tenant if `until` returns true. Raises `Unavailable` if the due tenants
    cannot be read.
    """
    tick = Tick()
    for tenant_id in schedule.due(ports).tenant_ids:
        if until():
            break
        try:
            if publish_if_due(ports, tenant_id):
                tick.published.append(tenant_id)
        except Exception as error:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            tick.failed[tenant_id] = error
    return tick


def tidy(ports: Ports, snapshot: Snapshot, found: Found) -> None:
    """Remove the marks that the list covers, and move warrants that ended long ago."""
    tenant_id, since = snapshot.tenant_id, snapshot.listed_since
    try:
        marks.clear(ports, tenant_id, snapshot.cleared, revoked=found.revoked)
        if found.misplaced:
            ended.move(ports, tenant_id, found.misplaced, since=since)
    except Unavailable:
        # The list is published. The next publication processes the same warrants again.
        _log.warning("marks could not be removed, or what ended be moved", exc_info=True)


def _is_due(ports: Ports, tenant_id: str) -> bool:
    head, now = in_force.head(ports, tenant_id), ports.now()
    if head.is_ahead(now) or Turn.after(head, tenant_id).due_at <= now:
        return True
    return counters.counted(ports, tenant_id).changes != head.changes


def _is_marked(ports: Ports, tenant_id: str) -> bool:
    """Return whether a warrant has a mark that the list in force does not cover; remove the others.

    The counters do not suffice: a change may have been counted before its mark was visible.
    """
    if not marks.of_warrants(ports, tenant_id, limit=1):
        return False
    _clear_left(ports, tenant_id)
    return bool(marks.of_warrants(ports, tenant_id, limit=1))


def _clear_left(ports: Ports, tenant_id: str) -> None:
    """Remove the marks that the list in force covers. Raises `Unavailable`.

    The state has their versions as read before the list was made. A mark that was set later has
    another version and stays.
    """
    head, signer = in_force.head_and_signer(ports, tenant_id)
    try:
        left = in_force.state(ports, head, signer).marks
    except Corrupt:
        _log.exception("the state of the list in force cannot be read; the next list has its marks")
        return
    read = {Address(Table.REVOCATIONS, each.pk, each.warrant_id): At(each.version) for each in left}
    revoked = {each.warrant_id for each in left if each.revoked}
    marks.clear(ports, tenant_id, read, revoked=revoked)
