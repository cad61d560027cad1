"""Publishing on time: who is due, and the publication of one who may be (docs/adr/0016)."""

import logging
from dataclasses import dataclass, field

from shared.model import srl_schedule as model
from shared.model.callers import Caller
from shared.model.srl_schedule import Turn
from shared.operations import publication, srl_marks, tenants
from shared.operations.operation import settle
from shared.ports import Ports

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Due:
    """Tenants whose list may be due, each once, the most urgent first; how many lists are late."""

    tenant_ids: list[str]
    late: int


@dataclass(frozen=True, slots=True)
class Tick:
    """What one run in this process did, as tenant identifiers."""

    published: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def due(ports: Ports) -> Due:
    """Who is due: half of the list's lifetime has passed, or something changed since it was made.

    Reads as many items as there are tenants due. A tenant may be named in vain, never left out.
    """
    now = ports.now()
    turns = ports.store.query(model.TURNS, before=model.turns_until(now))
    passed = [Turn.from_item(entry.item) for entry in turns]
    named = dict.fromkeys(turn.tenant_id for turn in passed)
    named |= dict.fromkeys(srl_marks.marked(ports))
    return Due(list(named), late=sum(turn.is_late(now) for turn in passed))


def publish_if_due(ports: Ports, tenant_id: str) -> bool:
    """Publish for one tenant unless its list is as it should be; whether it was published.

    Twice, or twice at once, is harmless. Raises `Unavailable` where it could not be published.
    """
    # Before anything else: what is marked from here on keeps its mark.
    marks = srl_marks.marks_of(ports, tenant_id)
    handle = tenants.settings(ports, tenant_id).handle
    caller = Caller.inside(tenant_id, name="schedule", handle=handle)

    def attempt() -> bool:
        if not _is_due(ports, tenant_id):
            return False
        publication.publish(ports, caller)
        return True

    published = settle(attempt)
    srl_marks.clear(ports, marks)
    return published


def publish_due(ports: Ports) -> Tick:
    """Publish for every tenant that is due, in this process; one that fails holds back no other."""
    tick = Tick()
    for tenant_id in due(ports).tenant_ids:
        try:
            if publish_if_due(ports, tenant_id):
                tick.published.append(tenant_id)
        except Exception:  # noqa: BLE001 (what stops one tenant must not stop the rest)
            _log.exception("the list of tenant %s could not be published", tenant_id)
            tick.failed.append(tenant_id)
    return tick


def _is_due(ports: Ports, tenant_id: str) -> bool:
    head = publication.current(ports, tenant_id)
    if Turn.after(head, tenant_id).due_at <= ports.now():
        return True
    return publication.count_changes(ports, tenant_id) != head.changes
