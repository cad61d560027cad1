"""Consistency of revocations: warrant state, shard entry, revocation record, counters.

If any of them shows that a warrant is revoked, the repair revokes it (CHECK-2).
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from shared.capabilities.inconsistency import Inconsistency, RepairEvent
from shared.model import identifiers, warrants
from shared.model import revocations as model
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import identity
from shared.model.items import Partition
from shared.model.lists import schedule
from shared.model.records import moment
from shared.model.revocations import LOST, Revocation, RevokedWarrant
from shared.model.warrants import WarrantState
from shared.operations.base import counters, tenants
from shared.operations.lists import marks
from shared.operations.lists import records as srl_records
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Increment, Put, expect_version

_BATCH = 1000


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield inconsistencies of the tenant's revocations. Raises `DataCorrupt`, `Unavailable`."""
    # The identifiers of revocations by warrant. A marked warrant may have none.
    records: dict[str, list[str]] = {}
    for partition in model.records(tenant_id):
        for entry in ports.store.query(partition):
            records.setdefault(Revocation.from_item(entry.item).warrant_id, []).append(entry.sk)
    for partition in schedule.warrant_marks(tenant_id):
        for entry in ports.store.query(partition):
            records.setdefault(entry.sk, [])
    shards = model.shards(tenant_id)
    by_shard: dict[Partition, set[str]] = {shard: set() for shard in shards}
    for warrant_id in records:
        by_shard[model.shard_of(tenant_id, warrant_id)].add(warrant_id)
    for index, shard in enumerate(shards):
        yield from _check_shard(ports, tenant_id, index, by_shard[shard], records)


def _check_shard(
    ports: Ports,
    tenant_id: str,
    index: int,
    warrant_ids: set[str],
    records: Mapping[str, list[str]],
) -> Iterator[Inconsistency]:
    """Check the counters of a shard, and find torn writes to its warrants and `warrant_ids`."""
    shard = model.shards(tenant_id)[index]
    before = counters.of_shard(ports, shard)["count"]
    pages = ports.store.column(shard, "ends_at", after=identifiers.BEFORE_WARRANT_IDS)
    ends = {name: moment(page.values.get(name), "ends_at") for page in pages for name in page.names}
    ends.update(srl_records.read_ended(ports, shard))
    # Otherwise revocations were created or deleted during the check.
    if counters.of_shard(ports, shard)["count"] == before != len(ends):
        counter = model.repaired_counter_address(shard)
        amounts = {"count": len(ends) - before, "changes": 1}
        yield Inconsistency(
            f"the counters of {counter.pk} count {before} revoked warrants, but there are "
            f"{len(ends)}",
            (Increment(counter, amounts, Expect.ANYTHING),),
            RepairEvent(AuditAction.REVOCATION_REPAIR, f"shard/{index}", {"shard": index}),
        )
    rest = iter(sorted(ends.keys() | warrant_ids))
    while batch := list(islice(rest, _BATCH)):
        addresses = {each: warrants.warrant_address(tenant_id, each) for each in batch}
        items = ports.store.get_many(addresses.values())
        for warrant_id, address in addresses.items():
            standing = WarrantState.of(items.get(address))
            own = [standing.revocation_id] if standing.revocation_id else []
            is_whole = (warrant_id in ends) == bool(own) and records.get(warrant_id, []) == own
            if not is_whole or ends.get(warrant_id, standing.end) != standing.end:
                yield from _check_warrant(ports, tenant_id, warrant_id, records.get(warrant_id, []))


def _read_listed(ports: Ports, tenant_id: str, warrant_id: str) -> RevokedWarrant | None:
    """Read the entry of a warrant in its shard, or in the partition of expired warrants."""
    shard = model.shard_of(tenant_id, warrant_id)
    item = ports.store.get(shard.address(warrant_id))
    if item is not None:
        return RevokedWarrant.from_item(item)
    moved = (at for each, at in srl_records.read_ended(ports, shard) if each == warrant_id)
    return next((RevokedWarrant(at) for at in moved), None)


def _check_warrant(
    ports: Ports, tenant_id: str, warrant_id: str, record_ids: list[str]
) -> Iterator[Inconsistency]:
    """Read the records of one warrant again, and yield a repair that revokes it in all of them."""
    address = warrants.warrant_address(tenant_id, warrant_id)
    standing = WarrantState.of(ports.store.get(address))
    listed = _read_listed(ports, tenant_id, warrant_id)
    named = {*record_ids, *([standing.revocation_id] if standing.revocation_id else [])}
    items = ports.store.get_many(model.record_address(tenant_id, each) for each in named)
    records = {key: Revocation.from_item(item) for key, item in items.items()}
    by_age = sorted(records.values(), key=lambda r: r.id)
    if not by_age and not standing.revocation_id and listed is None:
        return
    record = _choose_record(ports, tenant_id, warrant_id, standing, by_age)
    ends = None if listed is None else listed.ends_at
    revoked = standing
    if not standing.revocation_id:
        revoked = standing.with_revocation(
            record.id,
            at=record.created_at,
            reason=record.reason,
            ends_at=None if standing.ends_at else ends,
        )
    has_other_end = listed is not None and ends != revoked.end
    flaws = {
        "the check lacks it": not standing.revocation_id,
        "SRLs lack it": listed is None,
        "its record is missing": record not in by_age,
        "it has several records": any(each.id != record.id for each in by_age),
        "SRLs have another expiry": has_other_end,
    }
    missing = [name for name, applies in flaws.items() if applies]
    if not missing:
        return
    changes: list[Change] = [Put(address, revoked.to_item(), expect_version(standing.version))]
    if listed is None or has_other_end:
        # Its earlier expiry may have moved the warrant out of its shard.
        place = model.shard_of(tenant_id, warrant_id).address(warrant_id)
        changes.append(Put(place, RevokedWarrant(revoked.end).to_item(), Expect.ANYTHING))
        if ends is not None:
            moved = srl_records.ended_address(tenant_id, warrant_id, ends)
            changes.append(Delete(moved, Expect.ANYTHING))
    if record not in by_age:
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


def _choose_record(
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
