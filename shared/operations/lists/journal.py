"""Writing the journal after each publication of the feed (OPS-23, docs/adr/14).

The blobs decide what is written next, not the store, so the pass after one that was stopped writes
the missing part.
"""

import hashlib
import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from shared.errors import BlobExists, Corrupt, Unavailable
from shared.model import times
from shared.model.feed import FeedHead, StoredEntry
from shared.model.lists import journal as model
from shared.model.lists import signed_blob
from shared.model.lists.journal import NOTHING, Journal
from shared.model.lists.tombstones import Tombstones
from shared.operations.base import counters, seals
from shared.operations.lists import in_force, records
from shared.ports import Ports

# The list in force has what is older; the clocks of processes differ by less.
_MARGIN: Final = timedelta(minutes=10)
# How often another process may write a blob of the same number first.
_TRIES: Final = 5

_log = logging.getLogger(__name__)


class JournalPosition(NamedTuple):
    """Where a journal ends: its last blob, and what that covers of the feed and the tombstones."""

    number: int
    previous: bytes
    sequence: int
    changes: int


_START: Final = JournalPosition(0, NOTHING, 0, 0)


class Journals:
    """The journals of all tenants, as this process wrote them last. Safe to share."""

    def __init__(self) -> None:
        self._ends: dict[str, JournalPosition] = {}

    def catch_up(self, ports: Ports, tenant_id: str) -> None:
        """Write what was published since the last blob, if anything was.

        Costs three reads if nothing was. Raises `Corrupt` if the records are older than the
        journal, `Unavailable`.
        """
        for _ in range(_TRIES):
            end = self._ends.get(tenant_id) or position(ports, tenant_id)
            try:
                after = _written(ports, tenant_id, end)
            except BlobExists:
                # Another process wrote this number.
                self._ends.pop(tenant_id, None)
            else:
                self._ends[tenant_id] = after
                return
        raise Unavailable("other processes wrote the journal during every attempt")


def position(ports: Ports, tenant_id: str) -> JournalPosition:
    """Return where the journal ends, by its newest blob: one listing, one read.

    Raises `Corrupt`, `Unavailable`.
    """
    name = next(ports.blobs.names(model.folder(tenant_id)), "")
    blob = ports.blobs.get(name) if name else None
    if blob is None:
        return _START
    # Its signature is checked by a recovery. Here it decides only what is written, or refused.
    found = Journal.of(signed_blob.claimed(blob, model.PREFIX), name=name)
    digest = hashlib.sha256(blob).digest()
    return JournalPosition(found.number, digest, found.sequence, found.tombstones.changes)


def check_not_ahead(ports: Ports, tenant_id: str) -> None:
    """Raise `Corrupt` if the records are older than the journal (OPS-22); `Unavailable`."""
    # Before the records: a blob is written after what it says.
    end = position(ports, tenant_id)
    head = in_force.feed_head(ports, tenant_id)
    _check(end, head, counters.of_tombstones(ports, tenant_id))


def _check(end: JournalPosition, head: FeedHead | None, changes: int) -> None:
    sequence = 0 if head is None else head.sequence
    if (sequence, changes) != (max(sequence, end.sequence), max(changes, end.changes)):
        raise Corrupt(
            f"the records are older than the journal: they end at entry {sequence} of the feed, "
            f"and the journal at {end.sequence}"
        )


def _written(ports: Ports, tenant_id: str, end: JournalPosition) -> JournalPosition:
    """Write the next blob, if there is anything to say; return where the journal ends then."""
    head, changes = ports.gather(
        lambda: in_force.feed_head(ports, tenant_id),
        lambda: counters.of_tombstones(ports, tenant_id),
    )
    _check(end, head, changes)
    if head is None or (head.sequence, changes) == (end.sequence, end.changes):
        return end
    entries = _entries(ports, tenant_id, head, end)
    if entries is None:
        return end
    if not entries and changes == end.changes:
        # A list covers the rest.
        return end._replace(sequence=head.sequence)
    listed, signer = in_force.head_and_signer(ports, tenant_id)
    ended = Tombstones(changes)
    if changes != end.changes:
        found = records.tombstones(ports, tenant_id, changes=changes)
        ended = model.since(found, listed.issued_at - _MARGIN)
    now = times.whole(ports.now())
    made = Journal(
        tenant_id,
        end.number + 1,
        now,
        end.previous,
        head.sequence,
        end.changes,
        tombstones=ended,
    )
    blob = made.with_entries(entries).sign(seed=seals.opened(ports, signer))
    ports.blobs.put(made.name, blob)
    return JournalPosition(made.number, hashlib.sha256(blob).digest(), made.sequence, changes)


def _entries(
    ports: Ports, tenant_id: str, head: FeedHead, end: JournalPosition
) -> Sequence[StoredEntry] | None:
    """Return the entries that no blob and no list has; None if a list is about to be published."""
    start = max(end.sequence, head.base.sequence)
    try:
        return list(in_force.entries(ports, tenant_id, after=start, until=head.sequence))
    except Corrupt as error:
        # The feed leapt, and the list after it is published next; it has all.
        _log.warning("the journal of %s waits for the next list: %s", tenant_id, error)
        return None
