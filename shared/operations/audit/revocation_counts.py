"""Counting the revocations of each day, in the write of the pass that seals their entries.

That write decides which entries are in the log, and each is there once. So each is counted once,
whatever fails (REVOKE-31, docs/adr/19).
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta

from shared.model import revocation_counts as model
from shared.model.audit.head import LogHead
from shared.model.callers import Caller, Scope
from shared.model.items import Item
from shared.model.records import integer
from shared.model.revocation_counts import Counts, Day
from shared.operations.audit import log
from shared.operations.base import tenants
from shared.operations.base.operation import operation
from shared.ports import Ports
from shared.ports.store import At, Change, Expect, Put


def begun(ports: Ports, tenant_id: str, log: LogHead) -> LogHead:
    """Return the head before a pass with the day from which revocations are counted.

    Raises `Unavailable`.
    """
    if log.counted_from is not None:
        return log
    created_at = tenants.settings(ports, tenant_id).created_at
    return replace(log, counted_from=model.begin(log, created_at=created_at, now=ports.now()))


def counted(ports: Ports, tenant_id: str, log: LogHead, entries: Iterable[Item]) -> list[Change]:
    """Return the changes that count the revocations in entries that are appended to `log`.

    Each expects the item that was read: the write of the pass before may be visible in part.
    Raises `Corrupt`, `Unavailable`.
    """
    sums = model.tally(entries, tenant_id=tenant_id, log=log)
    items = ports.store.get_many(sums)
    return [
        Put(
            address,
            model.added(items.get(address, {}), amounts),
            At(integer(items[address], "version")) if address in items else Expect.ABSENT,
        )
        for address, amounts in sums.items()
    ]


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
