"""Who is due for a list (docs/adr/0016). Loads nothing of what makes one."""

from dataclasses import dataclass

from shared.model import srl_schedule as model
from shared.model.srl_schedule import Turn
from shared.operations import srl_marks
from shared.ports import Ports


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
    turns = ports.store.query(model.TURNS, before=model.turns_until(now))
    passed = [Turn.from_item(entry.item) for entry in turns]
    named = dict.fromkeys(turn.tenant_id for turn in passed)
    named |= dict.fromkeys(srl_marks.marked(ports))
    return Due(list(named), late=sum(turn.is_late(now) for turn in passed))
