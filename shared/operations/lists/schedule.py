"""Find the tenants that are due for an SRL (docs/adr/11).

This module must not import the code that builds an SRL.
"""

import logging
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Final

from shared.errors import DataCorrupt
from shared.model import times
from shared.model.items import ItemRow
from shared.model.lists import schedule as model
from shared.model.lists.schedule import PublicationDeadline
from shared.operations.base import tenants
from shared.operations.lists import marks
from shared.ports import Ports

# The minutes between two surveys of all tenants by the scheduler.
_SURVEYED_EVERY: Final = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DueTenants:
    """The tenants that may be due for an SRL, most urgent first, with two counts of SRLs.

    An SRL issued in the future counts as late, because verifiers reject it (VERIFY-1). An expired
    SRL counts as late and as expired.
    """

    tenant_ids: list[str]
    late: int
    expired: int = 0


def read_due_tenants(ports: Ports) -> DueTenants:
    """Return the tenants with an SRL that may be due.

    An SRL is due if it was issued in the future, has reached half its lifetime, or has changes.
    Reads as many items as there are due tenants. The result may contain tenants that are not due,
    but never misses a due tenant. If an item that names tenants is damaged, it contains all
    tenants, and one SRL counts as late. Raises `Unavailable`.
    """
    try:
        now = ports.now()
        # The publication deadlines do not reveal SRLs that were issued in the future, because
        # lifetimes differ. In the order of issue times, these SRLs come last.
        future = model.upper_bound(now + times.CLOCK_TOLERANCE)
        ahead, passed = ports.gather(
            lambda: list(ports.store.query(model.ISSUES, after=future)),
            lambda: list(ports.store.query(model.TURNS, before=model.upper_bound(now))),
        )
        tenant_ids = [model.tenant_of(row.sk) for row in chain(ahead, passed)]
        tenant_ids += marks.read_ready_tenants(ports)
        late, expired = len(ahead), 0
        for row in passed:
            deadline = parse_deadline(row)
            # A damaged deadline of one tenant must not delay the others. It counts as a late SRL.
            late += deadline is None or deadline.is_late(now)
            expired += deadline is not None and deadline.expires_at <= now
        return DueTenants(list(dict.fromkeys(tenant_ids)), late, expired)
    except DataCorrupt:
        _log.exception("cannot read which tenants are due; checking all tenants")
    return DueTenants(list(tenants.identifiers(ports)), late=1)


def read_oldest_issue_time(ports: Ports) -> datetime | None:
    """Return the issue time of the oldest current SRL. Raises `DataCorrupt`, `Unavailable`."""
    first = list(ports.store.query(model.ISSUES, limit=1))
    return times.parse(first[0].sk.partition("#")[0]) if first else None


def parse_deadline(entry: ItemRow) -> PublicationDeadline | None:
    """Parse a row of `TURNS`. Logs an error and returns None if it is not valid."""
    try:
        return PublicationDeadline.from_item(entry.item)
    except DataCorrupt:
        _log.exception("cannot read the publication deadline %s", entry.sk)
        return None


def is_survey_due(now: datetime) -> bool:
    """Return whether a scheduler run in this minute surveys all tenants."""
    return now.minute % _SURVEYED_EVERY == 0
