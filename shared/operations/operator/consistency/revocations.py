"""Consistency of revocations: warrant state, shard entry, revocation record, counters.

If any of them shows that a warrant is revoked, the repair revokes it (CHECK-2).
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, islice

from shared.model import identifiers, warrants
from shared.model import revocations as model
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import identity
from shared.model.items import ItemRow, Partition
from shared.model.lists import schedule
from shared.model.records import moment
from shared.model.revocations import LOST, Revocation, RevokedWarrant
from shared.model.warrants import WarrantState
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
    """Yield inconsistencies of the tenant's revocations. Raises `DataCorrupt`, `Unavailable`."""
    records = _records(ports, tenant_id)
    shards = model.shards(tenant_id)
    by_shard: dict[Partition, set[str]] = {shard: set() for shard in shards}
    for warrant_id in records:
        by_shard[model.shard_of(tenant_id, warrant_id)].add(warrant_id)
    for index, shard in enumerate(shards):
        before = counters.of_shard(ports, shard)
        listed = dict(_read_shard(ports, shard))
        yield from _check_count(ports, tenant_id, index, before["count"], len(listed))
        wanted = sorted(listed.keys() | by_shard[shard])
        yield from _check_torn_writes(ports, tenant_id, listed, wanted, records)


def _records(ports: Ports, tenant_id: str) -> _Records:
    """Read the identifiers of revocations by warrant. A marked warrant may have none."""
    found: _Records = {}
    for entry in _entries(ports, model.records(tenant_id)):
        found.setdefault(Revocation.from_item(entry.item).warrant_id, []).append(entry.sk)
    for entry in _entries(ports, schedule.warrant_marks(tenant_id)):
        found.setdefault(entry.sk, [])
    return found


def _entries(ports: Ports, partitions: Iterable[Partition]) -> Iterator[ItemRow]:
    return chain.from_iterable(ports.store.query(partition) for partition in partitions)


def _read_shard(ports: Ports, shard: Partition) -> Iterator[tuple[str, datetime | None]]:
    pages = ports.store.column(shard, "ends_at", after=identifiers.BEFORE_WARRANT_IDS)
    found = (
        (name, moment(page.values.get(name), "ends_at")) for page in pages for name in page.names
    )
    return chain(found, srl_records.read_ended(ports, shard))


def _row(ports: Ports, tenant_id: str, warrant_id: str) -> RevokedWarrant | None:
    """Read the entry of a warrant in its shard, or in the partition of expired warrants."""
    shard = model.shard_of(tenant_id, warrant_id)
    item = ports.store.get(shard.address(warrant_id))
    if item is not None:
        return RevokedWarrant.from_item(item)
    moved = (at for each, at in srl_records.read_ended(ports, shard) if each == warrant_id)
    return next((RevokedWarrant(at) for at in moved), None)


def _check_count(
    ports: Ports, tenant_id: str, index: int, before: int, number: int
) -> Iterator[Inconsistency]:
    shard = model.shards(tenant_id)[index]
    if counters.of_shard(ports, shard)["count"] != before:
        return  # Revocations were created or deleted during the check.
    if before != number:
        address = model.repaired_counter_address(shard)
        yield Inconsistency(
            f"the counters of {address.pk} count {before} revoked warrants, but there are {number}",
            (Increment(address, {"count": number - before, "changes": 1}, Expect.ANYTHING),),
            RepairEvent(AuditAction.REVOCATION_REPAIR, f"shard/{index}", {"shard": index}),
        )


def _check_torn_writes(
    ports: Ports, tenant_id: str, ends: _Ends, wanted_ids: Iterable[str], records: _Records
) -> Iterator[Inconsistency]:
    rest = iter(wanted_ids)
    while batch := list(islice(rest, _BATCH)):
        addresses = {each: warrants.warrant_address(tenant_id, each) for each in batch}
        items = ports.store.get_many(addresses.values())
        for warrant_id, address in addresses.items():
            standing = WarrantState.of(items.get(address))
            own = [standing.revocation_id] if standing.revocation_id else []
            is_whole = (warrant_id in ends) == bool(own) and records.get(warrant_id, []) == own
            if not is_whole or ends.get(warrant_id, standing.end) != standing.end:
                yield from _check_warrant(ports, tenant_id, warrant_id, records.get(warrant_id, []))


