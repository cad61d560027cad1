"""Reading the sealed log: its head, records, tiles, and the entries that they are about."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from shared.errors import BlobExists, Corrupt
from shared.model.audit import audit_log, merkle
from shared.model.audit import head as model
from shared.model.audit import records as record_model
from shared.model.audit.audit_log import AuditEntry
from shared.model.audit.head import LogHead
from shared.model.audit.merkle import WIDTH, Place
from shared.model.audit.records import AuditRecord
from shared.model.items import Address, Item
from shared.ports import Ports

FIRST_GENERATION: Final = 1


def head(ports: Ports, tenant_id: str) -> LogHead | None:
    """Return the head of a tenant's log, or None if nothing is sealed. Raises `Unavailable`."""
    item = ports.store.get(model.address(tenant_id))
    return None if item is None else LogHead.from_item(item)


def records(ports: Ports, tenant_id: str, first: int, end: int) -> list[AuditRecord]:
    """Return the records of the leaves from `first` to `end`, or to the end of the log.

    Raises `Corrupt` if a bundle is missing or malformed, `Unavailable`.
    """
    found = head(ports, tenant_id)
    if found is None:
        return []
    return [AuditRecord.parse(each) for each in data(ports, tenant_id, found, first, end)]


def entries(
    ports: Ports, tenant_id: str, first: int, end: int
) -> list[tuple[int, AuditEntry | None]]:
    """Return the entries of these leaves with their indexes; None if one expired or was removed.

    Raises `Corrupt`, `Unavailable`.
    """
    wanted = records(ports, tenant_id, first, end)
    found = by_record(ports, tenant_id, wanted)
    return [(first + number, found.get(each.id)) for number, each in enumerate(wanted)]


def by_record(ports: Ports, tenant_id: str, wanted: Sequence[AuditRecord]) -> dict[str, AuditEntry]:
    """Return the entries of these records that have not expired, by identifier.

    Raises `Unavailable`.
    """
    now = ports.now().timestamp()
    alive = [each.id for each in wanted if each.expires > now]
    items = stored(ports, tenant_id, alive)
    return {entry_id: AuditEntry.from_item(item) for entry_id, item in items.items()}


def stored(ports: Ports, tenant_id: str, entry_ids: Sequence[str]) -> dict[str, Item]:
    """Return the items of these entries that exist, by identifier. Raises `Unavailable`."""

    def read(address: Callable[[str], Address], wanted: Sequence[str]) -> dict[str, Item]:
        items = ports.store.get_many([address(each) for each in wanted])
        return {each.sk: item for each, item in items.items()}

    def sharded(entry_id: str) -> Address:
        return audit_log.address(tenant_id, entry_id, record_model.moment(entry_id))

    def first(entry_id: str) -> Address:
        month, *_ = audit_log.month(tenant_id, record_model.moment(entry_id))
        return month.address(entry_id)

    found = read(sharded, entry_ids)
    # Earlier releases stored all entries in the first partition of a month.
    missing = [each for each in entry_ids if each not in found]
    return found | read(first, missing)


def data(ports: Ports, tenant_id: str, found: LogHead, first: int, end: int) -> list[bytes]:
    """Return the records of these leaves, of 56 bytes each. Raises `Corrupt`, `Unavailable`."""
    start, last = first // WIDTH, -(-min(end, found.stored) // WIDTH)
    read = [partial(_bundle, ports, tenant_id, found, number) for number in range(start, last)]
    bundles = [each for bundle in ports.gather(*read) for each in bundle] if read else []
    begins = start * WIDTH if read else found.stored
    every = bundles + found.unstored
    return every[max(first - begins, 0) : max(end - begins, 0)]


