"""Consistency of revocations: standing, entry in a shard, revocation record, counters.

If one of them says that a warrant is revoked, the repair revokes it (CHECK-2).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, islice

from shared.model import identifiers, warrants
from shared.model import revocations as model
from shared.model.audit.audit_log import Action
from shared.model.callers import identity
from shared.model.items import Partition, Row
from shared.model.lists import schedule
from shared.model.records import moment
from shared.model.revocations import LOST, Revocation, RevokedWarrant
from shared.model.warrants import Standing
from shared.operations.base import counters, tenants
from shared.operations.lists import marks
from shared.operations.lists import records as srl_records
from shared.operations.operator.consistency.inconsistency import Inconsistency, RepairEvent
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Increment, Put, expect_version

_BATCH = 1000

_Records = dict[str, list[str]]
_Ends = dict[str, datetime | None]


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant's revocations. Raises `Corrupt`, `Unavailable`."""
    records = _records(ports, tenant_id)
    shards = model.shards(tenant_id)
    by_shard: dict[Partition, set[str]] = {shard: set() for shard in shards}
    for warrant_id in records:
        by_shard[model.shard_of(tenant_id, warrant_id)].add(warrant_id)
    for index, shard in enumerate(shards):
        before = counters.of_shard(ports, shard)
        listed = dict(_listed(ports, shard))
        yield from _miscounted(ports, tenant_id, index, before["count"], len(listed))
        wanted = sorted(listed.keys() | by_shard[shard])
        yield from _torn(ports, tenant_id, listed, wanted, records)


def _records(ports: Ports, tenant_id: str) -> _Records:
    """Read the identifiers of revocations by warrant; a marked warrant may have none."""
    found: _Records = {}
    for entry in _entries(ports, model.records(tenant_id)):
        found.setdefault(Revocation.from_item(entry.item).warrant_id, []).append(entry.sk)
    for entry in _entries(ports, schedule.warrant_marks(tenant_id)):
        found.setdefault(entry.sk, [])
    return found


def _entries(ports: Ports, partitions: Iterable[Partition]) -> Iterator[Row]:
    return chain.from_iterable(ports.store.query(partition) for partition in partitions)


def _listed(ports: Ports, shard: Partition) -> Iterator[tuple[str, datetime | None]]:
    pages = ports.store.column(shard, "ends_at", after=identifiers.BEFORE_WARRANT_IDS)
    found = (
        (name, moment(page.values.get(name), "ends_at")) for page in pages for name in page.names
    )
    return chain(found, srl_records.ended(ports, shard))


def _row(ports: Ports, tenant_id: str, warrant_id: str) -> RevokedWarrant | None:
    """Read the entry of a warrant in its shard, or where it was moved after its end."""
    shard = model.shard_of(tenant_id, warrant_id)
    item = ports.store.get(shard.address(warrant_id))
    if item is not None:
        return RevokedWarrant.from_item(item)
    moved = (at for each, at in srl_records.ended(ports, shard) if each == warrant_id)
    return next((RevokedWarrant(at) for at in moved), None)


def _miscounted(
    ports: Ports, tenant_id: str, index: int, before: int, number: int
) -> Iterator[Inconsistency]:
    shard = model.shards(tenant_id)[index]
    if counters.of_shard(ports, shard)["count"] != before:
        return  # Revocations were created or deleted during the walk.
    if before != number:
        address = model.repaired_counter_address(shard)
        yield Inconsistency(
            f"the counters of {address.pk} have {before} revoked warrants, but there are {number}",
            (Increment(address, {"count": number - before, "changes": 1}, Expect.ANYTHING),),
            RepairEvent(Action.REVOCATION_REPAIR, f"shard/{index}", {"shard": index}),
        )


def _torn(
    ports: Ports, tenant_id: str, listed: _Ends, wanted: Iterable[str], records: _Records
) -> Iterator[Inconsistency]:
    rest = iter(wanted)
    while batch := list(islice(rest, _BATCH)):
        addresses = {each: warrants.warrant_address(tenant_id, each) for each in batch}
        items = ports.store.get_many(addresses.values())
        for warrant_id, address in addresses.items():
            standing = Standing.of(items.get(address))
            own = [standing.revocation_id] if standing.revocation_id else []
            is_whole = (warrant_id in listed) == bool(own) and records.get(warrant_id, []) == own
            if not is_whole or listed.get(warrant_id, standing.end) != standing.end:
                yield from _settled(ports, tenant_id, warrant_id, records.get(warrant_id, []))


