"""Revocations: create, list, delete, and the check of live records (CHECK-1)."""

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
from shared.operations.srl import ended as srl_ended
from shared.operations.srl import marks as srl_marks
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
    """Revoke a warrant: the record, and whether it is new.

    `warrant_expires_at` is the administrator's word for when the warrant itself ends; one list
    lifetime later it leaves the list (REVOKE-3). A revoked warrant keeps its first
    record, time, reason and end (REVOKE-2). Raises `InvalidRequest` if the
    end contradicts the signed one, or is earlier than any warrant.
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
        srl_marks.on_tenant(caller.tenant_id, warrant_id),
        srl_marks.on_warrant(caller.tenant_id, warrant_id),
        _entry(ports, caller, Action.REVOCATION_CREATE, record, settings, **_said(revoked)),
    )
    return record, True


@operation(Scope.ADMIN)
def delete(ports: Ports, caller: Caller, *, revocation_id: str) -> None:
    """Take a revocation back: the warrant holds again (REVOKE-4). Raises `NotFound`."""
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
        srl_marks.on_tenant(caller.tenant_id, record.warrant_id),
        srl_marks.on_warrant(caller.tenant_id, record.warrant_id),
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
    """The tenant's revocation records, newest first (REVOKE-6)."""
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


def _standing(ports: Ports, caller: Caller, warrant_id: str) -> Standing:
    return Standing.of(ports.store.get(warrants.warrant_address(caller.tenant_id, warrant_id)))


def _check_end(standing: Standing, said: datetime | None) -> None:
    """Let no administrator's word shorten what a verifier reads in the signed bytes."""
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
    # Taken back between the two reads: then it is not revoked.
    return found[1] if found else None


def _count(ports: Ports, shard: Partition) -> int:
    return counters.of_shard(ports, shard)["count"]


def _counted(caller: Caller, warrant_id: str, amount: int) -> Increment:
    counter = model.counter_address(caller.tenant_id, warrant_id)
    # One that was counted by an earlier release is taken from another counter than it was added to.
    return Increment(counter, {"count": amount, "changes": 1}, Expect.ANYTHING)


def _restored(address: Address, standing: Standing) -> Put | Delete:
    """The standing without its revocation; nothing is left of a warrant that was never signed."""
    expected = At(standing.version)
    if standing.key_id is None:
        return Delete(address, expected)
    return Put(address, standing.restored().to_item(), expected)


def _unlisted(tenant_id: str, warrant_id: str, ends_at: datetime | None) -> list[Delete]:
    """Remove a warrant from its shard; one that ended long ago may have been moved there."""
    addresses = [model.shard_of(tenant_id, warrant_id).address(warrant_id)]
    if ends_at is not None:
        addresses.append(srl_ended.address(tenant_id, warrant_id, ends_at))
    return [Delete(address, Expect.ANYTHING) for address in addresses]


def _find(ports: Ports, caller: Caller, revocation_id: str) -> tuple[Address, Revocation]:
    """A record of the caller's tenant, and where it is. Raises `NotFound`."""
    found = None
    # Another form names nothing, and some would be no key of any store.
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
    """What the administrator said of the end of the warrant, for an audit entry."""
    said = standing.said_to_end_at
    return {} if said is None else {"warrant_expires_at": times.text(said)}