def find(ports: Ports, tenant_id: str, found: LogHead, entry_id: str) -> int | None:
    """Return the leaf of an entry, or None if it is not sealed. Raises `Corrupt`, `Unavailable`.

    The log is about in the order of identifiers, so the neighbourhood is read first.
    """
    ulid = record_model.ulid_of(entry_id)
    low, high = 0, found.stored // WIDTH
    while low < high:
        middle = (low + high) // 2
        ahead = _ulids(ports, tenant_id, found, middle * WIDTH, middle * WIDTH + 1)
        low, high = (middle + 1, high) if ahead[0] <= ulid else (low, middle)
    near = (max(low - 2, 0) * WIDTH, (low + 1) * WIDTH)
    tail = (found.stored, found.size)
    made_ms = record_model.milliseconds(ulid)
    for first, end in (near, tail, *reversed(found.since(made_ms))):
        ulids = _ulids(ports, tenant_id, found, first, end)
        if ulid in ulids:
            return first + ulids.index(ulid)
    return None


def _ulids(ports: Ports, tenant_id: str, found: LogHead, first: int, end: int) -> list[bytes]:
    return list(record_model.ulids(b"".join(data(ports, tenant_id, found, first, end))))


def _bundle(ports: Ports, tenant_id: str, found: LogHead, number: int) -> list[bytes]:
    name = model.blob(tenant_id, found.generation, Place(None, number))
    read = merkle.unbundled(ports.blobs.get(name) or b"")
    if read is None or len(read) != WIDTH:
        raise Corrupt(f"the bundle {number} of the sealed log is missing or malformed")
    return read


class Tree:
    """The tree of a head: its tiles and bundles, stored or not, and what follows from them."""

    def __init__(self, ports: Ports, tenant_id: str, found: LogHead) -> None:
        self._ports, self._tenant_id, self._head = ports, tenant_id, found
        leaves = [record_model.leaf(each) for each in found.unstored]
        self._edge, full = found.edge.extended(leaves)
        self._read = {place: merkle.hashes(tile) for place, tile in full.items()}

    def tile(self, place: Place) -> bytes | None:
        """Return a tile or bundle as it is served, or None if the log does not reach so far.

        Raises `Corrupt`, `Unavailable`.
        """
        first, end = place.number * WIDTH, place.number * WIDTH + place.width
        if end > merkle.count(place.level or 0, self._head.size):
            return None
        if place.level is None:
            return merkle.bundle(data(self._ports, self._tenant_id, self._head, first, end))
        return b"".join(self._hashes(Place(place.level, place.number))[: place.width])

    def root(self, size: int) -> bytes:
        """Return the root over the first `size` leaves. Raises `Corrupt`, `Unavailable`."""
        return merkle.root(size, self._subtree)

    def path(self, index: int) -> list[bytes]:
        """Return the path of a leaf to the root. Raises `Corrupt`, `Unavailable`."""
        return merkle.inclusion(index, self._head.size, self._subtree)

    def extends(self, size: int) -> list[bytes]:
        """Return the proof that the log extends its first `size` leaves (RFC 6962, 2.1.2).

        Raises `Corrupt`, `Unavailable`.
        """
        return merkle.consistency(size, self._head.size, self._subtree)

    def _subtree(self, level: int, number: int) -> bytes:
        place, first = merkle.holding(level, number)
        return merkle.perfect(self._hashes(place)[first : first + (1 << level % 8)])

    def _hashes(self, place: Place) -> list[bytes]:
        """Return the hashes of a tile: all of a full one, those that exist of a partial one."""
        level, number, _ = place
        if level is None or number == merkle.count(level + 1, self._head.size):
            return list(self._edge.levels[level or 0])
        if place not in self._read:
            name = model.blob(self._tenant_id, self._head.generation, place)
            self._read[place] = merkle.hashes(self._ports.blobs.get(name) or b"")
            if len(self._read[place]) != WIDTH:
                raise Corrupt(f"the tile {place.path} of the sealed log is missing or malformed")
        return self._read[place]


def store_tiles(ports: Ports, tenant_id: str, found: LogHead) -> None:
    """Store the full tiles of a stored head that are not stored yet.

    Raises `Corrupt` if one is there with other content, `OutOfSpace`, `Unavailable`.
    """
    for place, content in found.full_tiles().items():
        name = model.blob(tenant_id, found.generation, place)
        try:
            ports.blobs.put(name, content)
        except BlobExists:
            # A pass before this one was interrupted, or another one does the same.
            if ports.blobs.get(name) != content:
                raise Corrupt(f"the tile {place.path} of the sealed log has other hashes") from None