def _settled(
    ports: Ports, tenant_id: str, warrant_id: str, record_ids: list[str]
) -> Iterator[Inconsistency]:
    """Read the records of one warrant again, and yield a repair that revokes it in all of them."""
    address = warrants.warrant_address(tenant_id, warrant_id)
    standing = Standing.of(ports.store.get(address))
    listed = _row(ports, tenant_id, warrant_id)
    named = {*record_ids, *([standing.revocation_id] if standing.revocation_id else [])}
    items = ports.store.get_many(model.record_address(tenant_id, each) for each in named)
    records = {key: Revocation.from_item(item) for key, item in items.items()}
    found = sorted(records.values(), key=lambda r: r.id)
    if not found and not standing.revocation_id and listed is None:
        return
    record = _record(ports, tenant_id, warrant_id, standing, found)
    ends = None if listed is None else listed.ends_at
    revoked = _revoked(standing, record, None if standing.ends_at else ends)
    missing = _missing(standing, listed, found, record)
    if listed is not None and ends != revoked.end:
        missing.append("lists have another end")
    if not missing:
        return
    changes: list[Change] = [Put(address, revoked.to_item(), expect_version(standing.version))]
    if listed is None or ends != revoked.end:
        changes += _relisted(tenant_id, warrant_id, ends, revoked.end)
    if record not in found:
        address = model.record_address(tenant_id, record.id)
        changes.append(Put(address, record.to_item(), Expect.ABSENT))
    changes += [Delete(key, Expect.PRESENT) for key, r in records.items() if r.id != record.id]
    details = {"warrant_id": warrant_id, "reason": record.reason}
    yield Inconsistency(
        f"the revocation of {warrant_id} is incomplete: {' and '.join(missing)}",
        (*changes, *published_again(tenant_id, warrant_id, adds=listed is None)),
        repaired(warrant_id)
        if standing.revocation_id
        else RepairEvent(Action.REVOCATION_CREATE, record.id, details),
    )


def repaired(warrant_id: str) -> RepairEvent:
    """Return the audit entry of a change that is counted and revokes nothing (LOG-30)."""
    shard = model.shard_number(warrant_id)
    return RepairEvent(
        Action.REVOCATION_REPAIR, warrant_id, {"warrant_id": warrant_id, "shard": shard}
    )


def published_again(tenant_id: str, warrant_id: str, *, adds: bool) -> list[Change]:
    """Return changes that make the next list check a warrant; if `adds`, count it as revoked."""
    counter = model.counter_address(tenant_id, warrant_id)
    return [
        Increment(counter, {"count": int(adds), "changes": 1}, Expect.ANYTHING),
        marks.on_tenant(tenant_id, warrant_id),
        marks.on_warrant(tenant_id, warrant_id),
    ]


def _relisted(
    tenant_id: str, warrant_id: str, before: datetime | None, ends_at: datetime | None
) -> list[Change]:
    """Return changes that put a warrant into its shard; the end before may have moved it out."""
    listed = model.shard_of(tenant_id, warrant_id).address(warrant_id)
    changes: list[Change] = [Put(listed, RevokedWarrant(ends_at).to_item(), Expect.ANYTHING)]
    if before is not None:
        changes.append(
            Delete(srl_records.ended_address(tenant_id, warrant_id, before), Expect.ANYTHING)
        )
    return changes


def _missing(
    standing: Standing, listed: RevokedWarrant | None, found: list[Revocation], record: Revocation
) -> list[str]:
    """Describe what is missing or superfluous."""
    return [
        *([] if standing.revocation_id else ["check does not know it"]),
        *([] if listed is not None else ["lists do not know it"]),
        *([] if record in found else ["its record is missing"]),
        *([] if all(each.id == record.id for each in found) else ["it has several records"]),
    ]


def _record(
    ports: Ports, tenant_id: str, warrant_id: str, standing: Standing, found: list[Revocation]
) -> Revocation:
    """Return the record to keep: the one that the standing names, or the oldest, or a new one."""
    if standing.revocation_id is None and found:
        return found[0]
    for each in found:
        if each.id == standing.revocation_id:
            return each
    handle = tenants.settings(ports, tenant_id).handle
    return Revocation(
        standing.revocation_id or ports.new_id(identifiers.REVOCATION),
        warrant_id,
        standing.reason or LOST,
        standing.revoked_at or ports.now(),
        identity("system+repair", handle=handle),
    )


def _revoked(standing: Standing, record: Revocation, ends_at: datetime | None) -> Standing:
    if standing.revocation_id:
        return standing
    return standing.revoked(record.id, at=record.created_at, reason=record.reason, ends_at=ends_at)
