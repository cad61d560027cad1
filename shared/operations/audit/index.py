"""The index of the audit log by warrant: written by each pass, and read (LOG-26)."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import chain
from typing import Final

from shared.model import times
from shared.model.audit import audit_log
from shared.model.audit.audit_log import Action, EntryFilters
from shared.model.items import Item, Partition
from shared.operations.audit import log
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Expect, Put, Where

# The actions whose entries name several warrants.
_OF_BATCHES: Final = tuple(each for each in Action if each.endswith("_batch"))
# How far behind the newest sealed entry one may be that is not sealed yet.
_LATE_MAX: Final = timedelta(seconds=120)


def write(ports: Ports, tenant_id: str, entries: Iterable[Item]) -> None:
    """Index entries that are about to be sealed; again is harmless. Raises `Unavailable`."""
    items = chain.from_iterable(audit_log.indexed(tenant_id, each) for each in entries)
    changes = [Put(address, item, Expect.ANYTHING) for address, item in items]
    for start in range(0, len(changes), MOST_CHANGES):
        ports.store.write(*changes[start : start + MOST_CHANGES])


def entries(ports: Ports, tenant_id: str, warrant_id: str, filters: EntryFilters) -> list[Item]:
    """Return the entries about a warrant that were made in the window, newest first.

    Expired ones may be among them. Raises `Unavailable`.
    """
    partition = audit_log.entries_of(tenant_id, warrant_id)
    after, before = map(audit_log.sort_key, (filters.after, filters.before))
    rows = ports.store.query(partition, after=after, before=before)
    found = log.stored(ports, tenant_id, [audit_log.entry_id(row.sk) for row in rows])
    for item in _unsealed(ports, tenant_id, warrant_id, filters):
        found[str(item["id"])] = item
    return [found[entry_id] for entry_id in sorted(found, reverse=True)]


def _unsealed(
    ports: Ports, tenant_id: str, warrant_id: str, filters: EntryFilters
) -> Iterable[Item]:
    """Yield the entries about the warrant that may not be sealed yet, and some that are."""
    head = log.head(ports, tenant_id)
    newest = None if head is None else head.newest_ms(int(ports.now().timestamp() * 1000))
    if newest is not None:
        since = times.from_seconds(newest // 1000) - _LATE_MAX
        filters = EntryFilters(max(filters.start, since), filters.end)
    conditions = [
        Where({"details.warrant_id": warrant_id}),
        *(Where({"action": each}) for each in _OF_BATCHES),
    ]
    if filters.start > filters.end:
        return
    partitions = chain.from_iterable(each for _, each in audit_log.months(tenant_id, filters))
    for partition in partitions:
        for where in conditions:
            yield from _matching(ports, partition, where, filters, warrant_id)


def _matching(
    ports: Ports, partition: Partition, where: Where, filters: EntryFilters, warrant_id: str
) -> Iterable[Item]:
    rows = ports.store.query(partition, after=filters.after, before=filters.before, where=where)
    return (row.item for row in rows if warrant_id in audit_log.warrants_of(row.item))
