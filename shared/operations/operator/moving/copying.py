"""The passes of a move: they make the target's items and blobs those of the source.

A pass may be interrupted and repeated, and changes only what differs. The source may be in use
meanwhile; the pass after it was frozen finds what changed since.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import cbor2

from shared.errors import BlobExists, Corrupt
from shared.model import deployment
from shared.model.fleet import native
from shared.model.items import Address, Item, Table
from shared.operations.base import tenants
from shared.operations.lists import in_force
from shared.operations.operator import backup
from shared.operations.operator.moving import reseal
from shared.ports import Ports
from shared.ports.store import Change, Delete, Expect, Put

_BATCH: Final = 100
# Less than the 4 MB that DynamoDB takes in one write.
_WRITE_BYTES: Final = 3_000_000
_BUCKET: Final = "#bucket"

Report = Callable[[int], object]


@dataclass(slots=True)
class Pass:
    """The numbers of items that a pass read, put and deleted, and of blobs that it copied."""

    read: int = 0
    put: int = 0
    deleted: int = 0
    blobs: int = 0

    @property
    def changed(self) -> int:
        """How many items differed."""
        return self.put + self.deleted


def copy(source: Ports, target: Ports, *, report: Report = lambda _read: None) -> Pass:
    """Copy what differs to the target, and delete from it what the source does not have.

    Items that would not outlive the move are left out: buckets of the rate limit, and what has
    expired. `report` is called with the number of items read so far. Raises `Corrupt`,
    `Unavailable`.
    """
    done = Pass()
    done.blobs = _copy_blobs(source, target)
    for changes in _writes(_changes(source, target, done, report)):
        target.store.write(*changes)
    return done


def differences(source: Ports, target: Ports) -> Iterator[Address]:
    """Yield the addresses at which source and target differ, also in what their seals hold.

    Raises `Corrupt`, `Unavailable`.
    """
    for change in _changes(source, target, Pass(), lambda _read: None):
        yield change.address
    for address, item in _moving(source, Table.KEYS):
        if reseal.is_sealed(item):
            other = target.store.get(address)
            if other is None or not reseal.is_same(source, target, address, item, other):
                yield address


def is_empty(ports: Ports) -> bool:
    """Return whether a store has no data. Raises `Unavailable`."""
    return all(next(_moving(ports, table), None) is None for table in Table)


def _moving(ports: Ports, table: Table) -> Iterator[tuple[Address, Item]]:
    now = int(ports.now().timestamp())
    for address, item in ports.store.everything(table):
        expires = item.get("expires")
        is_over = type(expires) is int and expires <= now
        is_own = address == deployment.ADDRESS or address.pk.endswith(_BUCKET)
        if not (is_own or is_over):
            yield address, item


def _changes(source: Ports, target: Ports, done: Pass, report: Report) -> Iterator[Change]:
    for table in Table:
        for some in _batches(_moving(source, table)):
            found = target.store.get_many(address for address, _ in some)
            done.read += len(some)
            report(done.read)
            for address, item in some:
                if not _is_alike(item, found.get(address)):
                    done.put += 1
                    moved = reseal.resealed(source, target, address, item)
                    yield Put(address, moved, Expect.ANYTHING)
        for some in _batches(_moving(target, table)):
            kept = source.store.get_many(address for address, _ in some)
            for address, _ in some:
                if address not in kept:
                    done.deleted += 1
                    yield Delete(address, Expect.ANYTHING)


def _is_alike(item: Item, other: Item | None) -> bool:
    return (
        other is not None
        and reseal.unsealed(item) == reseal.unsealed(other)
        and reseal.is_sealed(item) == reseal.is_sealed(other)
    )


def _batches(
    items: Iterator[tuple[Address, Item]],
) -> Iterator[list[tuple[Address, Item]]]:
    while some := list(islice(items, _BATCH)):
        yield some


def _writes(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Yield the changes in groups that one write takes."""
    group: list[Change] = []
    size = 0
    for change in changes:
        own = len(cbor2.dumps(dict(change.item))) if isinstance(change, Put) else 0
        if group and (len(group) == _BATCH or size + own > _WRITE_BYTES):
            yield group
            group, size = [], 0
        group.append(change)
        size += own
    if group:
        yield group


def _copy_blobs(source: Ports, target: Ports) -> int:
    copied = 0
    for tenant in tenants.directory(source):
        of = tenant.tenant_id
        natives = source.blobs.names(native.folder(of))
        names = [*_listed(source, of), *natives, *backup.blobs(source, of)]
        copied += sum(_copy_blob(source, target, name) for name in dict.fromkeys(names))
    return copied


def _listed(source: Ports, tenant_id: str) -> Iterator[str]:
    """Yield the blobs of the lists that the source keeps the heads of."""
    for head in in_force.history(source, tenant_id):
        yield from filter(None, (head.blob, head.packed, head.base, head.state))


def _copy_blob(source: Ports, target: Ports, name: str) -> bool:
    data = source.blobs.get(name)
    if data is None:
        return False  # An old list; those in force are checked before the target is in charge.
    try:
        target.blobs.put(name, data)
    except BlobExists:
        if target.blobs.get(name) != data:
            raise Corrupt(f"the blob {name} of the target has another content") from None
        return False
    return True
