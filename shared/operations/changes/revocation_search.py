"""Search the revocations, with a bounded cost for each page (REVOKE-30, docs/adr/19)."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from shared.model import revocation_batches as batches
from shared.model import revocations as model
from shared.model.callers import Caller
from shared.model.identifiers import BATCH, BEFORE_WARRANT_IDS, is_identifier
from shared.model.items import ItemRow
from shared.model.revocation_batches import BatchPart
from shared.model.revocations import Revocation, RevocationFilters
from shared.model.warrants import of_by_end
from shared.operations.base.paging import Page, merge_partitions
from shared.operations.changes import revocation_changes as changes
from shared.ports import Ports

# The most records that one page reads.
_READ_MOST: Final = 1000
# The most warrants of a page for which a search by name reads the stored records.
_NAMED_MOST: Final = 100


class _ReadRecord(NamedTuple):
    """A record that was read, or None if it is gone, and the position after it."""

    position: str
    record: Revocation | None


class _NamedPosition(NamedTuple):
    """A position in a search by name, and the warrant there, or None if it does not match."""

    position: str
    name: str | None


def page(
    ports: Ports, caller: Caller, *, filters: RevocationFilters, before: str | None, limit: int
) -> Page[Revocation]:
    """Return a page of the revocations that match `filters`. Its total is unknown.

    The page may have fewer than `limit` revocations, or none, although more follow. It then has a
    position.
    """
    if filters.warrant_id is not None:
        of_warrant = [] if before else [_NamedPosition("", filters.warrant_id)]
        records = _read_by_name(ports, caller, of_warrant)
        return _filter_page(records, filters, limit, has_more=False)
    if filters.warrant_prefix is not None and filters.batch_id is None:
        return _search_by_name(ports, caller, filters, before, limit)
    most = _READ_MOST if filters.are_selective else min(_READ_MOST, limit + 1)
    if filters.batch_id is not None:
        of_batch = revocations_of_batch(ports, caller, filters.batch_id, before)
        entries = list(islice(of_batch, most + 1))
        stored = changes.records(ports, caller.tenant_id, (each for _, each in entries[:most]))
        records = [
            _ReadRecord(position, stored[each][1] if each in stored else None)
            for position, each in entries[:most]
        ]
        return _filter_page(records, filters, limit, has_more=len(entries) > most)
    rows, _ = merge_partitions(
        ports,
        model.records(caller.tenant_id),
        limit=most + 1,
        after=filters.lower_bound,
        before=min(filter(None, (before, filters.upper_bound)), default=None),
    )
    read = [_ReadRecord(row.sk, Revocation.from_item(row.item)) for row in rows[:most]]
    return _filter_page(read, filters, limit, has_more=len(rows) > most)


def _filter_page(
    read: Sequence[_ReadRecord], filters: RevocationFilters, limit: int, *, has_more: bool
) -> Page[Revocation]:
    """Return the page of the matching records.

    The next page begins after the last filtered record.
    """
    entries: list[Revocation] = []
    last: str | None = None
    for position, record in read:
        if record is not None and filters.hold(record):
            if len(entries) == limit:
                return Page(entries, None, last)
            entries.append(record)
        last = position
    return Page(entries, None, last if has_more else None)


def _search_by_name(
    ports: Ports, caller: Caller, filters: RevocationFilters, position: str | None, limit: int
) -> Page[Revocation]:
    """Return a page in order of names; warrants past retention come last, in order of expiry.

    A position is the name of a warrant, or an expiry with a name.
    """
    is_alone = filters == RevocationFilters(warrant_prefix=filters.warrant_prefix)
    most = limit if is_alone else _NAMED_MOST
    is_ended = position is not None and not position.startswith(BEFORE_WARRANT_IDS)
    shards = model.shards(caller.tenant_id)
    rows: list[ItemRow] = []
    if not is_ended:
        rows, _ = merge_partitions(
            ports,
            shards,
            limit=most + 1,
            newest_first=False,
            after=max(filter(None, (position, filters.names_after))),
            before=filters.names_before,
        )
    positions, has_more = [_NamedPosition(row.sk, row.sk) for row in rows[:most]], len(rows) > most
    if not has_more:
        rows, _ = merge_partitions(
            ports,
            [model.ended_partition(each) for each in shards],
            limit=_READ_MOST + 1,
            newest_first=False,
            after=position if is_ended else None,
        )
        has_more, room = len(rows) > _READ_MOST, most - len(positions)
        # These are not in order of names, so each name is compared.
        for row in rows[:_READ_MOST]:
            name, _ = of_by_end(row.sk)
            matches = name.startswith(filters.warrant_prefix or "")
            if matches and not room:
                has_more = True
                break
            room -= matches
            positions.append(_NamedPosition(row.sk, name if matches else None))
    return _filter_page(_read_by_name(ports, caller, positions), filters, limit, has_more=has_more)


def _read_by_name(
    ports: Ports, caller: Caller, positions: Sequence[_NamedPosition]
) -> list[_ReadRecord]:
    """Read the records of the warrants that have a name."""
    names = [name for _, name in positions if name is not None]
    standings = changes.standings(ports, caller.tenant_id, names)
    ids = {name: each.revocation_id for name, each in standings.items() if each.revocation_id}
    records = changes.records(ports, caller.tenant_id, ids.values()) if ids else {}
    return [
        _ReadRecord(position, records.get(ids.get(name or "", ""), (None, None))[1])
        for position, name in positions
    ]


def revocations_of_batch(
    ports: Ports, caller: Caller, batch_id: str, position: str | None
) -> Iterator[tuple[str, str]]:
    """Yield the revocations that a batch made after `position`, each with its position."""
    # No batch has a malformed identifier, and some are not valid as store keys.
    if not is_identifier(batch_id, kind=BATCH):
        return
    partition = batches.parts(caller.tenant_id, batch_id)
    part_sk, _, last = (position or "").rpartition("#")
    if part_sk:
        item = ports.store.get(partition.address(part_sk))
        ids = BatchPart.from_item(item).revocation_ids if item else ()
        if last in ids:
            rest = ids[ids.index(last) + 1 :]
            yield from ((f"{part_sk}#{each}", each) for each in rest)
    for row in ports.store.query(partition, after=part_sk or None):
        ids = BatchPart.from_item(row.item).revocation_ids
        yield from ((f"{row.sk}#{each}", each) for each in ids)
