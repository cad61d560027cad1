"""How many warrants were revoked on each day, and how many restored (REVOKE-31)."""

from datetime import date, timedelta

from shared.model import revocation_counts as model
from shared.model.callers import Caller, Scope
from shared.model.revocation_counts import Counts, Day
from shared.operations.audit import log
from shared.operations.rules.operation import operation
from shared.ports import Ports


@operation(Scope.ADMIN, Scope.REVOKER, Scope.AUDITOR)
def by_day(ports: Ports, caller: Caller, *, start: date, end: date) -> Counts:
    """Return the numbers of the days from `start` to `end`, both included.

    A change is counted once its audit entry is sealed. Raises `Corrupt`, `Unavailable`.
    """
    days = [start + timedelta(each) for each in range((end - start).days + 1)]
    head = log.head(ports, caller.tenant_id)
    if head is None or head.counted_from is None:
        return Counts(None, [Day(each) for each in days])
    known_from = head.counted_from.date()
    places = {each: model.address(caller.tenant_id, head.generation, each) for each in days}
    items = ports.store.get_many(
        dict.fromkeys(place for each, place in places.items() if each >= known_from)
    )
    found = (
        model.day(each, items.get(place, {})) if each >= known_from else Day(each)
        for each, place in places.items()
    )
    return Counts(known_from, list(found))
