"""Revocations: create, list, delete, and the check of live records (service.md 4.3)."""

from collections.abc import Iterable
from datetime import datetime

from shared.model import revocations as model
from shared.model import warrants
from shared.model.audit_log import Action
from shared.model.callers import Caller, Scope
from shared.model.identifiers import REVOCATION
from shared.model.revocations import Revocation, RevokedWarrant, Verdict
from shared.model.warrants import Warrant
from shared.operations import audit_log, srl_marks, tenants
from shared.operations.finding import find
from shared.operations.operation import operation
from shared.operations.paging import Page, Walk, count, newest
from shared.operations.verdicts import verdicts
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Increment, Put


@operation(Scope.ADMIN)
def create(
    ports: Ports, caller: Caller, *, warrant_id: str, reason: str
) -> tuple[Revocation, bool]:
    """Revoke a warrant: the record, and whether it is new.

    A revoked warrant keeps its first record, time and reason (decisions 1, idempotent actions).
    """
    existing = _existing(ports, caller, warrant_id)
    if existing is not None:
        return existing, False
    record = Revocation(ports.new_id(REVOCATION), warrant_id, reason, ports.now(), caller.identity)
    expires_at = _expiry(ports, caller, warrant_id)
    revoked = RevokedWarrant(record.id, reason, record.created_at, expires_at)
    shard = model.shard_of(caller.tenant_id, warrant_id)
    ports.store.write(
        Put(shard.key(warrant_id), revoked.to_item(), Expect.ABSENT),
        Put(model.records(caller.tenant_id).key(record.id), record.to_item(), Expect.ABSENT),
        Increment(model.counter_key(shard), {"count": 1, "changes": 1}, Expect.ANYTHING),
        srl_marks.mark(caller.tenant_id, warrant_id),
        _entry(ports, caller, Action.REVOCATION_CREATE, record),
    )
    return record, True


@operation(Scope.ADMIN)
def delete(ports: Ports, caller: Caller, *, revocation_id: str) -> None:
    """Take a revocation back: the warrant holds again (service.md 3). Raises `NotFound`."""
    record = _find(ports, caller, revocation_id)
    shard = model.shard_of(caller.tenant_id, record.warrant_id)
    ports.store.write(
        Delete(model.records(caller.tenant_id).key(record.id), Expect.PRESENT),
        Delete(shard.key(record.warrant_id), Expect.PRESENT),
        Increment(model.counter_key(shard), {"count": -1, "changes": 1}, Expect.PRESENT),
        srl_marks.mark(caller.tenant_id, record.warrant_id),
        _entry(ports, caller, Action.REVOCATION_DELETE, record),
    )


@operation(Scope.ADMIN)
def page(ports: Ports, caller: Caller, *, before: str | None, limit: int) -> Page[Revocation]:
    """The tenant's revocation records, newest first (service.md 4.3)."""
    partition = model.records(caller.tenant_id)
    counters = map(model.counter_key, model.shards(caller.tenant_id))
    walk = Walk(partition, Revocation.from_item, before, limit)
    return newest(ports, walk, total=lambda: count(ports, *counters))


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def check(ports: Ports, caller: Caller, *, warrant_id: str) -> Verdict:
    """Whether a warrant is revoked now, by the live records; an unknown one is not revoked.

    Raises `Unavailable` where that cannot be known: a fault is never an answer.
    """
    return verdicts(ports, caller.tenant_id, [warrant_id])[warrant_id]


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def check_batch(ports: Ports, caller: Caller, *, warrant_ids: Iterable[str]) -> dict[str, Verdict]:
    """The verdict on each warrant, as `check` gives it."""
    return verdicts(ports, caller.tenant_id, warrant_ids)


def _existing(ports: Ports, caller: Caller, warrant_id: str) -> Revocation | None:
    item = ports.store.get(model.revoked_key(caller.tenant_id, warrant_id))
    if item is None:
        return None
    record_id = RevokedWarrant.from_item(item).revocation_id
    record = ports.store.get(model.records(caller.tenant_id).key(record_id))
    # Taken back between the two reads: then it is not revoked.
    return Revocation.from_item(record) if record else None


def _expiry(ports: Ports, caller: Caller, warrant_id: str) -> datetime | None:
    item = ports.store.get(warrants.warrant_key(caller.tenant_id, warrant_id))
    return Warrant.from_item(item).expires_at if item else None


def _find(ports: Ports, caller: Caller, revocation_id: str) -> Revocation:
    records = model.records(caller.tenant_id)
    return find(ports, records, revocation_id, kind=REVOCATION, record=Revocation)


def _entry(ports: Ports, caller: Caller, action: Action, record: Revocation) -> Put:
    settings = tenants.settings(ports, caller.tenant_id)
    details = {"warrant_id": record.warrant_id}
    return audit_log.entry(ports, caller, action, record.id, settings=settings, **details)
