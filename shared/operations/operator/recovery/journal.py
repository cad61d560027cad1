"""Changes after the newest list, by the journal (OPS-23, docs/adr/14)."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from shared.authorizer.formats.wire import FeedEntry
from shared.errors import Corrupt
from shared.model.lists import journal as model
from shared.model.lists import signed_blob
from shared.model.lists.journal import Journal
from shared.model.lists.state import ListState
from shared.model.lists.tombstones import Tombstones
from shared.ports import Ports


@dataclass(frozen=True, slots=True)
class Replayed:
    """The content of the journal since the newest state.

    `revoked` are warrants with their ends, and `removed` those that are not to be refused any more.
    `tombstones` is None if they did not change. `gaps` has a sentence for each part that is
    missing or not valid.
    """

    sequence: int = 0
    issued_at: datetime | None = None
    revoked: Mapping[str, datetime | None] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    tombstones: Tombstones | None = None
    gaps: tuple[str, ...] = ()


def replay(
    ports: Ports, tenant_id: str, keys: Collection[bytes], states: Sequence[ListState]
) -> Replayed:
    """Replay what the blobs of the journal add to the newest states.

    `keys` are the public keys of signers that are believed. Raises `Unavailable`.
    """
    listed = max((each.sequence for each in states), default=0)
    changes = max((each.tombstones.changes for each in states), default=0)
    gaps: list[str] = []
    found = list(_newer(ports, tenant_id, keys, (listed, changes), gaps))[::-1]
    if not found:
        return Replayed(gaps=tuple(gaps))
    revoked: dict[str, datetime | None] = {}
    removed: set[str] = set()
    for entry, ends in _entries(found, listed, gaps):
        revoked |= dict(zip(entry.revoked, ends, strict=True))
        removed = removed.difference(entry.revoked).union(entry.removed)
        for each in entry.removed:
            revoked.pop(each, None)
    ended = _ended(found, changes, gaps)
    return Replayed(
        found[-1].sequence,
        found[-1].issued_at,
        revoked,
        frozenset(removed),
        model.merged(ended) if ended else None,
        tuple(gaps),
    )


def _newer(
    ports: Ports,
    tenant_id: str,
    keys: Collection[bytes],
    listed: tuple[int, int],
    gaps: list[str],
) -> Iterator[Journal]:
    """Yield the blobs that say more than the states do, newest first."""
    expected: int | None = None
    for name in ports.blobs.names(model.folder(tenant_id)):
        number = model.number_of(name)
        if expected is not None and number != expected:
            gaps.append(f"the journal lacks the blobs {number + 1} to {expected}")
        expected = number - 1
        try:
            found = _opened(ports.blobs.get(name) or b"", name, keys)
        except Corrupt as error:
            gaps.append(f"{name}: {error}")
            continue
        if found.sequence <= listed[0] and found.tombstones.changes <= listed[1]:
            return
        yield found


def _opened(blob: bytes, name: str, keys: Collection[bytes]) -> Journal:
    for key in keys:
        with suppress(signed_blob.NotSigned):
            return Journal.of(signed_blob.opened(blob, model.PREFIX, public_key=key), name=name)
    raise Corrupt("it is not signed by a signer of this tenant")


def _entries(
    found: Sequence[Journal], listed: int, gaps: list[str]
) -> Iterator[tuple[FeedEntry, list[datetime | None]]]:
    """Yield the entries after those that the states cover, and note what is missing."""
    after = listed
    for each in found:
        for entry, ends in each.opened_entries():
            if entry.sequence <= after:
                continue
            _note_gap(after, entry.sequence - 1, gaps)
            if entry.is_break:
                gaps.append(f"the list is missing that was to follow entry {entry.sequence}")
            after = entry.sequence
            yield entry, ends
        _note_gap(after, each.sequence, gaps)
        after = max(after, each.sequence)


def _note_gap(after: int, until: int, gaps: list[str]) -> None:
    if until > after:
        gaps.append(f"the journal lacks the entries {after + 1} to {until} of the feed")


def _ended(found: Sequence[Journal], changes: int, gaps: list[str]) -> list[Tombstones]:
    """Return the tombstones of the blobs before which they changed, the newest last."""
    ended = []
    for each in found:
        if each.changes > changes:
            gaps.append(f"the journal lacks ends before its blob {each.number}")
        if each.tombstones.changes > changes:
            changes = each.tombstones.changes
            ended.append(each.tombstones)
    return ended
