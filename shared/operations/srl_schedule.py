"""Who is due for a list (docs/adr/0016). Loads nothing of what makes one."""

import logging
from dataclasses import dataclass
from datetime import datetime

from shared.errors import Corrupt
from shared.model import srl_schedule as model
from shared.model.items import Entry
from shared.model.srl_schedule import Turn
from shared.operations import srl_marks
from shared.ports import Ports

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Due:
    """Tenants whose list may be due, each once, the most urgent first; how many lists are late."""

    tenant_ids: list[str]
    late: int


def due(ports: Ports) -> Due:
    """Who is due: half of the list's lifetime has passed, or something changed since it was made.

    Reads as many items as there are tenants due. A tenant may be named in vain, never left out.
    """
    now = ports.now()
    passed = list(ports.store.query(model.TURNS, before=model.turns_until(now)))
    named = dict.fromkeys(model.tenant_of_turn(entry.sk) for entry in passed)
    named |= dict.fromkeys(srl_marks.marked(ports))
    return Due(list(named), late=sum(_is_late(entry, now) for entry in passed))


def _is_late(entry: Entry, now: datetime) -> bool:
    try:
        return Turn.from_item(entry.item).is_late(now)
    except Corrupt:
        # One tenant's broken turn must not hold back the others; it is told as a late list.
        _log.exception("the turn %s cannot be read", entry.sk)
        return True
