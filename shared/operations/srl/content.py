"""The content of the next list: the list in force and the feed since, or all records.

The content of a list is exactly what the feed makes of the one before, so that clients of the feed
and readers of lists refuse the same warrants (docs/adr/0046).
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from shared.authorizer import wire
from shared.errors import Corrupt
from shared.model import identifiers, revocations
from shared.model.feed import LEAP, FeedHead, Leap, StoredEntry
from shared.model.items import Partition
from shared.model.records import moment
from shared.model.revocations import LONG_AGO
from shared.model.srl.content import Content
from shared.model.srl.head import Head
from shared.model.srl.tombstones import Tombstones
from shared.model.warrants import left_behind
from shared.operations.rules import revoked_signers
from shared.operations.rules.operation import reread
from shared.operations.rules.seals import SeedLost
from shared.operations.rules.verdicts import verdicts
from shared.operations.srl import ended, feed, feed_storage, tombstones
from shared.operations.srl.signed import signed_by
from shared.operations.srl.snapshot import Snapshot
from shared.ports import Ports

_log = logging.getLogger(__name__)

_Ends = dict[str, datetime | None]


@dataclass(frozen=True, slots=True)
class Found:
    """The content of a list, and what goes into its state.

    The list covers the feed up to `sequence`, where the chain is `chain`. `misplaced` are warrants
    in a shard that belong into its partition of ended ones (`ended`), or the reverse. `is_exact` is
    false if the feed lacks what the list says, because no entry could be signed. `leap` is a break
    at `sequence` that is still to be written.
    """

    content: Content
    tombstones: Tombstones
    sequence: int
    chain: bytes
    misplaced: tuple[str, ...] = ()
    is_exact: bool = True
    leap: Leap | None = None

    def leapt(self, now: datetime) -> "Found":
        """Return the same content, which also covers a break far above the feed.

        Clients begin with the list then, so it is exact, whatever could be signed before.
        """
        leap = Leap.over(self.sequence, self.chain, now)
        chain = leap.entry.chain
        return replace(self, sequence=leap.sequence, chain=chain, is_exact=True, leap=leap)


class Records(NamedTuple):
    """The content that all records give, and misplaced warrants (see `Found`)."""

    content: Content
    misplaced: tuple[str, ...]


def found(
    ports: Ports, snapshot: Snapshot, *, anew: bool = False, above: int | None = None
) -> Found:
    """Bring the feed up to date, and return the content of a list that covers it (SRL-12).

    If `anew` is true, or if the snapshot says so, the content is compared with all records, and the
    feed states the differences first. `above` is given after a restore: the highest sequence that
    is known to be published. Raises `Corrupt`, `Unavailable`.
    """
    tenant_id = snapshot.tenant_id
    if above is not None and feed_storage.head(ports, tenant_id) is not None:
        feed.break_off(ports, tenant_id, above=above)
    state = snapshot.previous.state
    made = _followed(ports, snapshot, also=snapshot.leaving(state.ends if state else {}))
    # A warrant that the feed stated since the list in force may have ended in the meantime.
    if made is not None and (ended_since := snapshot.leaving(made.content.ends)):
        made = _followed(ports, snapshot, also=ended_since)
    if made is None:
        return from_all_records(ports, snapshot, above)
    if not (anew or snapshot.is_compared):
        return made
    records = reread(lambda: _records(ports, snapshot))
    if differences := made.content.differences(records.content):
        made = _followed(ports, snapshot, also=differences)
    if made is None:
        return from_all_records(ports, snapshot, above)
    return replace(made, misplaced=records.misplaced)


def of_all_records(
    ports: Ports, tenant_id: str, signers: tuple[str, ...], *, since: datetime | None = None
) -> Records:
    """Return every warrant that has a revocation or that one of `signers` signed.

    If `since` is given, warrants that ended before it may be left out. Raises `Corrupt`,
    `Unavailable`.
    """
    ends: _Ends = {}
    moved: _Ends = {}

    def walk(shard: Partition) -> list[str]:
        ids: list[str] = []
        start = identifiers.BEFORE_WARRANT_IDS
        for page in ports.store.column(shard, "ends_at", after=start):
            ids += [warrant_id for warrant_id, _ in page]
            ending = ((warrant_id, at) for warrant_id, at in page if at is not None)
            ends.update((warrant_id, moment(at, "ends_at")) for warrant_id, at in ending)
        # After the shard: a warrant that is moved during the walk is then found at least once.
        moved.update(ended.read(ports, shard, since=since))
        return ids

    walks = ports.gather(*(partial(walk, each) for each in revocations.shards(tenant_id)))
    signed = dict(signed_by(ports, tenant_id, signers, since=since))
    # The set drops duplicates. Without `signed` and `moved` there are none, and sorting is fast.
    ids = {*chain(*walks), *signed, *moved} if signed or moved else chain(*walks)
    # The end that was given with a revocation does not count if the key is revoked too.
    content = Content.of(ids, moved | ends | signed, signers=signers)
    return Records(content, _misplaced(ends, moved, since))


def _followed(ports: Ports, snapshot: Snapshot, also: Collection[str]) -> Found | None:
    """Return what the feed makes of the list in force; None if all records must be read."""
    covered, is_signed = _up_to_date(ports, snapshot, also)
    (ids, state), start = snapshot.previous, snapshot.head.sequence
    if covered is None or ids is None or state is None or start is None:
        return None
    try:
        entries = feed_storage.entries(
            ports, snapshot.tenant_id, after=start, until=covered.sequence
        )
        opened = [each.opened() for each in _checked(entries, covered, snapshot.head)]
    except Corrupt as error:
        # Normal after a restore: the feed went on, and the records did not.
        _log.warning("the feed cannot be followed (%s); reading all records instead", error)
        return None
    if any(entry.is_break for entry, _ in opened):
        return None
    kept = state.tombstones
    signers = state.signers
    if kept.changes != snapshot.counted.tombstones:
        signers, kept = _ended(ports, snapshot)
    content = Content(ids, state.ends, state.signers).after(opened, signers=signers)
    chain, is_exact = covered.signed.chain, is_signed or not also
    return Found(content, kept, covered.sequence, chain, is_exact=is_exact)


def _checked(
    entries: Iterable[StoredEntry], covered: FeedHead, listed: Head
) -> Iterator[StoredEntry]:
    """Yield the entries that lead from a list to `covered`. Raises `Corrupt` if one was altered."""
    chain = covered.base.chain
    for each in entries:
        chain = wire.next_chain(chain, each.entry)
        yield each
    if covered.base.version == listed.version and chain != covered.signed.chain:
        raise Corrupt("an entry of the feed was altered")


def _up_to_date(
    ports: Ports, snapshot: Snapshot, also: Collection[str]
) -> tuple[FeedHead | None, bool]:
    """Bring the feed up to date; return its head, if there is one, and whether that succeeded."""
    try:
        published = feed.publish(ports, snapshot.tenant_id, also=also)
    except SeedLost as error:
        # Another signer is about to replace this one. It publishes what has a mark.
        _log.warning("no entry can be signed (%s); the list covers the feed as it is", error)
        return feed_storage.head(ports, snapshot.tenant_id), False
    return (published.head if published else None), True


def from_all_records(ports: Ports, snapshot: Snapshot, above: int | None) -> Found:
    """Return the content that all records give, with a break of the feed before it.

    A tenant without a feed begins one, after a restore above the one that it may have had.
    """
    # Read first: a change after that is in an entry that the list does not cover.
    covered, is_exact = feed_storage.head(ports, snapshot.tenant_id), True
    if covered is not None and not _breaks(covered, since=snapshot.head.sequence):
        try:
            covered = feed.break_off(ports, snapshot.tenant_id)
        except SeedLost:
            is_exact = False
    records = reread(lambda: _records(ports, snapshot))
    signers, kept = _ended(ports, snapshot)
    # A feed that lost its head may still have entries.
    left = feed_storage.last_entry(ports, snapshot.tenant_id) if covered is None else None
    known = [each for each in (above, snapshot.head.sequence, left) if each is not None]
    sequence = max(known) + LEAP if known else 0
    chain = wire.first_chain(snapshot.tenant_id)
    if covered is not None:
        sequence, chain = covered.sequence, covered.signed.chain
    made = replace(records.content, signers=signers)
    return Found(made, kept, sequence, chain, records.misplaced, is_exact)


def _breaks(covered: FeedHead, since: int | None) -> bool:
    return covered.is_broken if since is None else covered.broke_at > since


def _ended(ports: Ports, snapshot: Snapshot) -> tuple[tuple[str, ...], Tombstones]:
    tenant_id, changes = snapshot.tenant_id, snapshot.counted.tombstones
    signers = revoked_signers.read(ports, tenant_id)
    return signers, tombstones.gathered(ports, tenant_id, changes=changes)


def _records(ports: Ports, snapshot: Snapshot) -> Records:
    """Return what all records say now, without the warrants that SRL-9 leaves out.

    Raises `Corrupt` if a warrant of the list in force is missing but still revoked; `Unavailable`.
    """
    tenant_id, since = snapshot.tenant_id, snapshot.listed_since
    signers = revoked_signers.read(ports, tenant_id)
    records = of_all_records(ports, tenant_id, signers, since=since)
    _check_departures(ports, snapshot, records.content)
    return records._replace(content=records.content.at(snapshot.issued_at, ttl=snapshot.lifetime))


def _check_departures(ports: Ports, snapshot: Snapshot, content: Content) -> None:
    """Raise `Corrupt` if a warrant of the list in force is not in `content` but still revoked."""
    gone = content.missing(snapshot.previous.revoked_ids or [])
    still_revoked = [
        warrant_id
        for warrant_id, verdict in verdicts(ports, snapshot.tenant_id, gone).items()
        if verdict.revoked
        and not left_behind(verdict.ends_at, snapshot.issued_at, ttl=snapshot.lifetime)
    ]
    if still_revoked:
        raise Corrupt(f"a revoked warrant is missing from its shard: {min(still_revoked)}")


def _misplaced(ends: _Ends, moved: _Ends, since: datetime | None) -> tuple[str, ...]:
    if since is None:
        return ()
    over = (each for each, at in ends.items() if at is not None and at < since - LONG_AGO)
    return tuple(islice(chain(moved, over), ended.MOVED_A_LIST))
