"""The registry of authorizers: register, and report what an authorizer holds (FLEET-1)."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple

from shared.errors import InvalidRequest, NotFound, RateLimited
from shared.model import times
from shared.model.audit.audit_log import Action
from shared.model.callers import Caller, Scope
from shared.model.fleet import authorizers as model
from shared.model.fleet.authorizers import POLL_SECONDS_MIN as POLL_SECONDS_MIN
from shared.model.fleet.authorizers import Authorizer, Description, Heartbeat, OfKey, Registered
from shared.model.identifiers import API_KEY, AUTHORIZER, is_identifier
from shared.model.items import Item, Value
from shared.model.tenants import TenantSettings
from shared.operations.base import audit, tenants
from shared.operations.base.allowance import find
from shared.operations.base.idempotency import Keep, nested, once
from shared.operations.base.idempotency import Outcome as Kept
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page, Walk, count, newest
from shared.operations.fleet import heartbeats
from shared.operations.fleet import registrations as rules
from shared.operations.fleet.heartbeats import HeartbeatOutcome, Taken
from shared.ports import Ports
from shared.ports.store import Expect, Put

# The most authorizers that one request removes.
_REMOVED_MAX: Final = 2_000


class Registration(NamedTuple):
    """The registration of an authorizer; `is_new` is False if it was registered before."""

    authorizer: Authorizer
    is_new: bool
    numbers: Registered


class HeartbeatStatus(StrEnum):
    """What the service thinks of a heartbeat.

    `foreign`: the authorizer holds entries that this service did not publish.
    """

    OK = "ok"
    FOREIGN = "foreign"


class HeartbeatAnswer(NamedTuple):
    """The answer to a heartbeat. `latest` is the last entry of the feed, None before the first."""

    status: HeartbeatStatus
    latest: int | None
    numbers: Registered


def _registration_kept(made: Registration) -> Item:
    return {"authorizer": made.authorizer.to_item(), "is_new": made.is_new}


def _registration_again(ports: Ports, caller: Caller, kept: Item, **_: object) -> Registration:
    authorizer = Authorizer.from_item(nested(kept, "authorizer"))
    # When to report is what holds now.
    numbers = rules.registered(ports.store.get(model.registered_address(caller.tenant_id)))
    return Registration(authorizer, bool(kept["is_new"]), numbers)


@once(Scope.ADMIN, Scope.AUTHORIZER, keeps=Kept(_registration_kept, _registration_again))
def register(
    ports: Ports,
    caller: Caller,
    keep: Keep[Registration],
    *,
    described: Description,
    is_stock: bool = False,
) -> Registration:
    """Register an authorizer, or find the one that the caller registered before (FLEET-2).

    That is the one of the same owner, name and public key. Raises `RateLimited` if the tenant has
    `REGISTERED_MAX` authorizers; that or `Conflict` if the API key has as many as it may (FLEET-3).
    """
    tenant_id, now = caller.tenant_id, times.whole(ports.now())
    name, public_key = described.name, described.public_key
    named = model.name_address(tenant_id, owner=caller.identity, name=name, public_key=public_key)
    counter = model.registered_address(tenant_id)
    items = ports.store.get_many([named, counter])
    numbers = rules.registered(items.get(counter))
    before = _named(ports, tenant_id, items.get(named))
    if before is not None:
        found = Registration(before.described_as(described, now), is_new=False, numbers=numbers)
        if changes := rules.change(tenant_id, before, found.authorizer):
            ports.store.write(*changes, *keep(found))
        return found
    settings = tenants.settings(ports, tenant_id)
    _check_room(ports, caller, numbers, settings, is_stock=is_stock)
    key_id = caller.key_id or ""
    new = Authorizer.new(
        ports.new_id(AUTHORIZER), described, owner=caller.identity, key_id=key_id, now=now
    )
    made = Registration(new, is_new=True, numbers=numbers)
    ports.store.write(
        *rules.creation(tenant_id, new),
        # If the item is there, but not the registration, another write may have removed that.
        Put(named, {"id": new.id}, Expect.ANYTHING if named in items else Expect.ABSENT),
        audit.entry(
            ports, caller, Action.AUTHORIZER_REGISTER, new.id, settings=settings, name=new.name
        ),
        *keep(made),
    )
    return made


def _check_room(
    ports: Ports,
    caller: Caller,
    numbers: Registered,
    settings: TenantSettings,
    *,
    is_stock: bool,
) -> None:
    """Raise `RateLimited` or `Conflict` if the caller has reached the limit."""
    most, now = settings.authorizers_max, ports.now()
    of_keys = model.of_keys(caller.tenant_id)
    item = ports.store.get(of_keys.address(caller.key_id)) if caller.key_id else None
    is_at_quota = item is not None and OfKey.from_item(item).count >= most
    if numbers.room and not is_at_quota:
        return
    if rules.is_due(numbers, now, is_full=True):
        rules.recount(ports, caller.tenant_id, numbers)
    raise rules.at_quota(most, is_stock=is_stock) if is_at_quota else rules.full()


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def heartbeat(
    ports: Ports, caller: Caller, *, authorizer_id: str, beat: Heartbeat, is_stock: bool = False
) -> HeartbeatAnswer:
    """Take what an authorizer reports (FLEET-4). Store it if it says something new.

    Raises `NotFound` if the caller has not registered it. A stock authorizer would never register
    again, so its heartbeat is then answered, and nothing is stored (NATIVE-6); a malformed
    identifier is still not found.
    """
    taken = heartbeats.take(ports, caller, {authorizer_id: beat}, relay="")
    (outcome,) = taken.outcomes
    if outcome is not HeartbeatOutcome.NOT_FOUND:
        return HeartbeatAnswer(HeartbeatStatus(outcome), taken.latest, taken.numbers)
    if not is_stock or not is_identifier(authorizer_id, kind=AUTHORIZER):
        raise NotFound
    return HeartbeatAnswer(HeartbeatStatus.OK, taken.latest, taken.numbers)


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def report(ports: Ports, caller: Caller, *, relay: str, beats: Mapping[str, Heartbeat]) -> Taken:
    """Take what a relay reports of authorizers that the caller registered, by their identifiers.

    There are at most `REPORTS_MAX` (FLEET-7).
    """
    return heartbeats.take(ports, caller, beats, relay=relay)


@operation(Scope.ADMIN, Scope.AUTHORIZER, Scope.AUDITOR)
def poll_seconds(ports: Ports, caller: Caller) -> int:
    """Return how many seconds authorizers should wait between two polls. Raises `Unavailable`."""
    item = ports.store.get(model.registered_address(caller.tenant_id))
    return rules.registered(item).poll_seconds


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page(ports: Ports, caller: Caller, *, before: str | None, limit: int) -> Page[Authorizer]:
    """Return a page of the tenant's authorizers, newest first, without those that have ended."""
    partition, now = model.authorizers(caller.tenant_id), ports.now()
    walk = Walk(
        partition, Authorizer.from_item, before, limit, keep=lambda of: not of.is_expired(now)
    )
    counter = model.registered_address(caller.tenant_id)
    return newest(ports, walk, total=lambda: count(ports, counter))


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def get(ports: Ports, caller: Caller, *, authorizer_id: str) -> Authorizer:
    """Return an authorizer of the tenant. Raises `NotFound`, also if the registration has ended."""
    found = _find(ports, caller, authorizer_id)
    if found.is_expired(ports.now()):
        raise NotFound
    return found


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def remove(ports: Ports, caller: Caller, *, authorizer_id: str) -> None:
    """Remove an authorizer; its heartbeats are refused from then on (FLEET-5).

    Raises `NotFound`, also if the caller is no administrator and has not registered it.
    """
    gone = _find(ports, caller, authorizer_id)
    if not caller.is_admin and gone.owner != caller.identity:
        raise NotFound
    ports.store.write(
        *rules.removal(caller.tenant_id, gone),
        audit.entry(ports, caller, Action.AUTHORIZER_REMOVE, gone.id, name=gone.name),
    )


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def remove_of_key(ports: Ports, caller: Caller, *, key_id: str) -> None:
    """Remove the authorizers that an API key registered (FLEET-19).

    Raises `RateLimited` if some are left, `InvalidRequest`; `NotFound` if the caller is no
    administrator and names another key than its own.
    """
    if not is_identifier(key_id, kind=API_KEY):
        raise InvalidRequest("owner: must be the identifier of an API key.")
    if not caller.is_admin and key_id != caller.key_id:
        raise NotFound
    rows = ports.store.query(model.authorizers(caller.tenant_id))
    found = (Authorizer.from_item(row.item) for row in rows)
    gone = list(islice((each for each in found if each.is_registered_by(key_id)), _REMOVED_MAX + 1))
    for start in range(0, min(len(gone), _REMOVED_MAX), rules.AT_ONCE):
        end = min(start + rules.AT_ONCE, _REMOVED_MAX)
        _remove_some(ports, caller, key_id, gone[start:end])
    if len(gone) > _REMOVED_MAX:
        raise RateLimited(
            retry_after=1,
            message=f"{_REMOVED_MAX:,} authorizers are removed; repeat the request for the others.",
        )


def _remove_some(ports: Ports, caller: Caller, key_id: str, gone: Sequence[Authorizer]) -> None:
    named: list[Value] = [{"id": each.id, "name": each.name} for each in gone]
    ports.store.write(
        *rules.removal(caller.tenant_id, *gone),
        audit.entry(ports, caller, Action.AUTHORIZER_REMOVE_BATCH, key_id, authorizers=named),
    )


def _find(ports: Ports, caller: Caller, authorizer_id: str) -> Authorizer:
    partition = model.authorizers(caller.tenant_id)
    return find(ports, partition, authorizer_id, kind=AUTHORIZER, record=Authorizer)


def _named(ports: Ports, tenant_id: str, item: Item | None) -> Authorizer | None:
    """Read the registration that the item of a name leads to."""
    if item is None:
        return None
    found = ports.store.get(model.authorizers(tenant_id).address(str(item["id"])))
    return None if found is None else Authorizer.from_item(found)
