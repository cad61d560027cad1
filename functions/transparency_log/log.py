"""The transparency log: its log head, entry commitments, tiles, entries, and their index.

Each append pass indexes entries by warrant (LOG-26).
"""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Final

from functions.transparency_log import checkpoint, merkle
from functions.transparency_log import head as model
from functions.transparency_log.checkpoint import PinnedCheckpoint
from functions.transparency_log.head import LogHead
from functions.transparency_log.merkle import WIDTH, TileAddress
from shared.authorizer.formats.trust import LogAnchor
from shared.errors import BlobExists, DataCorrupt
from shared.model.audit import audit_log
from shared.model.audit import records as record_model
from shared.model.audit.audit_log import AuditEntry
from shared.model.audit.records import EntryCommitment
from shared.model.items import Item
from shared.operations.audit import audit_log as audit_entries
from shared.ports import Ports
from shared.ports.store import MOST_CHANGES, Expect, Put

FIRST_GENERATION: Final = 1

# On one machine, all checkpoints but the newest are removed after this time. On AWS, a lifecycle
# rule of the bucket removes them.
_OLD_SECONDS: Final = 600.0
# Sorts after the names of all checkpoints.
_ALL: Final = "~"


def head(ports: Ports, tenant_id: str) -> LogHead | None:
    """Return the log head of a tenant, or None if the log is empty. Raises `Unavailable`."""
    return LogHead.from_optional(ports.store.get(model.address(tenant_id)))


def records(ports: Ports, tenant_id: str, first: int, end: int) -> list[EntryCommitment]:
    """Return the commitments of the leaves from `first` to `end`, or to the end of the log.

    Raises `DataCorrupt` if a bundle is missing or malformed, `Unavailable`.
    """
    newest = head(ports, tenant_id)
    if newest is None:
        return []
    return [EntryCommitment.parse(each) for each in data(ports, tenant_id, newest, first, end)]


def entries(
    ports: Ports, tenant_id: str, first: int, end: int
) -> list[tuple[int, AuditEntry | None]]:
    """Return the entries of these leaves with their indexes.

    An entry that expired or was removed is None. Raises `DataCorrupt`, `Unavailable`.
    """
    commitments, now = records(ports, tenant_id, first, end), ports.now().timestamp()
    alive = [each.id for each in commitments if each.expires > now]
    items = audit_entries.read_entries(ports, tenant_id, alive)
    return [
        (index, AuditEntry.from_optional(items.get(each.id)))
        for index, each in enumerate(commitments, first)
    ]


def data(ports: Ports, tenant_id: str, head: LogHead, first: int, end: int) -> list[bytes]:
    """Return the commitments of these leaves, 56 bytes each.

    Raises `DataCorrupt`, `Unavailable`.
    """

    def read_bundle(number: int) -> list[bytes]:
        name = model.blob(tenant_id, head.generation, TileAddress(None, number))
        bundle = merkle.parse_bundle(ports.blobs.get(name) or b"")
        if bundle is None or len(bundle) != WIDTH:
            raise DataCorrupt(f"bundle {number} of the transparency log is missing or malformed")
        return bundle

    start, last = first // WIDTH, -(-min(end, head.stored) // WIDTH)
    reads = [partial(read_bundle, number) for number in range(start, last)]
    stored = chain.from_iterable(ports.gather(*reads)) if reads else ()
    begins = start * WIDTH if reads else head.stored
    every = [*stored, *head.unstored_records]
    return every[max(first - begins, 0) : max(end - begins, 0)]


def find(ports: Ports, tenant_id: str, head: LogHead, entry_id: str) -> int | None:
    """Return the leaf index of an entry, or None if it is not in the log.

    The log is approximately in the order of identifiers, so the nearby leaves are read first.
    Raises `DataCorrupt`, `Unavailable`.
    """
    ulid = record_model.ulid_of(entry_id)
    low, high = 0, head.stored // WIDTH
    while low < high:
        middle = (low + high) // 2
        ahead = _ulids(ports, tenant_id, head, middle * WIDTH, middle * WIDTH + 1)
        low, high = (middle + 1, high) if ahead[0] <= ulid else (low, middle)
    near = (max(low - 2, 0) * WIDTH, (low + 1) * WIDTH)
    tail = (head.stored, head.size)
    made_ms = record_model.milliseconds(ulid)
    for first, end in (near, tail, *reversed(head.leaves_since(made_ms))):
        ulids = _ulids(ports, tenant_id, head, first, end)
        if ulid in ulids:
            return first + ulids.index(ulid)
    return None


def _ulids(ports: Ports, tenant_id: str, head: LogHead, first: int, end: int) -> list[bytes]:
    return list(record_model.ulids(b"".join(data(ports, tenant_id, head, first, end))))


