"""Who is due for a list (docs/adr/0016). Loads nothing of what makes one."""

import logging
from dataclasses import dataclass
from itertools import chain

from shared.errors import Corrupt
from shared.model import times
from shared.model.items import Row
from shared.model.srl import schedule as model
from shared.model.srl.schedule import Turn
from shared.operations.srl import marks as srl_marks
from shared.ports import Ports

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Due:
    """Tenants whose list may be due, each once, the most urgent first; how many lists are late.

    A list that was issued in the future counts as late: verifiers refuse it (VERIFY-1).
    An expired one counts as both.
    """

    tenant_ids: list[str]
    late: int
    expired: int = 0


def due(ports: Ports) -> Due:
    """Who is due: a list was issued in the future, half of its lifetime has passed, or it changed.

    Reads as many items as there are tenants due. A tenant may be named in vain, never left out.
    """
    now = ports.now()
    # A list of the future has a turn of the future, which says nothing: lifetimes differ. By the
    # times of issue such lists stand together, behind all others.
    future = model.until(now + times.CLOCK_TOLERANCE)
    ahead, passed = ports.gather(
        lambda: list(ports.store.query(model.ISSUES, after=future)),
        lambda: list(ports.store.query(model.TURNS, before=model.until(now))),
    )
    named = dict.fromkeys(model.tenant_of(entry.sk) for entry in chain(ahead, passed))
    named |= dict.fromkeys(srl_marks.marked(ports))
    late, expired = len(ahead), 0
    for entry in passed:
        read = turn(entry)
        # One tenant's broken turn must not hold back the others; it is told as a late list.
        late += read is None or read.is_late(now)
        expired += read is not None and read.expires_at <= now
    return Due(list(named), late, expired)


def turn(entry: Row) -> Turn | None:
    """The turn in an entry of `TURNS`; None if it cannot be read, which is logged."""
    try:
        return Turn.from_item(entry.item)
    except Corrupt:
        _log.exception("the turn %s cannot be read", entry.sk)
        return None
