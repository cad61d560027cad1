"""Which tenants are due for a list (docs/adr/11). Must not import what makes a list."""

import logging
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from shared.errors import DataCorrupt
from shared.model import times
from shared.model.items import ItemRow
from shared.model.lists import schedule as model
from shared.model.lists.schedule import PublicationDeadline
from shared.operations.base import tenants
from shared.operations.lists import marks
from shared.ports import Ports

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DueTenants:
    """Tenants whose list may be due, each once, the most urgent first; and two numbers of lists.

    A list that was issued in the future counts as late, because verifiers reject it (VERIFY-1).
    An expired list counts as late and as expired.
    """

    tenant_ids: list[str]
    late: int
    expired: int = 0


def read_due_tenants(ports: Ports) -> DueTenants:
    """Return the tenants whose list was issued in the future, is half its lifetime old or changed.

    Reads as many items as there are tenants due. The result may contain tenants that are not due,
    but never misses one that is. If an item that names tenants is damaged, these are all tenants,
    and a list counts as late. Raises `Unavailable`.
    """
    try:
        return _read_due_tenants(ports)
    except DataCorrupt:
        _log.exception("it cannot be read which tenants are due; all are looked at")
    return DueTenants(list(tenants.identifiers(ports)), late=1)


def _read_due_tenants(ports: Ports) -> DueTenants:
    now = ports.now()
    # Turns do not show which lists were issued in the future, because lifetimes differ. In the
    # order of issue times these lists come last.
    future = model.upper_bound(now + times.CLOCK_TOLERANCE)
    ahead, passed = ports.gather(
        lambda: list(ports.store.query(model.ISSUES, after=future)),
        lambda: list(ports.store.query(model.TURNS, before=model.upper_bound(now))),
    )
    named = dict.fromkeys(model.tenant_of(entry.sk) for entry in chain(ahead, passed))
    named |= dict.fromkeys(marks.read_ready_tenants(ports))
    late, expired = len(ahead), 0
    for entry in passed:
        read = parse_deadline(entry)
        # A broken turn of one tenant must not delay the others; it counts as a late list.
        late += read is None or read.is_late(now)
        expired += read is not None and read.expires_at <= now
    return DueTenants(list(named), late, expired)


def read_oldest_issue_time(ports: Ports) -> datetime | None:
    """Return when the oldest list in force was issued. Raises `DataCorrupt`, `Unavailable`."""
    first = list(ports.store.query(model.ISSUES, limit=1))
    return times.parse(first[0].sk.partition("#")[0]) if first else None


def parse_deadline(entry: ItemRow) -> PublicationDeadline | None:
    """Parse a row of `TURNS`; log an error and return None if it is not valid."""
    try:
        return PublicationDeadline.from_item(entry.item)
    except DataCorrupt:
        _log.exception("the turn %s cannot be read", entry.sk)
        return None
