"""How the list in force stands: its end, what waits for the next one, and when that is due."""

from dataclasses import dataclass
from datetime import datetime

from shared.model.callers import Caller, Scope
from shared.model.srl.head import Head
from shared.model.srl.schedule import due_by
from shared.operations.rules.operation import operation
from shared.operations.srl import pending
from shared.operations.srl.pending import Pending
from shared.ports import Ports


@dataclass(frozen=True, slots=True)
class ListStatus:
    """The list in force, what it lacks, and by when the schedule begins the next one.

    `feed_sequence` is the newest entry of the feed, None before the first.
    """

    head: Head
    feed_sequence: int | None
    pending: Pending
    next_due_at: datetime


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.REVOKER, Scope.AUDITOR)
def read(ports: Ports, caller: Caller) -> ListStatus:
    """Return the status of the tenant's list (SRL-21). Raises `Corrupt`, `Unavailable`."""
    head, newest, waiting = pending.read(ports, caller.tenant_id)
    sequence = None if newest is None else newest.sequence
    due_at = due_by(head, waiting.oldest_at, ports.now())
    return ListStatus(head, sequence, waiting, due_at)
