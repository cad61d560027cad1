"""How far a revocation has got: the feed, and the list."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from shared.model import feed as feed_model
from shared.model import times
from shared.model.feed import StoredEntry
from shared.model.revocations import Revocation
from shared.model.srl.schedule import warrant_mark_address
from shared.model.warrants import Standing, left_behind, warrant_address
from shared.operations.rules import tenants
from shared.operations.srl import feed_storage, in_force
from shared.ports import Ports

# How many entries of the feed are looked at, the newest first: a few, and then the rest.
_FEW: Final = 20
_MOST: Final = 1_000


class _Told(NamedTuple):
    """What an entry says of a warrant. `ends`: no older entry says anything of the revocation."""

    sequence: int
    revokes: bool
    is_break: bool
    ends: bool


class Reach(NamedTuple):
    """The first entry and the first list from which on clients refuse a warrant.

    Each is None if there is none yet, or if the warrant ended so long ago that it is not listed.
    """

    feed_sequence: int | None
    list_version: int | None


def of_revocation(ports: Ports, tenant_id: str, record: Revocation) -> Reach:
    """Return how far a revocation has got (REVOKE-8). Raises `Corrupt`, `Unavailable`."""
    mark = warrant_mark_address(tenant_id, record.warrant_id)
    standing = warrant_address(tenant_id, record.warrant_id)
    # Before the feed: a mark is removed only after the entry is written.
    items, settings = ports.gather(
        lambda: ports.store.get_many([mark, standing]), lambda: tenants.settings(ports, tenant_id)
    )
    newest, end = feed_storage.head(ports, tenant_id), Standing.of(items.get(standing)).end
    if newest is None or left_behind(end, ports.now(), ttl=settings.srl_ttl):
        return Reach(None, None)
    is_pending = mark in items
    sequence = _first(_told(ports, tenant_id, record), newest.sequence, is_pending=is_pending)
    return Reach(sequence, None if sequence is None else _list(ports, tenant_id, sequence))


def _first(told: Iterable[_Told], newest: int, *, is_pending: bool) -> int | None:
    """Return the first sequence from which on the feed has the warrant, without a gap.

    If the revocation is further back than is looked, this is the oldest sequence of those.
    `is_pending` is whether the feed may still have to tell of the warrant.
    """
    found, oldest = None, newest
    for each in told:
        if each.ends:
            return found
        oldest = each.sequence
        # Clients pass a break with a list that is made from all records.
        if each.revokes or (each.is_break and found is None and not is_pending):
            found = each.sequence
    return oldest if found is None and not is_pending else found


def _told(ports: Ports, tenant_id: str, record: Revocation) -> Iterator[_Told]:
    """Read what the feed says of the warrant, the newest entry first."""
    since = record.created_at - times.CLOCK_TOLERANCE
    partition, before = feed_model.feed(tenant_id), feed_model.HEAD
    for size in (_FEW, _MOST - _FEW):
        rows = ports.store.query(partition, before=before, newest_first=True, limit=size)
        for row in rows:
            stored, before = StoredEntry.from_item(row.item), row.sk
            entry, _ = stored.opened()
            ends = stored.issued_at < since or record.warrant_id in entry.removed
            revokes = record.warrant_id in entry.revoked
            yield _Told(entry.sequence, revokes=revokes, is_break=entry.is_break, ends=ends)


def _list(ports: Ports, tenant_id: str, sequence: int) -> int | None:
    """Return the lowest version that covers the sequence, of the lists whose heads are kept."""
    found = [in_force.head(ports, tenant_id), *in_force.history(ports, tenant_id)]
    covers = (each for each in found if each.sequence is not None and each.sequence >= sequence)
    return min((each.version for each in covers), default=None)
