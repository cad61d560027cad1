"""Revocations: create, list, get, delete; and the check of warrants by live records (CHECK-1)."""

from collections.abc import Iterable
from datetime import datetime
from functools import partial

from shared.errors import InvalidRequest, NotFound
from shared.model import revocations as model
from shared.model import times, warrants
from shared.model.audit_log import Action
from shared.model.callers import Caller, Scope
from shared.model.identifiers import REVOCATION, is_identifier
from shared.model.items import Partition, Value
from shared.model.revocations import Revocation, RevokedWarrant, Verdict
from shared.model.tenants import TenantSettings
from shared.model.warrant_format import Format
from shared.model.warrants import Standing
from shared.operations.rules import audit, counters, tenants
from shared.operations.rules.operation import operation
from shared.operations.rules.paging import Page, merged
from shared.operations.rules.verdicts import verdicts
from shared.operations.srl import ended, marks, reach
from shared.operations.srl.reach import Reach
from shared.ports import Ports
from shared.ports.store import Address, At, Delete, Expect, Increment, Put


@operation(Scope.ADMIN)
def create(
    ports: Ports,
    caller: Caller,
    *,
    warrant_id: str,
    reason: str,
    warrant_expires_at: datetime | None = None,
) -> tuple[Revocation, bool]:
    """Revoke a warrant; return the revocation, and whether it is new.

    `warrant_expires_at` says when the warrant itself expires; one lifetime of a list later it
    leaves the list (REVOKE-3). If the warrant is revoked already, its first revocation is returned
    unchanged (REVOKE-2). Raises `InvalidRequest` if `warrant_expires_at` differs from a signed end
    or is earlier than any warrant.
    """
    standing, settings = ports.gather(
        lambda: _standing(ports, caller, warrant_id),
        lambda: tenants.settings(ports, caller.tenant_id),
    )
    existing = _existing(ports, caller, standing)
    if existing is not None:
        return existing, False
    _check_end(standing, warrant_expires_at)
    record = Revocation(ports.new_id(REVOCATION), warrant_id, reason, ports.now(), caller.identity)
    revoked = standing.revoked(
        record.id, at=record.created_at, reason=reason, ends_at=warrant_expires_at
    )
    shard = model.shard_of(caller.tenant_id, warrant_id)
    ports.store.write(
        Put(
            warrants.warrant_address(caller.tenant_id, warrant_id),
            revoked.to_item(),
            At(standing.version) if standing.version else Expect.ABSENT,
        ),
        Put(shard.address(warrant_id), RevokedWarrant(revoked.end).to_item(), Expect.ABSENT),
        Put(model.record_address(caller.tenant_id, record.id), record.to_item(), Expect.ABSENT),
        _counted(caller, warrant_id, 1),
        marks.on_tenant(caller.tenant_id, warrant_id),
        marks.on_warrant(caller.tenant_id, warrant_id),
        _entry(ports, caller, Action.REVOCATION_CREATE, record, settings, **_said(revoked)),
    )
    return record, True


@operation(Scope.ADMIN)
def delete(ports: Ports, caller: Caller, *, revocation_id: str) -> None:
    """Delete a revocation, so that its warrant is valid again (REVOKE-4). Raises `NotFound`."""
    (address, record), settings = ports.gather(
        lambda: _find(ports, caller, revocation_id),
        lambda: tenants.settings(ports, caller.tenant_id),
    )
    standing = _standing(ports, caller, record.warrant_id)
    ports.store.write(
        Delete(address, Expect.PRESENT),
        _restored(warrants.warrant_address(caller.tenant_id, record.warrant_id), standing),
        *_unlisted(caller.tenant_id, record.warrant_id, standing.end),
        _counted(caller, record.warrant_id, -1),
        marks.on_tenant(caller.tenant_id, record.warrant_id),
        marks.on_warrant(caller.tenant_id, record.warrant_id),
        _entry(
            ports,
            caller,
            Action.REVOCATION_DELETE,
            record,
            settings,
            created_at=times.text(record.created_at),
            created_by=record.created_by,
            **_said(standing),
        ),
    )


@operation(Scope.ADMIN)
def page(ports: Ports, caller: Caller, *, before: str | None, limit: int) -> Page[Revocation]:
    """Return a page of the tenant's revocations, newest first (REVOKE-6)."""
    shards = model.shards(caller.tenant_id)
    found, total = merged(
        ports,
        model.records(caller.tenant_id),
        before=before,
        limit=limit + 1,
        beside=[partial(_count, ports, shard) for shard in shards],
    )
    entries = [Revocation.from_item(entry.item) for entry in found[:limit]]
    return Page(entries, total, entries[-1].id if len(found) > limit else None)


