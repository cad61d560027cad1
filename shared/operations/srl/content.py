"""What is revoked now: read anew, or followed from the list before (docs/adr/0019)."""

from collections.abc import Collection, Iterator
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from shared.model import identifiers, revocations, warrants
from shared.model.items import Partition
from shared.model.records import moment
from shared.model.revocations import LONG_AGO
from shared.model.revoked_signers import by_key
from shared.model.srl.content import Content
from shared.model.warrants import Warrant
from shared.operations.rules.verdicts import verdicts
from shared.operations.srl import ended as srl_ended
from shared.operations.srl import signed_by_end
from shared.ports import Ports

_Ends = dict[str, datetime | None]


class Found(NamedTuple):
    """The content of a list, and which of the changed warrants have a revocation of their own.

    `misplaced` are warrants that ended long ago and are still read, or the reverse (`srl_ended`).
    """

    content: Content
    revoked: frozenset[str]
    misplaced: tuple[str, ...] = ()


def rebuilt(
    ports: Ports,
    tenant_id: str,
    signers: tuple[str, ...],
    *,
    changed: Collection[str] = (),
    since: datetime | None = None,
) -> Found:
    """Every warrant with a revocation, or of a revoked key.

    With `since`, what is known to have ended before is not needed, and may be left out. Raises
    `Corrupt`, `Unavailable`.
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
        # Only now: what is moved meanwhile is found in one place or in both.
        moved.update(srl_ended.read(ports, shard, since=since))
        return ids

    walks = ports.gather(*(partial(walk, each) for each in revocations.shards(tenant_id)))
    signed = _signed(ports, tenant_id, signers, since)
    revoked = frozenset(changed).intersection(chain(*walks))
    # Some may be revoked by their key as well. Without, the walks are sorted runs, quick to merge.
    ids = {*chain(*walks), *signed, *moved} if signed or moved else chain(*walks)
    content = Content.of(ids, signed | moved | ends, signers=signers)
    return Found(content, revoked, _misplaced(ends, moved, since))


def followed(
    ports: Ports,
    tenant_id: str,
    base: Content,
    *,
    changed: Collection[str],
    signers: tuple[str, ...],
    since: datetime | None = None,
) -> Found:
    """`base` with what is true now of the warrants in `changed`, and with those of new `signers`.

    `since` is as in `rebuilt`.

    Reads in proportion to both. Raises `Corrupt`, `Unavailable`.
    """
    found = verdicts(ports, tenant_id, changed) if changed else {}
    revoked: _Ends = {each: v.ends_at for each, v in found.items() if v.revoked}
    own = frozenset(each for each in revoked if not found[each].by_key)
    new = set(signers).difference(base.signers)
    revoked = _signed(ports, tenant_id, new, since) | revoked
    return Found(base.changed(changed, revoked, signers=signers), own)


def _misplaced(ends: _Ends, moved: _Ends, since: datetime | None) -> tuple[str, ...]:
    if since is None:
        return ()
    over = (each for each, at in ends.items() if at is not None and at < since - LONG_AGO)
    return tuple(islice(chain(moved, over), srl_ended.MOVED_A_LIST))


def _signed(
    ports: Ports, tenant_id: str, signers: Collection[str], since: datetime | None
) -> _Ends:
    """What these signers signed; what ended before `since` may be left out."""
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
    """All that a key signed: identifier, version of the key, end."""
    for entry in ports.store.query(warrants.signed_by(tenant_id, key_id)):
        warrant = Warrant.from_item(entry.item)
        yield warrant.warrant_id, warrant.key_version, warrant.ends_at
