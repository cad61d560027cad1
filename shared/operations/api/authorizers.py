"""The registry of authorizers: register, and report what an authorizer holds (FLEET-1)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from shared.errors import NotFound
from shared.model import authorizers as model
from shared.model import times
from shared.model.audit_log import Action
from shared.model.authorizers import POLL_SECONDS_MIN as POLL_SECONDS_MIN
from shared.model.authorizers import Authorizer, Description, Heartbeat, Registered, Removed
from shared.model.callers import Caller, Scope
from shared.model.identifiers import AUTHORIZER
from shared.model.items import Item
from shared.operations.rules import audit, heartbeats, registered
from shared.operations.rules import authorizers as rules
from shared.operations.rules.given import find
from shared.operations.rules.heartbeats import Outcome, Taken
from shared.operations.rules.idempotency import Keep, nested, once
from shared.operations.rules.idempotency import Outcome as Kept
from shared.operations.rules.operation import operation
from shared.operations.rules.paging import Page, Walk, count, newest
from shared.ports import Ports
from shared.ports.store import Expect, Put


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


class Reported(NamedTuple):
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
    ports: Ports, caller: Caller, keep: Keep[Registration], *, described: Description
) -> Registration:
    """Register an authorizer, or find the one that the caller registered before (FLEET-2).

    That is the one of the same owner, name and public key. Raises `RateLimited` if the tenant has
    `REGISTERED_MAX` authorizers.
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
    if not numbers.room:
        if registered.is_due(numbers, now):
            registered.recount(ports, tenant_id, numbers)
        raise rules.full()
    new = Authorizer.new(ports.new_id(AUTHORIZER), described, owner=caller.identity, now=now)
    made = Registration(new, is_new=True, numbers=numbers)
    ports.store.write(
        *rules.creation(tenant_id, new),
        # If the item is there, but not the registration, another write may have removed that.
        Put(named, {"id": new.id}, Expect.ANYTHING if named in items else Expect.ABSENT),
        audit.entry(ports, caller, Action.AUTHORIZER_REGISTER, new.id, name=new.name),
        *keep(made),
    )
    return made


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def heartbeat(ports: Ports, caller: Caller, *, authorizer_id: str, beat: Heartbeat) -> Reported:
    """Take what an authorizer reports (FLEET-4). Store it if it says something new.

    An authorizer of which nothing is known any more is registered again, with its identifier as its
    name. Raises `NotFound` if another owner registered it, or an administrator removed it;
    `RateLimited` if there is no room to register it again.
    """
    taken = heartbeats.take(ports, caller, {authorizer_id: beat}, relay="")
    (outcome,) = taken.outcomes
    if outcome is Outcome.NOT_FOUND:
        raise NotFound
    if outcome is Outcome.FULL:
        raise rules.full()
    return Reported(HeartbeatStatus(outcome), taken.latest, taken.numbers)


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


@operation(Scope.ADMIN)
def remove(ports: Ports, caller: Caller, *, authorizer_id: str) -> None:
    """Remove an authorizer; its heartbeats are refused from then on (FLEET-5).

    Raises `NotFound`.
    """
    tenant_id, gone = caller.tenant_id, _find(ports, caller, authorizer_id)
    kept = Removed(gone.id, times.whole(ports.now()))
    ports.store.write(
        *rules.removal(tenant_id, gone),
        Put(model.removed(tenant_id).address(gone.id), kept.to_item(), Expect.ANYTHING),
        audit.entry(ports, caller, Action.AUTHORIZER_REMOVE, gone.id, name=gone.name),
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