@operation(Scope.ADMIN)
def get(ports: Ports, caller: Caller, *, revocation_id: str) -> tuple[Revocation, Reach]:
    """Return a revocation, and how far it has got (REVOKE-8). Raises `NotFound`."""
    found = record(ports, caller, revocation_id=revocation_id)
    return found, reach.of_revocation(ports, caller.tenant_id, found)


def record(ports: Ports, caller: Caller, *, revocation_id: str) -> Revocation:
    """Read a revocation of the caller's tenant. Raises `NotFound`."""
    return _find(ports, caller, revocation_id)[1]


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def check(ports: Ports, caller: Caller, *, warrant_id: str) -> Verdict:
    """Return whether a warrant is revoked, by live records (CHECK-1); an unknown one is not.

    Raises `Corrupt`, `Unavailable`: a fault is never reported as "not revoked".
    """
    return verdicts(ports, caller.tenant_id, [warrant_id])[warrant_id]


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def check_batch(ports: Ports, caller: Caller, *, warrant_ids: Iterable[str]) -> dict[str, Verdict]:
    """Return the verdict on each warrant, as `check` does."""
    return verdicts(ports, caller.tenant_id, warrant_ids)


def _standing(ports: Ports, caller: Caller, warrant_id: str) -> Standing:
    return Standing.of(ports.store.get(warrants.warrant_address(caller.tenant_id, warrant_id)))


def _check_end(standing: Standing, said: datetime | None) -> None:
    """Raise `InvalidRequest` if `said` differs from the end that verifiers read in the warrant."""
    if said is None:
        return
    if said < model.EARLIEST_END:
        raise InvalidRequest(
            f"warrant_expires_at: must not be before {times.text(model.EARLIEST_END)}."
        )
    if standing.format is Format.COSE and said != standing.ends_at:
        raise InvalidRequest(
            "warrant_expires_at: is not what was signed; leave it out for this warrant."
        )


def _existing(ports: Ports, caller: Caller, standing: Standing) -> Revocation | None:
    if standing.revocation_id is None:
        return None
    found = _at(ports, caller, standing.revocation_id)
    # If the revocation was deleted between the two reads, the warrant is not revoked.
    return found[1] if found else None


def _count(ports: Ports, shard: Partition) -> int:
    return counters.of_shard(ports, shard)["count"]


def _counted(caller: Caller, warrant_id: str, amount: int) -> Increment:
    counter = model.counter_address(caller.tenant_id, warrant_id)
    # A revocation of an earlier release was added to another counter; only the sum is read.
    return Increment(counter, {"count": amount, "changes": 1}, Expect.ANYTHING)


def _restored(address: Address, standing: Standing) -> Put | Delete:
    """Remove the revocation from a standing; delete the item if the warrant was not signed here."""
    expected = At(standing.version)
    if standing.key_id is None:
        return Delete(address, expected)
    return Put(address, standing.restored().to_item(), expected)


def _unlisted(tenant_id: str, warrant_id: str, ends_at: datetime | None) -> list[Delete]:
    """Delete a warrant from its shard, and from the partition of those that ended long ago."""
    addresses = [model.shard_of(tenant_id, warrant_id).address(warrant_id)]
    if ends_at is not None:
        addresses.append(ended.address(tenant_id, warrant_id, ends_at))
    return [Delete(address, Expect.ANYTHING) for address in addresses]


def _find(ports: Ports, caller: Caller, revocation_id: str) -> tuple[Address, Revocation]:
    """Read a revocation of the caller's tenant and its address. Raises `NotFound`."""
    found = None
    # No record has a malformed identifier, and some are not valid as keys of a store.
    if is_identifier(revocation_id, kind=REVOCATION):
        found = _at(ports, caller, revocation_id)
    if found is None:
        raise NotFound
    return found


def _at(ports: Ports, caller: Caller, revocation_id: str) -> tuple[Address, Revocation] | None:
    items = ports.store.get_many(model.record_addresses(caller.tenant_id, revocation_id))
    return next(((key, Revocation.from_item(item)) for key, item in items.items()), None)


def _entry(
    ports: Ports,
    caller: Caller,
    action: Action,
    record: Revocation,
    settings: TenantSettings,
    **more: Value,
) -> Put:
    details: dict[str, Value] = {"warrant_id": record.warrant_id, "reason": record.reason}
    return audit.entry(ports, caller, action, record.id, settings=settings, **details, **more)


def _said(standing: Standing) -> dict[str, Value]:
    """Return the `warrant_expires_at` that the administrator gave, for an audit entry."""
    said = standing.said_to_end_at
    return {} if said is None else {"warrant_expires_at": times.text(said)}
