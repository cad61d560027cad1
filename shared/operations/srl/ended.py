"""Revoked warrants that ended long ago, which a list made from all records does not read.

The schedule moves them to partitions of their own, sorted by their ends. A list reads those that
it may still have to contain, for example if a clock that was ahead moved them too early; the
schedule moves these back (docs/adr/0019).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Final

from shared.model import revocations as model
from shared.model import times
from shared.model.items import Address, Partition
from shared.model.revocations import RevokedWarrant
from shared.model.srl import schedule
from shared.model.warrants import Standing, by_end_sk, of_by_end, warrant_address
from shared.operations.rules import steps
from shared.ports import Ports
from shared.ports.store import At, Change, Check, Delete, Expect, Put

# How many are moved per list: about ten seconds of writes.
MOVED_A_LIST: Final = 10_000


def address(tenant_id: str, warrant_id: str, ends_at: datetime) -> Address:
    """Return the address of a warrant that has been moved."""
    return model.ended(model.shard_of(tenant_id, warrant_id)).address(
        by_end_sk(warrant_id, ends_at)
    )


def read(
    ports: Ports, shard: Partition, *, since: datetime | None = None
) -> Iterator[tuple[str, datetime | None]]:
    """Read the moved warrants of a shard with their ends: all, or those that ended since `since`.

    Raises `Corrupt`, `Unavailable`.
    """
    after = None if since is None else times.text(since)
    pages = ports.store.column(model.ended(shard), "ends_at", after=after)
    return (of_by_end(sk) for sk, _ in chain.from_iterable(pages))


def move(ports: Ports, tenant_id: str, warrant_ids: Collection[str], *, since: datetime) -> None:
    """Move warrants that ended long before `since` out of their shards, and the others back.

    A warrant whose revocation changes during the move stays where it is. Raises `Corrupt`,
    `Unavailable`.
    """
    keys = {each: warrant_address(tenant_id, each) for each in warrant_ids}
    items = ports.store.get_many(keys.values())
    found = {each: Standing.of(items.get(key)) for each, key in keys.items()}
    ends = {each: standing.end for each, standing in found.items()}
    records = _records(ports, tenant_id, found)
    limit = since - model.LONG_AGO
    moves = [
        _step(
            tenant_id,
            each,
            end,
            # Another revocation of the warrant has another record, another end another version.
            unchanged=(
                Check(records[each], Expect.PRESENT),
                Check(keys[each], At(found[each].version)),
            ),
            out=end < limit,
        )
        for each, end in ends.items()
        if each in records and end is not None
    ]
    steps.apply(ports, moves, most=5)


def _records(ports: Ports, tenant_id: str, found: Mapping[str, Standing]) -> dict[str, Address]:
    """Return the address of each warrant's revocation record, which only this revocation has.

    Versions of standings do not distinguish revocations: they start again if a revocation is
    removed and a new one is created.
    """
    addresses = {
        address: warrant_id
        for warrant_id, standing in found.items()
        if standing.revocation_id is not None
        for address in model.record_addresses(tenant_id, standing.revocation_id)
    }
    return {addresses[address]: address for address in ports.store.get_many(addresses)}


def _step(
    tenant_id: str, warrant_id: str, ends_at: datetime, *, unchanged: Sequence[Check], out: bool
) -> Sequence[Change]:
    listed = model.shard_of(tenant_id, warrant_id).address(warrant_id)
    moved = address(tenant_id, warrant_id, ends_at)
    item = RevokedWarrant(ends_at).to_item()
    if not out:
        return *unchanged, Delete(moved, Expect.PRESENT), Put(listed, item, Expect.ABSENT)
    # The removal of a mark expects the entry of its warrant in the shard.
    unmarked = Check(schedule.warrant_mark_address(tenant_id, warrant_id), Expect.ABSENT)
    return *unchanged, unmarked, Delete(listed, Expect.PRESENT), Put(moved, item, Expect.ABSENT)