class LogTree:
    """The Merkle tree of a log head, with its tiles and bundles, stored or not."""

    def __init__(self, ports: Ports, tenant_id: str, head: LogHead) -> None:
        self._ports, self._tenant_id, self._head = ports, tenant_id, head
        leaves = [record_model.leaf(each) for each in head.unstored_records]
        self._edge, full = head.edge.append(leaves)
        self._read = {place: merkle.hashes(tile) for place, tile in full.items()}

    def tile(self, place: TileAddress) -> bytes | None:
        """Return a tile or bundle as it is served, or None if the log is too short.

        Raises `DataCorrupt`, `Unavailable`.
        """
        first, end = place.number * WIDTH, place.number * WIDTH + place.width
        if end > merkle.count(place.level or 0, self._head.size):
            return None
        if place.level is None:
            return merkle.bundle(data(self._ports, self._tenant_id, self._head, first, end))
        return b"".join(self._hashes(TileAddress(place.level, place.number))[: place.width])

    def root(self, size: int) -> bytes:
        """Return the root over the first `size` leaves. Raises `DataCorrupt`, `Unavailable`."""
        return merkle.root(size, self._subtree)

    def path(self, index: int) -> list[bytes]:
        """Return the path of a leaf to the root. Raises `DataCorrupt`, `Unavailable`."""
        return merkle.inclusion(index, self._head.size, self._subtree)

    def extends(self, size: int) -> list[bytes]:
        """Return the proof that the log extends its first `size` leaves (RFC 6962, 2.1.2).

        Raises `DataCorrupt`, `Unavailable`.
        """
        return merkle.consistency(size, self._head.size, self._subtree)

    def _subtree(self, level: int, number: int) -> bytes:
        place, first = merkle.holding(level, number)
        return merkle.perfect(self._hashes(place)[first : first + (1 << level % 8)])

    def _hashes(self, place: TileAddress) -> list[bytes]:
        """Return the hashes of a tile. A partial tile has only its existing hashes."""
        level, number, _ = place
        if level is None or number == merkle.count(level + 1, self._head.size):
            return list(self._edge.levels[level or 0])
        if place not in self._read:
            name = model.blob(self._tenant_id, self._head.generation, place)
            self._read[place] = merkle.hashes(self._ports.blobs.get(name) or b"")
            if len(self._read[place]) != WIDTH:
                raise DataCorrupt(
                    f"the tile {place.path} of the transparency log is missing or malformed"
                )
        return self._read[place]


def store_tiles(ports: Ports, tenant_id: str, head: LogHead) -> None:
    """Store the full tiles of a stored log head that are not stored yet.

    Raises `DataCorrupt` if a tile exists with other content, `OutOfSpace`, `Unavailable`.
    """
    for place, content in head.full_tiles().items():
        name = model.blob(tenant_id, head.generation, place)
        try:
            ports.blobs.put(name, content)
        except BlobExists:
            # An earlier pass was interrupted, or a concurrent pass stores the same tile.
            if ports.blobs.get(name) != content:
                raise DataCorrupt(
                    f"the tile {place.path} of the transparency log contains other hashes"
                ) from None


def index(ports: Ports, tenant_id: str, entries: Iterable[Item]) -> None:
    """Index entries that are about to be appended.

    Repeating it is harmless. Raises `Unavailable`.
    """
    items = chain.from_iterable(audit_log.index_items(tenant_id, each) for each in entries)
    changes = [Put(address, item, Expect.ANYTHING) for address, item in items]
    for start in range(0, len(changes), MOST_CHANGES):
        ports.store.write(*changes[start : start + MOST_CHANGES])


def newest_checkpoint(ports: Ports, tenant_id: str) -> PinnedCheckpoint | None:
    """Return the newest checkpoint that is kept, or None. Raises `DataCorrupt`, `Unavailable`.

    Costs one listing.
    """
    names = ports.blobs.names(checkpoint.folder(tenant_id))
    # The checkpoint of an empty generation has a longer name, which precedes checkpoints with
    # leaves.
    return max(map(PinnedCheckpoint.parse, islice(names, 2)), default=None)


def anchor(ports: Ports, tenant_id: str) -> LogAnchor | None:
    """Return the log anchor for a new trust document or journal record (LOG-12).

    Returns None if the log is still empty. Costs one listing. Raises `DataCorrupt`, `Unavailable`.
    """
    newest = newest_checkpoint(ports, tenant_id)
    return None if newest is None else newest.anchor(tenant_id)


def keep_checkpoint(
    ports: Ports, tenant_id: str, pinned_checkpoint: PinnedCheckpoint, note: str = ""
) -> None:
    """Keep a checkpoint; `note` is its signed text. Raises `OutOfSpace`, `Unavailable`."""
    with suppress(BlobExists):
        ports.blobs.put(pinned_checkpoint.name(tenant_id), note.encode())
    folder = checkpoint.folder(tenant_id)
    ports.blobs.discard(folder, before=_ALL, older_than_seconds=_OLD_SECONDS)
