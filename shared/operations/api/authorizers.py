"""The registry of authorizers: register, and report what an authorizer holds (FLEET-1)."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from shared.errors import NotFound
from shared.model import authorizers as model
from shared.model import times
from shared.model.audit_log import Action
from shared.model.authorizers import Authorizer, Description, Heartbeat, Registered, Removed
from shared.model.callers import Caller, Scope
from shared.model.identifiers import AUTHORIZER, is_identifier
from shared.model.items import Item
from shared.operations.rules import audit
from shared.operations.rules import authorizers as rules
from shared.operations.rules.operation import operation
from shared.operations.srl import chains
from shared.operations.srl.chains import Newest
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Expect, Put


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


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def register(ports: Ports, caller: Caller, *, described: Description) -> Registration:
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
        after = before.described_as(described, now)
        _write(ports, rules.change(tenant_id, before, after))
        return Registration(after, is_new=False, numbers=numbers)
    rules.check_room(numbers)
    new = Authorizer.new(ports.new_id(AUTHORIZER), described, owner=caller.identity, now=now)
    ports.store.write(
        *rules.creation(tenant_id, new),
        # If the item is there, but not the registration, another write may have removed that.
        Put(named, {"id": new.id}, Expect.ANYTHING if named in items else Expect.ABSENT),
        audit.entry(ports, caller, Action.AUTHORIZER_REGISTER, new.id, name=new.name),
    )
    return Registration(new, is_new=True, numbers=numbers)


@operation(Scope.ADMIN, Scope.AUTHORIZER)
def heartbeat(ports: Ports, caller: Caller, *, authorizer_id: str, beat: Heartbeat) -> Reported:
    """Take what an authorizer reports (FLEET-4). Store it if it says something new.

    An authorizer of which nothing is known any more is registered again, with its identifier as its
    name. Raises `NotFound` if another owner registered it, or an administrator removed it;
    `RateLimited` if there is no room to register it again.
    """
    if not is_identifier(authorizer_id, kind=AUTHORIZER):
        raise NotFound
    tenant_id = caller.tenant_id
    own = model.authorizers(tenant_id).address(authorizer_id)
    counter = model.registered_address(tenant_id)
    compared = beat.sequence if beat.chain else None
    items, newest = ports.gather(
        lambda: ports.store.get_many([own, counter]),
        lambda: chains.newest(ports, tenant_id, after=compared),
    )
    numbers = rules.registered(items.get(counter))
    if own not in items:
        after = _returned(ports, caller, authorizer_id, beat, newest, numbers)
    else:
        before = _owned(caller, items[own])
        after = _after(before, beat, newest, times.whole(ports.now()))
        _write(ports, rules.change(tenant_id, before, after))
    return Reported(_status(after), newest.sequence, numbers)


def _named(ports: Ports, tenant_id: str, item: Item | None) -> Authorizer | None:
    """Read the registration that the item of a name leads to."""
    if item is None:
        return None
    found = ports.store.get(model.authorizers(tenant_id).address(str(item["id"])))
    return None if found is None else Authorizer.from_item(found)


def _owned(caller: Caller, item: Item) -> Authorizer:
    """Return the registration in `item`. Raises `NotFound` if the caller does not own it."""
    found = Authorizer.from_item(item)
    if found.owner != caller.identity:
        raise NotFound
    return found


def _returned(
    ports: Ports,
    caller: Caller,
    authorizer_id: str,
    beat: Heartbeat,
    newest: Newest,
    numbers: Registered,
) -> Authorizer:
    """Register an authorizer again that was forgotten, but is still running (FLEET-5)."""
    removed = model.removed(caller.tenant_id).address(authorizer_id)
    item, now = ports.store.get(removed), times.whole(ports.now())
    if item is not None and not Removed.from_item(item).is_forgotten(now):
        raise NotFound
    rules.check_room(numbers)
    described = Description(name=authorizer_id)
    new = Authorizer.new(authorizer_id, described, owner=caller.identity, now=now)
    after = _after(new, beat, newest, now)
    expected = Check(removed, Expect.ABSENT) if item is None else Delete(removed, Expect.PRESENT)
    ports.store.write(*rules.creation(caller.tenant_id, after), expected)
    return after


def _after(before: Authorizer, beat: Heartbeat, newest: Newest, now: datetime) -> Authorizer:
    is_foreign = newest.is_foreign(beat.sequence, beat.chain)
    if is_foreign is None:
        # It cannot be compared any more, so the last comparison of the same counts.
        same = (before.sequence, before.chain) == (beat.sequence, beat.chain)
        is_foreign = before.is_foreign and same
    return before.after(beat, now, relay="", is_foreign=is_foreign)


def _status(authorizer: Authorizer) -> HeartbeatStatus:
    return HeartbeatStatus.FOREIGN if authorizer.is_foreign else HeartbeatStatus.OK


def _write(ports: Ports, changes: Sequence[Change]) -> None:
    if changes:
        ports.store.write(*changes)
