"""Registrations of authorizers: their number, and the changes that store and remove them."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple

from shared.errors import Conflict, ExpectationLost, RateLimited
from shared.model import times
from shared.model.fleet import authorizers as model
from shared.model.fleet.authorizers import Authorizer, OfKey, Registered
from shared.model.items import Address, Item
from shared.operations.base import steps
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, At, Change, Delete, Expect, Increment, Put

# How long a client waits that found no room: the registrations are counted again by then.
_RETRY_AFTER: Final = 300

_FULL: Final = (
    f"The tenant has {model.REGISTERED_MAX:,} authorizers, which is the most; remove some, or "
    "retry after the time in Retry-After."
)


# How long after a count the next one is due, and how long if the tenant is full.
COUNTED_EVERY: Final = timedelta(days=1)
COUNTED_EVERY_IF_FULL: Final = timedelta(minutes=10)

# The most ended registrations that are removed at one count.
_REMOVED_MAX: Final = 1_000
# How many registrations one write removes: three changes for each, one for the numbers, and one
# for the audit entry.
AT_ONCE: Final = (MOST_CHANGES - 2) // 3


def registered(item: Item | None) -> Registered:
    """Return the numbers of registered authorizers that an item has. Raises `Corrupt`."""
    return Registered() if item is None else Registered.from_item(item)


def full() -> RateLimited:
    """Return the error for a tenant with the most authorizers that it may have (FLEET-3).

    An authorizer that gets any other refusal may never come back.
    """
    return RateLimited(retry_after=_RETRY_AFTER, message=_FULL)


def at_quota(most: int, *, is_stock: bool) -> Conflict | RateLimited:
    """Return the error for an API key that has registered `most` authorizers (FLEET-3).

    A stock authorizer retries only the second (NATIVE-6).
    """
    message = (
        f"The API key has registered {most:,} authorizers, which is the setting authorizers_max of "
        "the tenant; remove some, or raise the setting."
    )
    return RateLimited(retry_after=_RETRY_AFTER, message=message) if is_stock else Conflict(message)


def creation(tenant_id: str, new: Authorizer) -> list[Change]:
    """Return the changes that store a new registration, and count it."""
    return [
        Put(_address(tenant_id, new.id), new.to_item(), Expect.ABSENT),
        _counting(tenant_id, count=1, polling=int(new.polls)),
        *_counting_keys(tenant_id, Counter({new.key_id: 1})),
    ]


def change(tenant_id: str, before: Authorizer, after: Authorizer) -> Sequence[Change]:
    """Return the changes that store `after`; none if it says nothing new (FLEET-4)."""
    if not after.says_more_than(before):
        return []
    put = Put(_address(tenant_id, after.id), after.to_item(), At(before.version))
    if after.polls == before.polls:
        return [put]
    polling = int(after.polls) - int(before.polls)
    return [put, _counting(tenant_id, count=0, polling=polling)]


def removal(tenant_id: str, *gone: Authorizer) -> list[Change]:
    """Return the changes that remove registrations, their names, and their counts."""
    polling = sum(each.polls for each in gone)
    return [
        *(Delete(_address(tenant_id, each.id), At(each.version)) for each in gone),
        *(Delete(name_address(tenant_id, each), Expect.ANYTHING) for each in gone),
        _counting(tenant_id, count=-len(gone), polling=-polling),
        *_counting_keys(tenant_id, Counter(each.key_id for each in gone), sign=-1),
    ]


def name_address(tenant_id: str, of: Authorizer) -> Address:
    """Return the address of the item that finds `of` by its owner, name and public key."""
    return model.name_address(tenant_id, owner=of.owner, name=of.name, public_key=of.public_key)


def _address(tenant_id: str, authorizer_id: str) -> Address:
    return model.authorizers(tenant_id).address(authorizer_id)


def _counting(tenant_id: str, *, count: int, polling: int) -> Increment:
    address = model.registered_address(tenant_id)
    return Increment(address, {"count": count, "polling": polling, "version": 1}, Expect.ANYTHING)


def _counting_keys(tenant_id: str, counts: Counter[str], *, sign: int = 1) -> list[Increment]:
    partition = model.of_keys(tenant_id)
    return [
        Increment(
            partition.address(key_id), {"count": sign * number, "version": 1}, Expect.ANYTHING
        )
        for key_id, number in counts.items()
        if key_id
    ]


class _FoundRegistrations(NamedTuple):
    """The registrations that are stored, and those of them that have ended."""

    stored: int
    polling: int
    ended: list[Authorizer]
    of_keys: Counter[str]


def is_due(numbers: Registered, now: datetime, *, is_full: bool = False) -> bool:
    """Return whether the registrations are to be counted; `is_full`: there is no room for one."""
    every = COUNTED_EVERY_IF_FULL if is_full or not numbers.room else COUNTED_EVERY
    return numbers.counted_at is None or numbers.counted_at + every <= now


def recount(ports: Ports, tenant_id: str, numbers: Registered) -> None:
    """Count the registrations, correct the numbers, and remove what has ended.

    If somebody else counts at the moment, nothing is done. If registrations change meanwhile, the
    next count corrects the numbers. Raises `Corrupt`, `Unavailable`.
    """
    now = times.whole(ports.now())
    if not _claim(ports, tenant_id, numbers, now):
        return
    found = _count(ports, tenant_id, now)
    more = {
        "count": found.stored - numbers.count,
        "polling": found.polling - numbers.polling,
        "version": 1,
    }
    _add(ports, Increment(model.registered_address(tenant_id), more, At(numbers.version + 1)))
    _correct_keys(ports, tenant_id, found.of_keys)
    _remove(ports, tenant_id, found.ended)
    _forget(ports, tenant_id)


def _claim(ports: Ports, tenant_id: str, numbers: Registered, now: datetime) -> bool:
    """Note that the registrations are counted now; return False if somebody else came first."""
    expected = At(numbers.version) if numbers.version else Expect.ABSENT
    more = {"count": 0, "polling": 0, "version": 1}
    counted_at = {"counted_at": times.text(now)}
    address = model.registered_address(tenant_id)
    return _add(ports, Increment(address, more, expected, assign=counted_at))


def _add(ports: Ports, change: Increment) -> bool:
    try:
        ports.store.write(change)
    except ExpectationLost:
        return False
    return True


def _count(ports: Ports, tenant_id: str, now: datetime) -> _FoundRegistrations:
    stored, polling, ended, of_keys = 0, 0, list[Authorizer](), Counter[str]()
    for row in ports.store.query(model.authorizers(tenant_id)):
        each = Authorizer.from_item(row.item)
        stored += 1
        polling += each.polls
        of_keys[each.key_id] += 1
        if each.is_expired(now):
            ended.append(each)
    return _FoundRegistrations(stored, polling, ended, of_keys)


def _correct_keys(ports: Ports, tenant_id: str, found: Counter[str]) -> None:
    """Correct how many authorizers each API key has, unless it registers one meanwhile."""
    partition = model.of_keys(tenant_id)
    known = {row.sk: OfKey.from_item(row.item) for row in ports.store.query(partition)}
    for key_id in filter(None, known.keys() | found.keys()):
        before = known.get(key_id, OfKey())
        more = {"count": found[key_id] - before.count, "version": 1}
        expected = At(before.version) if before.version else Expect.ABSENT
        if more["count"]:
            _add(ports, Increment(partition.address(key_id), more, expected))


def _remove(ports: Ports, tenant_id: str, ended: Sequence[Authorizer]) -> None:
    """Remove some registrations, unless a heartbeat comes meanwhile."""
    rest = iter(ended[:_REMOVED_MAX])
    while batch := list(islice(rest, AT_ONCE)):
        try:
            ports.store.write(*removal(tenant_id, *batch))
        except ExpectationLost:
            # The next count removes the others of the batch.
            continue


def _forget(ports: Ports, tenant_id: str) -> None:
    """Delete the notes of removed authorizers, which only release 0.3.0 used."""
    partition = model.removed(tenant_id)
    old = [row.sk for row in ports.store.query(partition, limit=_REMOVED_MAX)]
    steps.apply(ports, [[Delete(partition.address(sk), Expect.ANYTHING)] for sk in old], most=1)
