"""Registrations of authorizers: count them, and build the writes that store and remove them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from functions.authorizers import records as model
from functions.authorizers.records import (
    Authorizer,
    AuthorizerDescription,
    OwnerRegistrationCount,
    RegistrationCounts,
)
from shared.errors import PreconditionFailed
from shared.model import times
from shared.model.items import Address, Item, Value
from shared.operations.base import operation
from shared.ports import Ports
from shared.ports.store import (
    MOST_CHANGES,
    Change,
    Delete,
    Expect,
    Increment,
    Put,
    VersionIs,
    expect_version,
)

# The time between two counts, and the shorter time while the tenant is full.
COUNTED_EVERY: Final = timedelta(days=1)
COUNTED_EVERY_IF_FULL: Final = timedelta(minutes=10)

# The most registrations that one count moves or deletes.
_REMOVED_MAX: Final = 1_000
# How many registrations one write removes: four changes for each, one for the counts, and one for
# the audit entry.
AT_ONCE: Final = (MOST_CHANGES - 2) // 4


def parse_counts(item: Item | None) -> RegistrationCounts:
    """Return the counts of registered authorizers in an item. Raises `DataCorrupt`."""
    return RegistrationCounts() if item is None else RegistrationCounts.from_item(item)


def read_counts(ports: Ports, tenant_id: str) -> RegistrationCounts:
    """Read the counts of registered authorizers. Raises `DataCorrupt`, `Unavailable`."""
    return parse_counts(ports.store.get(model.registered_address(tenant_id)))


def count_registered(ports: Ports, tenant_id: str) -> int:
    """Read the number of registered authorizers, which determines the cost of a request."""
    return max(read_counts(ports, tenant_id).count, 0)


def registered_by_id(ports: Ports, tenant_id: str, ids: Iterable[str]) -> dict[str, Authorizer]:
    """Read the registrations with these identifiers that are stored as registered.

    Raises `DataCorrupt`, `Unavailable`.
    """
    addresses = [_address(tenant_id, each) for each in ids]
    items = ports.store.get_many(addresses) if addresses else {}
    return {each.id: each for each in map(Authorizer.from_item, items.values())}


def read_ended(ports: Ports, tenant_id: str, ids: Iterable[str]) -> dict[str, Authorizer]:
    """Read the registrations with these identifiers that have expired and are remembered.

    Raises `DataCorrupt`, `Unavailable`.
    """
    partition, now = model.ended_partition(tenant_id), ports.now()
    addresses = [partition.address(each) for each in ids]
    items = ports.store.get_many(addresses) if addresses else {}
    ended = map(Authorizer.from_item, items.values())
    return {each.id: each for each in ended if not each.is_forgotten(now)}


def details(of: Authorizer, *, is_revived: bool = False) -> dict[str, Value]:
    """Return the details of the audit entry of a registration (FLEET-2)."""
    named: dict[str, Value] = {"name": of.name}
    if of.key_verified:
        named["public_key"] = of.any_key
    return named | ({"revived": True} if is_revived else {})


def creation(tenant_id: str, new: Authorizer) -> list[Change]:
    """Return the writes that store and count a new registration."""
    return [
        Put(_address(tenant_id, new.id), new.to_item(), Expect.ABSENT),
        _counting(tenant_id, count=1, polling=int(new.polls)),
        *_counting_owners(tenant_id, Counter({new.owner: 1})),
    ]


def revival(tenant_id: str, old: Authorizer, new: Authorizer, *, is_kept: bool) -> list[Change]:
    """Return the writes that reactivate an expired registration as `new`.

    `is_kept` is true if a count has moved it to the remembered registrations.
    """
    if is_kept:
        return [
            Delete(_ended_address(tenant_id, old.id), VersionIs(old.version)),
            *creation(tenant_id, new),
        ]
    return [*change(tenant_id, old, new)]


def change(tenant_id: str, old: Authorizer, new: Authorizer) -> Sequence[Change]:
    """Return the writes that store `new`, or none if it has no news (FLEET-4)."""
    if not new.says_more_than(old):
        return []
    put = Put(_address(tenant_id, new.id), new.to_item(), VersionIs(old.version))
    if new.polls == old.polls:
        return [put]
    polling = int(new.polls) - int(old.polls)
    return [put, _counting(tenant_id, count=0, polling=polling)]


def removal(tenant_id: str, *gone: Authorizer) -> list[Change]:
    """Return the writes that remove registrations, their names, and their counts."""
    return [
        *(Delete(_address(tenant_id, each.id), VersionIs(each.version)) for each in gone),
        *(Delete(name_address(tenant_id, each), Expect.ANYTHING) for each in gone),
        *_uncounting(tenant_id, gone),
    ]


def forgetting(tenant_id: str, *gone: Authorizer) -> list[Change]:
    """Return the writes that delete expired registrations and their names."""
    return [
        *(Delete(_ended_address(tenant_id, each.id), VersionIs(each.version)) for each in gone),
        *(Delete(name_address(tenant_id, each), Expect.ANYTHING) for each in gone),
    ]


def name_address(
    tenant_id: str, of: Authorizer | AuthorizerDescription, owner: str = ""
) -> Address:
    """Return the address of the item that finds `of` by its name, for `owner` or its own owner.

    An unproven key is a part of the name, so other programs may share the name (FLEET-2).
    """
    owner = of.owner if isinstance(of, Authorizer) else owner
    public_key = "" if of.key_verified else of.public_key
    return model.name_address(tenant_id, owner=owner, name=of.name, public_key=public_key)


def noting(tenant_id: str, now: datetime, *gone: Authorizer) -> list[Put]:
    """Return the writes that record removed registrations, for clients that read them before."""
    partition = model.removed_partition(tenant_id)
    addresses = (partition.address(model.removed_sk(now, each.id)) for each in gone)
    return [Put(each, {}, Expect.ANYTHING) for each in addresses]


def _uncounting(tenant_id: str, authorizers: Sequence[Authorizer]) -> list[Increment]:
    polling = sum(each.polls for each in authorizers)
    return [
        _counting(tenant_id, count=-len(authorizers), polling=-polling),
        *_counting_owners(tenant_id, Counter(each.owner for each in authorizers), sign=-1),
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


def is_due(numbers: RegistrationCounts, now: datetime, *, is_full: bool = False) -> bool:
    """Return whether a count is due. `is_full` is true if there is no room for a registration."""
    every = COUNTED_EVERY_IF_FULL if is_full or not numbers.room else COUNTED_EVERY
    return numbers.counted_at is None or numbers.counted_at + every <= now


def recount_now(ports: Ports, tenant_id: str) -> None:
    """Count the registrations, whether a count is due or not. Raises the errors of `recount`."""
    recount(ports, tenant_id, read_counts(ports, tenant_id))


def recount(ports: Ports, tenant_id: str, numbers: RegistrationCounts) -> None:
    """Count the registrations, correct the counts, and move expired registrations out.

    Makes no changes if another process is counting. If registrations change in between, the next
    count corrects the numbers. Raises `DataCorrupt`, `Unavailable`.
    """
    now = times.truncate_to_second(ports.now())
    address, counted_at = model.registered_address(tenant_id), times.format_utc(now)
    none = {"count": 0, "polling": 0, "version": 1}
    expected = expect_version(numbers.version)
    if not _add(ports, Increment(address, none, expected, assign={"counted_at": counted_at})):
        return
    stored, polling, expired, of_owners = 0, 0, list[Authorizer](), Counter[str]()
    for each in Authorizer.from_rows(ports.store.query(model.authorizers(tenant_id))):
        stored += 1
        polling += each.polls
        of_owners[each.owner] += 1
        if each.is_expired(now):
            expired.append(each)
    more = {"count": stored - numbers.count, "polling": polling - numbers.polling, "version": 1}
    _add(ports, Increment(address, more, VersionIs(numbers.version + 1)))
    _update_owner_counts(ports, tenant_id, of_owners)
    _move_expired(ports, tenant_id, expired, now)
    _remove_ended(ports, tenant_id, now)


def _add(ports: Ports, change: Increment) -> bool:
    try:
        ports.store.write(change)
    except PreconditionFailed:
        return False
    return True


def _update_owner_counts(ports: Ports, tenant_id: str, counts: Counter[str]) -> None:
    """Correct the count of each owner, unless the owner registers an authorizer concurrently."""
    partition = model.of_owners(tenant_id)
    rows = ports.store.query(partition)
    known = {row.sk: OwnerRegistrationCount.from_item(row.item) for row in rows}
    for owner in known.keys() | counts.keys():
        before = known.get(owner, OwnerRegistrationCount())
        more = {"count": counts[owner] - before.count, "version": 1}
        if more["count"]:
            expected = expect_version(before.version)
            _add(ports, Increment(partition.address(owner), more, expected))


def _move_expired(
    ports: Ports, tenant_id: str, expired: Sequence[Authorizer], now: datetime
) -> None:
    """Move registrations to the remembered ones, unless a heartbeat arrives concurrently."""
    rest = iter(expired[:_REMOVED_MAX])
    while batch := list(islice(rest, AT_ONCE)):
        ended = [(_ended_address(tenant_id, each.id), each.to_item()) for each in batch]
        # The next count moves the others of the batch.
        with suppress(PreconditionFailed):
            ports.store.write(
                *noting(tenant_id, now, *batch),
                *(Delete(_address(tenant_id, each.id), VersionIs(each.version)) for each in batch),
                *(Put(address, item, Expect.ANYTHING) for address, item in ended),
                *_uncounting(tenant_id, batch),
            )


def _remove_ended(ports: Ports, tenant_id: str, now: datetime) -> None:
    """Delete registrations that expired long ago, and old records of removals.

    Considers the earliest registrations. Later ones are deleted by a later count.
    """
    rows = ports.store.query(model.ended_partition(tenant_id), limit=_REMOVED_MAX)
    old = [each for each in Authorizer.from_rows(rows) if each.is_forgotten(now)]
    operation.apply_steps(ports, [forgetting(tenant_id, each) for each in old], most=2)
    partition = model.removed_partition(tenant_id)
    rows, oldest = ports.store.query(partition, limit=_REMOVED_MAX), now - 2 * model.CHANGES_KEPT
    unused = [row.sk for row in rows if row.sk <= model.removed_sk(oldest)]
    operation.apply_steps(
        ports, [[Delete(partition.address(sk), Expect.ANYTHING)] for sk in unused], most=1
    )
