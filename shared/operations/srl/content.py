"""The content of the next list: from all records, or from the list in force (docs/adr/0019)."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain, islice

from shared.errors import Corrupt
from shared.model import identifiers, revocations, warrants
from shared.model.items import Partition
from shared.model.records import moment
from shared.model.revocations import LONG_AGO
from shared.model.revoked_signers import by_key
from shared.model.srl.content import Content
from shared.model.srl.tombstones import Tombstones
from shared.model.warrants import Warrant, left_behind
from shared.operations.rules import revoked_signers
from shared.operations.rules.verdicts import verdicts
from shared.operations.srl import ended, signed_by_end, tombstones
from shared.operations.srl.snapshot import Snapshot
from shared.ports import Ports

_Ends = dict[str, datetime | None]


@dataclass(frozen=True, slots=True)
class Found:
    """The content of a list, and what was read with it.

    `revoked` are the changed warrants with a revocation of their own, not only of their key.
    `misplaced` are warrants in a shard that belong into its partition of ended ones (`ended`), or
    the reverse. `tombstones` are for the state of the list.
    """

    content: Content
    revoked: frozenset[str]
    misplaced: tuple[str, ...] = ()
    tombstones: Tombstones = field(default_factory=Tombstones)


def followed(ports: Ports, snapshot: Snapshot) -> Found:
    """Return the content of the list in force, updated by the warrants that changed since.

    The number of reads is proportional to the changes. Raises `Corrupt`, also if the list in force
    or its state could not be read; `Unavailable`.
    """
    ids, state = snapshot.previous
    if ids is None or state is None:
        raise Corrupt("the list in force cannot be followed")
    tenant_id, changed = snapshot.tenant_id, snapshot.changed
    base = Content(ids, state.ends, state.signers)
    signers, kept = base.signers, state.tombstones
    if kept.changes != snapshot.counted.tombstones:
        signers = revoked_signers.read(ports, tenant_id)
        kept = tombstones.gathered(ports, tenant_id, changes=snapshot.counted.tombstones)
    new = set(signers).difference(base.signers)
    signed = _signed(ports, tenant_id, new, snapshot.listed_since)
    found = verdicts(ports, tenant_id, changed) if changed else {}
    revoked: _Ends = {each: v.ends_at for each, v in found.items() if v.revoked}
    own = frozenset(each for each in revoked if not found[each].by_key)
    content = base.changed(changed, signed | revoked, signers=signers)
    return Found(content, own, tombstones=kept)


def rebuilt(ports: Ports, snapshot: Snapshot) -> Found:
    """Return the content of the next list, made from all records.

    Raises `Corrupt` if a warrant of the list in force is missing but still revoked; `Unavailable`.
    """
    tenant_id, since = snapshot.tenant_id, snapshot.listed_since
    signers = revoked_signers.read(ports, tenant_id)
    found = of_all_records(ports, tenant_id, signers, changed=snapshot.changed, since=since)
    _check_departures(ports, snapshot, found.content)
    kept = tombstones.gathered(ports, tenant_id, changes=snapshot.counted.tombstones)
    return replace(found, tombstones=kept)


def of_all_records(
    ports: Ports,
    tenant_id: str,
    signers: tuple[str, ...],
    *,
    changed: Collection[str] = (),
    since: datetime | None = None,
) -> Found:
    """Return every warrant that has a revocation or that one of `signers` signed.

    `changed` are the warrants that `Found.revoked` is about. If `since` is given, warrants that
    ended before it may be left out. Raises `Corrupt`, `Unavailable`.
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
    signed = _signed(ports, tenant_id, signers, since)
    revoked = frozenset(changed).intersection(chain(*walks))
    # The set drops duplicates. Without `signed` and `moved` there are none, and sorting is fast.
    ids = {*chain(*walks), *signed, *moved} if signed or moved else chain(*walks)
    content = Content.of(ids, signed | moved | ends, signers=signers)
    return Found(content, revoked, _misplaced(ends, moved, since))


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


def _signed(
    ports: Ports, tenant_id: str, signers: Collection[str], since: datetime | None
) -> _Ends:
    """Return what these signers signed; warrants that ended before `since` may be left out."""
    if not signers:
        return {}
    if since is None or not signed_by_end.is_complete(ports, tenant_id):
        walk = partial(_all_signed, ports, tenant_id)
    else:
        walk = partial(signed_by_end.signed, ports, tenant_id, since=since)
    return {
        warrant_id: ends_at
        for key_id, versions in by_key(signers).items()
        for warrant_id, version, ends_at in walk(key_id)
        if versions & {None, version}
    }


def _all_signed(
    ports: Ports, tenant_id: str, key_id: str
) -> Iterator[tuple[str, int, datetime | None]]:
    """Read all that a key signed: warrant identifier, version of the key, end."""
    for entry in ports.store.query(warrants.signed_by(tenant_id, key_id)):
        warrant = Warrant.from_item(entry.item)
        yield warrant.warrant_id, warrant.key_version, warrant.ends_at