def _check_warrant(
    ports: Ports, tenant_id: str, warrant_id: str, record_ids: list[str]
) -> Iterator[Inconsistency]:
    """Read the records of one warrant again, and yield a repair that revokes it in all of them."""
    address = warrants.warrant_address(tenant_id, warrant_id)
    standing = WarrantState.of(ports.store.get(address))
    listed = _row(ports, tenant_id, warrant_id)
    named = {*record_ids, *([standing.revocation_id] if standing.revocation_id else [])}
    items = ports.store.get_many(model.record_address(tenant_id, each) for each in named)
    records = {key: Revocation.from_item(item) for key, item in items.items()}
    found = sorted(records.values(), key=lambda r: r.id)
    if not found and not standing.revocation_id and listed is None:
        return
    record = _record(ports, tenant_id, warrant_id, standing, found)
    ends = None if listed is None else listed.ends_at
    revoked = _with_revocation(standing, record, None if standing.ends_at else ends)
    missing = _missing(standing, listed, found, record)
    if listed is not None and ends != revoked.end:
        missing.append("SRLs have another expiry")
    if not missing:
        return
    changes: list[Change] = [Put(address, revoked.to_item(), expect_version(standing.version))]
    if listed is None or ends != revoked.end:
        changes += _relist_changes(tenant_id, warrant_id, ends, revoked.end)
    if record not in found:
        address = model.record_address(tenant_id, record.id)
        changes.append(Put(address, record.to_item(), Expect.ABSENT))
    changes += [Delete(key, Expect.PRESENT) for key, r in records.items() if r.id != record.id]
    details = {"warrant_id": warrant_id, "reason": record.reason}
    yield Inconsistency(
        f"the revocation of {warrant_id} is incomplete: {' and '.join(missing)}",
        (*changes, *published_again(tenant_id, warrant_id, adds=listed is None)),
        repair_event(warrant_id)
        if standing.revocation_id
        else RepairEvent(AuditAction.REVOCATION_CREATE, record.id, details),
    )


def repair_event(warrant_id: str) -> RepairEvent:
    """Return the audit entry of a change that is counted but revokes no warrant (LOG-30)."""
    shard = model.shard_number(warrant_id)
    return RepairEvent(
        AuditAction.REVOCATION_REPAIR, warrant_id, {"warrant_id": warrant_id, "shard": shard}
    )


def published_again(tenant_id: str, warrant_id: str, *, adds: bool) -> list[Change]:
    """Return writes that make the next SRL check a warrant, and with `adds` count it as revoked."""
    counter = model.counter_address(tenant_id, warrant_id)
    return [
        Increment(counter, {"count": int(adds), "changes": 1}, Expect.ANYTHING),
        marks.tenant_mark(tenant_id, warrant_id),
        marks.warrant_mark(tenant_id, warrant_id),
    ]


def _relist_changes(
    tenant_id: str, warrant_id: str, end: datetime | None, ends_at: datetime | None
) -> list[Change]:
    """Return writes that put a warrant into its shard. Its earlier expiry may have moved it out."""
    listed = model.shard_of(tenant_id, warrant_id).address(warrant_id)
    changes: list[Change] = [Put(listed, RevokedWarrant(ends_at).to_item(), Expect.ANYTHING)]
    if end is not None:
        changes.append(
            Delete(srl_records.ended_address(tenant_id, warrant_id, end), Expect.ANYTHING)
        )
    return changes


def _missing(
    standing: WarrantState,
    warrant: RevokedWarrant | None,
    revocations: list[Revocation],
    record: Revocation,
) -> list[str]:
    """Describe missing and superfluous records."""
    return [
        *([] if standing.revocation_id else ["the check lacks it"]),
        *([] if warrant is not None else ["SRLs lack it"]),
        *([] if record in revocations else ["its record is missing"]),
        *([] if all(each.id == record.id for each in revocations) else ["it has several records"]),
    ]


def _record(
    ports: Ports,
    tenant_id: str,
    warrant_id: str,
    standing: WarrantState,
    revocations: list[Revocation],
) -> Revocation:
    """Return the record to keep: the record of the warrant state, the oldest, or a new one."""
    if standing.revocation_id is None and revocations:
        return revocations[0]
    for each in revocations:
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


def _with_revocation(
    standing: WarrantState, record: Revocation, ends_at: datetime | None
) -> WarrantState:
    if standing.revocation_id:
        return standing
    return standing.with_revocation(
        record.id, at=record.created_at, reason=record.reason, ends_at=ends_at
    )
