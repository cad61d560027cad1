"""Publication for tenants that may be due, one after another (docs/adr/0016)."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from shared import logs
from shared.errors import Corrupt, Unavailable
from shared.model.callers import Caller
from shared.model.srl.schedule import Turn, is_of_keys
from shared.operations.rules import counters, tenants
from shared.operations.rules.operation import settle
from shared.operations.srl import ended, feed, feed_storage, in_force, marks, publication, schedule
from shared.operations.srl.content import Found
from shared.operations.srl.snapshot import Snapshot
from shared.ports import Ports

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

    # First, so that a fault in the making of the list does not delay the feed.
    caught_up = feed.publish(ports, tenant_id)
    if caught_up is not None and caught_up.entries:
        figures = {"FeedCaughtUp": caught_up.entries}
        _log.info("feed", extra=logs.fields(tenant_id=tenant_id, metrics=figures))

    def attempt() -> bool:
        if not (anew or _is_due(ports, tenant_id)):
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
    """Move warrants that ended long ago, and remove old entries of the feed that it covers."""
    tenant_id, since = snapshot.tenant_id, snapshot.listed_since
    try:
        if found.misplaced:
            ended.move(ports, tenant_id, found.misplaced, since=since)
        feed_storage.prune(ports, tenant_id, until=found.sequence)
    except (Corrupt, Unavailable):
        # The list is published. The next publication does the same again.
        _log.warning("what ended could not be moved, or old entries not removed", exc_info=True)


def _is_due(ports: Ports, tenant_id: str) -> bool:
    head, now = in_force.head(ports, tenant_id), ports.now()
    if head.is_ahead(now) or Turn.after(head, tenant_id).due_at <= now:
        return True
    newest = feed_storage.head(ports, tenant_id)
    if newest is None or (newest.sequence, newest.base.version) != (head.sequence, head.version):
        return True
    return counters.counted(ports, tenant_id).changes != head.changes
