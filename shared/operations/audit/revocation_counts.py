"""Count the revocations of each day and hour, in the write that appends their entries.

That write decides which entries are in the log, each of them once. Each revocation is therefore
counted once, even after failures (REVOKE-31, docs/adr/19).
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta

from shared.capabilities import INSTALLED
from shared.errors import DataCorrupt
from shared.model import revocation_counts as model
from shared.model.audit.log_state import LogState
from shared.model.callers import Caller, Scope
from shared.model.items import Item
from shared.model.records import integer
from shared.model.revocation_counts import RevocationCount, RevocationCountSeries
from shared.operations.base import tenants
from shared.operations.base.operation import operation
from shared.ports import Ports
from shared.ports.store import Change, Expect, Put, VersionIs


def start_counting(ports: Ports, tenant_id: str, log: LogState) -> datetime:
    """Return the day from which revocations are counted, for the log before a pass.

    Raises `DataCorrupt` if a log with entries has no such day; `Unavailable`.
    """
    if log.counted_from is not None:
        return log.counted_from
    if log.size:
        raise DataCorrupt("a log head lacks the start of its counts")
    created_at = tenants.settings(ports, tenant_id).created_at
    return model.begin(created_at, ports.now())


def count_changes(
    ports: Ports, tenant_id: str, log: LogState, entries: Iterable[Item]
) -> list[Change]:
    """Return the writes that count the revocations in entries that are appended to `log`.

    Each has the item that was read as a precondition, because the previous pass may be only partly
    visible. Raises `DataCorrupt`, `Unavailable`.
    """
    sums = model.tally(entries, tenant_id=tenant_id, log=log)
    items = ports.store.get_many(sums)
    return [
        Put(
            address,
            model.add_amounts(address, items.get(address, {}), amounts),
            VersionIs(integer(items[address], "version")) if address in items else Expect.ABSENT,
        )
        for address, amounts in sums.items()
    ]


@operation(Scope.ADMIN, Scope.REVOKER, Scope.AUDITOR)
def counts(
    ports: Ports, caller: Caller, *, start: date, end: date, hourly: bool = False
) -> RevocationCountSeries:
    """Return the counts of the days from `start` to `end`, both included, or of their hours.

    A change is counted once its audit entry is in the log. Raises `DataCorrupt`, `Unavailable`.
    """
    first = datetime.combine(start, time(), UTC)
    days = [first + timedelta(each) for each in range((end - start).days + 1)]
    log = INSTALLED.log.head(ports, caller.tenant_id)
    if log is None or log.counted_from is None:
        parts = (each for day in days for each in model.parts(day, hourly=hourly))
        return RevocationCountSeries(None, [RevocationCount(each) for each in parts])
    counted_since = log.counted_from
    address_of = model.address_of_hours if hourly else model.address
    places = {each: address_of(caller.tenant_id, log.generation, each) for each in days}
    counted_days = (each for each in days if each >= counted_since)
    items = ports.store.get_many(dict.fromkeys(places[each] for each in counted_days))
    spans: list[RevocationCount] = []
    for day in days:
        item = items.get(places[day], {})
        for each in model.parts(day, hourly=hourly):
            count = model.span(each, item, hourly=hourly)
            spans.append(count if day >= counted_since else RevocationCount(each))
    return RevocationCountSeries(counted_since.date(), spans)
