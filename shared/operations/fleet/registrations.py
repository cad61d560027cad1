"""Registrations of authorizers: their number, and the changes that store, end and remove them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, NamedTuple

from shared.errors import PreconditionFailed
from shared.model import times
from shared.model.fleet import authorizers as model
from shared.model.fleet.authorizers import Authorizer, OwnerRegistrationCount, RegistrationCounts
from shared.model.fleet.heartbeats import AuthorizerDescription
from shared.model.items import Address, Item, Value
from shared.operations.base import operation
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Change, Delete, Expect, Increment, Put, VersionIs

# How long after a count the next one is due, and how long if the tenant is full.
COUNTED_EVERY: Final = timedelta(days=1)
COUNTED_EVERY_IF_FULL: Final = timedelta(minutes=10)

# The most registrations that one count moves or forgets.
_REMOVED_MAX: Final = 1_000
# How many registrations one write removes: four changes for each, one for the numbers, and one
# for the audit entry.
AT_ONCE: Final = (MOST_CHANGES - 2) // 4


def parse_counts(item: Item | None) -> RegistrationCounts:
    """Return the numbers of registered authorizers that an item has. Raises `DataCorrupt`."""
    return RegistrationCounts() if item is None else RegistrationCounts.from_item(item)


def registered_by_id(ports: Ports, tenant_id: str, ids: Iterable[str]) -> dict[str, Authorizer]:
    """Read those of these registrations that are stored as registered, by identifier.

    Raises `DataCorrupt`, `Unavailable`.
    """
    addresses = [_address(tenant_id, each) for each in ids]
    items = ports.store.get_many(addresses) if addresses else {}
    return {each.id: each for each in map(Authorizer.from_item, items.values())}


def read_ended(ports: Ports, tenant_id: str, ids: Iterable[str]) -> dict[str, Authorizer]:
    """Read those of these registrations that have ended and are remembered, by identifier.

    Raises `DataCorrupt`, `Unavailable`.
    """
    partition, now = model.ended_partition(tenant_id), ports.now()
    addresses = [partition.address(each) for each in ids]
    items = ports.store.get_many(addresses) if addresses else {}
    found = (Authorizer.from_item(each) for each in items.values())
    return {each.id: each for each in found if not each.is_forgotten(now)}


def details(of: Authorizer, *, is_revived: bool = False) -> dict[str, Value]:
    """Return the details of the audit entry of a registration (FLEET-2)."""
    found: dict[str, Value] = {"name": of.name}
    if of.is_proven:
        found["public_key"] = of.any_key
    return found | ({"revived": True} if is_revived else {})


def creation(tenant_id: str, new: Authorizer) -> list[Change]:
    """Return the changes that store a new registration, and count it."""
    return [
        Put(_address(tenant_id, new.id), new.to_item(), Expect.ABSENT),
        _counting(tenant_id, count=1, polling=int(new.polls)),
        *_counting_owners(tenant_id, Counter({new.owner: 1})),
    ]


def revival(tenant_id: str, old: Authorizer, new: Authorizer, *, is_kept: bool) -> list[Change]:
    """Return the changes after which a registration that has ended counts again, as `new`.

    `is_kept` is whether the count has moved it to those that are remembered.
    """
    if is_kept:
        return [
            Delete(_ended_address(tenant_id, old.id), VersionIs(old.version)),
            *creation(tenant_id, new),
        ]
    return [*change(tenant_id, old, new)]


def change(tenant_id: str, old: Authorizer, new: Authorizer) -> Sequence[Change]:
    """Return the changes that store `new`; none if it says nothing new (FLEET-4)."""
    if not new.says_more_than(old):
        return []
    put = Put(_address(tenant_id, new.id), new.to_item(), VersionIs(old.version))
    if new.polls == old.polls:
        return [put]
    polling = int(new.polls) - int(old.polls)
    return [put, _counting(tenant_id, count=0, polling=polling)]


def removal(tenant_id: str, *gone: Authorizer) -> list[Change]:
    """Return the changes that remove registrations, their names, and their counts."""
    return [
        *(Delete(_address(tenant_id, each.id), VersionIs(each.version)) for each in gone),
        *(Delete(name_address(tenant_id, each), Expect.ANYTHING) for each in gone),
        *_uncounting(tenant_id, gone),
    ]


def forgetting(tenant_id: str, *gone: Authorizer) -> list[Change]:
    """Return the changes that forget registrations which have ended, and their names."""
    return [
        *(Delete(_ended_address(tenant_id, each.id), VersionIs(each.version)) for each in gone),
        *(Delete(name_address(tenant_id, each), Expect.ANYTHING) for each in gone),
    ]


def name_address(
    tenant_id: str, of: Authorizer | AuthorizerDescription, owner: str = ""
) -> Address:
    """Return the address of the item that finds `of`, of this owner or its own, by its name.

    A key that was not proved is a part of the name, so that other programs may share it (FLEET-2).
    """
    owner = of.owner if isinstance(of, Authorizer) else owner
    public_key = "" if of.is_proven else of.public_key
    return model.name_address(tenant_id, owner=owner, name=of.name, public_key=public_key)


def noting(tenant_id: str, now: datetime, *gone: Authorizer) -> list[Put]:
    """Return the changes that note which registrations are gone, for who has read them before."""
    partition = model.removed_partition(tenant_id)
    addresses = (partition.address(model.removed_sk(now, each.id)) for each in gone)
    return [Put(each, {}, Expect.ANYTHING) for each in addresses]


def _ending(
    tenant_id: str, now: datetime, expired_authorizers: Sequence[Authorizer]
) -> list[Change]:
    """Return the changes after which registrations are no more than remembered."""
    return [
        *noting(tenant_id, now, *expired_authorizers),
        *(
            Delete(_address(tenant_id, each.id), VersionIs(each.version))
            for each in expired_authorizers
        ),
        *(
            Put(_ended_address(tenant_id, each.id), each.to_item(), Expect.ANYTHING)
            for each in expired_authorizers
        ),
        *_uncounting(tenant_id, expired_authorizers),
    ]


def _uncounting(tenant_id: str, expired_authorizers: Sequence[Authorizer]) -> list[Increment]:
    polling = sum(each.polls for each in expired_authorizers)
    return [
        _counting(tenant_id, count=-len(expired_authorizers), polling=-polling),
        *_counting_owners(tenant_id, Counter(each.owner for each in expired_authorizers), sign=-1),
    ]


def _address(tenant_id: str, authorizer_id: str) -> Address:
    return model.authorizers(tenant_id).address(authorizer_id)


def _ended_address(tenant_id: str, authorizer_id: str) -> Address:
    return model.ended_partition(tenant_id).address(authorizer_id)


def _counting(tenant_id: str, *, count: int, polling: int) -> Increment:
    address = model.registered_address(tenant_id)
    return Increment(address, {"count": count, "polling": polling, "version": 1}, Expect.ANYTHING)


def _counting_owners(tenant_id: str, counts: Counter[str], *, sign: int = 1) -> list[Increment]:
    partition = model.of_owners(tenant_id)
    return [
        Increment(partition.address(owner), {"count": sign * number, "version": 1}, Expect.ANYTHING)
        for owner, number in counts.items()
    ]


class _FoundRegistrations(NamedTuple):
    """The registrations that are stored, and those of them that have ended."""

    stored: int
    polling: int
    ended: list[Authorizer]
    of_owners: Counter[str]


def is_due(numbers: RegistrationCounts, now: datetime, *, is_full: bool = False) -> bool:
    """Return whether the registrations are to be counted; `is_full`: there is no room for one."""
    every = COUNTED_EVERY_IF_FULL if is_full or not numbers.room else COUNTED_EVERY
    return numbers.counted_at is None or numbers.counted_at + every <= now


def recount(ports: Ports, tenant_id: str, numbers: RegistrationCounts) -> None:
    """Count the registrations, correct the numbers, and move what has ended out of the list.

    If somebody else counts at the moment, nothing is done. If registrations change meanwhile, the
    next count corrects the numbers. Raises `DataCorrupt`, `Unavailable`.
    """
    now = times.truncate_to_second(ports.now())
    if not _claim(ports, tenant_id, numbers, now):
        return
    found = _count(ports, tenant_id, now)
    more = {
        "count": found.stored - numbers.count,
        "polling": found.polling - numbers.polling,
        "version": 1,
    }
    _add(
        ports, Increment(model.registered_address(tenant_id), more, VersionIs(numbers.version + 1))
    )
    _correct_owners(ports, tenant_id, found.of_owners)
    _end(ports, tenant_id, found.ended, now)
    _remove_ended(ports, tenant_id, now)


def _claim(ports: Ports, tenant_id: str, numbers: RegistrationCounts, now: datetime) -> bool:
    """Note that the registrations are counted now; return False if somebody else came first."""
    expected = VersionIs(numbers.version) if numbers.version else Expect.ABSENT
    more = {"count": 0, "polling": 0, "version": 1}
    counted_at = {"counted_at": times.format_utc(now)}
    address = model.registered_address(tenant_id)
    return _add(ports, Increment(address, more, expected, assign=counted_at))


def _add(ports: Ports, change: Increment) -> bool:
    try:
        ports.store.write(change)
    except PreconditionFailed:
        return False
    return True


def _count(ports: Ports, tenant_id: str, now: datetime) -> _FoundRegistrations:
    stored, polling, gone, of_owners = 0, 0, list[Authorizer](), Counter[str]()
    for row in ports.store.query(model.authorizers(tenant_id)):
        each = Authorizer.from_item(row.item)
        stored += 1
        polling += each.polls
        of_owners[each.owner] += 1
        if each.is_expired(now):
            gone.append(each)
    return _FoundRegistrations(stored, polling, gone, of_owners)


def _correct_owners(ports: Ports, tenant_id: str, counts: Counter[str]) -> None:
    """Correct how many authorizers each owner has, unless it registers one meanwhile."""
    partition = model.of_owners(tenant_id)
    known = {
        row.sk: OwnerRegistrationCount.from_item(row.item) for row in ports.store.query(partition)
    }
    for owner in known.keys() | counts.keys():
        before = known.get(owner, OwnerRegistrationCount())
        more = {"count": counts[owner] - before.count, "version": 1}
        expected = VersionIs(before.version) if before.version else Expect.ABSENT
        if more["count"]:
            _add(ports, Increment(partition.address(owner), more, expected))


def _end(
    ports: Ports, tenant_id: str, expired_authorizers: Sequence[Authorizer], now: datetime
) -> None:
    """Move some registrations to those that are remembered, unless a heartbeat comes meanwhile."""
    rest = iter(expired_authorizers[:_REMOVED_MAX])
    while batch := list(islice(rest, AT_ONCE)):
        try:
            ports.store.write(*_ending(tenant_id, now, batch))
        except PreconditionFailed:
            # The next count moves the others of the batch.
            continue


def _remove_ended(ports: Ports, tenant_id: str, now: datetime) -> None:
    """Forget registrations that ended long ago, and old notes.

    It looks at those that were registered first: whoever is behind them is forgotten later.
    """
    rows = ports.store.query(model.ended_partition(tenant_id), limit=_REMOVED_MAX)
    old = [each for row in rows if (each := Authorizer.from_item(row.item)).is_forgotten(now)]
    operation.apply_steps(ports, [forgetting(tenant_id, each) for each in old], most=2)
    partition = model.removed_partition(tenant_id)
    rows, kept = ports.store.query(partition, limit=_REMOVED_MAX), now - 2 * model.CHANGES_KEPT
    unused = [row.sk for row in rows if row.sk <= model.removed_sk(kept)]
    operation.apply_steps(
        ports, [[Delete(partition.address(sk), Expect.ANYTHING)] for sk in unused], most=1
    )
