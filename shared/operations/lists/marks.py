"""Outbox marks: items that name the tenants, warrants and signers that have changed.

The scheduler reads the marks on tenants (docs/adr/11). The feed reads the marks on warrants and on
revoked signers (docs/adr/12). Each mark is set in the write of its change.

The items of a write become visible one by one, so a mark may be visible before its change
(docs/adr/02). A mark on a warrant is therefore removed only if the records still match the feed. A
mark on a tenant is removed some time after it was acknowledged.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Final

from shared.errors import DataCorrupt
from shared.model import revocations
from shared.model.items import Address, ItemRow, Partition
from shared.model.lists import schedule as model
from shared.model.lists.schedule import OutboxMark, SignerOutboxMark
from shared.model.records import integer
from shared.model.signing_keys import WarrantSigner
from shared.operations.base import operation, tenants
from shared.operations.lists import verdicts
from shared.ports import Ports
from shared.ports.store import Change, Check, Delete, Expect, Put, VersionIs

_log = logging.getLogger(__name__)

# The most changes in one write that removes or replaces a mark.
_CHANGES: Final = 2


def tenant_mark(tenant_id: str, warrant_id: str) -> Put:
    """Return the mark on the tenant, for a write that revokes or unrevokes a warrant."""
    return _put_mark(model.mark_address(tenant_id, warrant_id))


def keys_mark(tenant_id: str) -> Put:
    """Return the mark on the tenant, for a write that ends or changes keys or accounts."""
    return _put_mark(model.keys_mark_address(tenant_id))


def trust_mark(tenant_id: str) -> Put:
    """Return the mark on the tenant, for a write that creates a key or changes signers."""
    return _put_mark(model.trust_mark_address(tenant_id))


def warrant_mark(tenant_id: str, warrant_id: str, at: datetime | None = None) -> Put:
    """Return the mark on the warrant, for a write that revokes or unrevokes it.

    `at` is the time of the change. It is None for a repair, which does not know that time.
    """
    return _put_mark(model.warrant_mark_address(tenant_id, warrant_id), at)


def signers_mark(
    tenant_id: str,
    signers: Iterable[WarrantSigner],
    at: datetime | None = None,
    changes: Iterable[str] = (),
) -> Put:
    """Return the mark on these signers, for the write that revokes them.

    `at` is the time of the change, and `changes` are the identifiers of their keys.
    """
    mark = SignerOutboxMark(model.new_version(), tuple(map(str, signers)), at, tuple(changes))
    # Each mark has a separate address, because two writes must not replace each other's marks.
    address = model.signers_marks(tenant_id).address(f"{mark.version:x}")
    return Put(address, mark.to_item(), Expect.ABSENT)


def read_ready_tenants(ports: Ports) -> list[str]:
    """Return the tenants that have a mark that is not cooling down, each once."""
    now, tenant_ids = ports.now(), dict[str, None]()
    for row in chain.from_iterable(ports.store.query_many(model.mark_partitions()).values()):
        try:
            is_ready = not OutboxMark.from_item(row.item).is_cooling_down(now)
        except DataCorrupt:
            # An unreadable mark of one tenant must not delay the SRLs of other tenants.
            _log.exception("cannot read the outbox mark %s", row.sk)
            is_ready = True
        if is_ready:
            tenant_ids[model.tenant_of_mark(row.sk)] = None
    return list(tenant_ids)


def read_versions(ports: Ports) -> dict[Address, int]:
    """Read the versions of the marks on all tenants. Raises `Unavailable`.

    An unreadable mark gets a new version each second. It must hide neither the other marks nor a
    change of its tenant.
    """
    unreadable = int(ports.now().timestamp())

    def read_range(after: str | None = None, before: str | None = None) -> dict[Address, int]:
        rows = ports.store.query_many(model.mark_partitions(), after=after, before=before)
        versions: dict[Address, int] = {}
        for address, row in _with_addresses(rows):
            try:
                versions[address] = integer(row.item, "version")
            except DataCorrupt:
                versions[address] = unreadable
        return versions

    try:
        return read_range()
    except DataCorrupt:
        _log.exception("cannot read an outbox mark; reading the marks of each tenant")
    found: dict[Address, int] = {}
    for tenant_id in tenants.identifiers(ports):
        try:
            found |= read_range(*model.mark_range(tenant_id))
        except DataCorrupt:
            found[model.keys_mark_address(tenant_id)] = unreadable
    return found


def read_marked_tenants(ports: Ports) -> list[str]:
    """Return the tenants that have a mark, each once. Raises `Unavailable`."""
    return list(dict.fromkeys(model.tenant_of_mark(each.sk) for each in read_versions(ports)))


def read_tenant_marks(ports: Ports, tenant_id: str) -> dict[Address, OutboxMark]:
    """Read the marks on a tenant. Raises `DataCorrupt`, `Unavailable`."""
    after, before = model.mark_range(tenant_id)
    found = ports.store.query_many(model.mark_partitions(), after=after, before=before)
    return {address: OutboxMark.from_item(row.item) for address, row in _with_addresses(found)}


def read_warrant_marks(
    ports: Ports, tenant_id: str, *, limit: int
) -> tuple[dict[Address, OutboxMark], bool]:
    """Read the marks on a tenant's warrants, up to `limit` from each partition.

    Also returns whether these are all marks. Raises `DataCorrupt`, `Unavailable`.
    """
    found = ports.store.query_many(model.warrant_marks(tenant_id), limit=limit)
    read = {address: OutboxMark.from_item(row.item) for address, row in _with_addresses(found)}
    return read, all(len(rows) < limit for rows in found.values())


def read_signer_marks(ports: Ports, tenant_id: str, *, limit: int) -> list[SignerOutboxMark]:
    """Read up to `limit` marks on signers. Raises `DataCorrupt`, `Unavailable`."""
    rows = ports.store.query(model.signers_marks(tenant_id), limit=limit)
    return [SignerOutboxMark.from_item(row.item) for row in rows]


def read_visible_signer_marks(ports: Ports, tenant_id: str) -> dict[Address, SignerOutboxMark]:
    """Read the marks on signers with revocations that a check already finds.

    A warrant that is signed while only the mark is visible may still reach its caller. A mark
    without a visible revocation must therefore stay (docs/adr/02).
    """
    partition = model.signers_marks(tenant_id)
    rows = ports.store.query(partition)
    found = {partition.address(row.sk): SignerOutboxMark.from_item(row.item) for row in rows}
    signers = {WarrantSigner.parse(each) for mark in found.values() for each in mark.signers}
    revoked = _visibly_revoked(ports, tenant_id, signers)
    if len(revoked) < len(signers):
        operation.wait_for_writes()
        revoked = _visibly_revoked(ports, tenant_id, signers)
    return {
        address: mark
        for address, mark in found.items()
        if revoked.issuperset(map(WarrantSigner.parse, mark.signers))
    }


def _visibly_revoked(
    ports: Ports, tenant_id: str, signers: Collection[WarrantSigner]
) -> set[WarrantSigner]:
    """Return the signers that a check finds revoked."""
    if not signers:
        return set()
    count = ports.store.get(revocations.marker_count_address(tenant_id))
    return set(verdicts.read_signer_revocations(ports, tenant_id, count, signers))


def acknowledge(ports: Ports, marks: Mapping[Address, OutboxMark]) -> None:
    """Acknowledge marks; remove marks that were acknowledged long enough ago.

    A mark that was set again in the meantime is not changed.
    """
    now, steps = ports.now(), list[Sequence[Change]]()
    for address, mark in marks.items():
        expected = VersionIs(mark.version)
        if mark.is_settled(now):
            steps.append([Delete(address, expected)])
        elif not mark.is_cooling_down(now):
            seen = OutboxMark.new(seen_at=now, set_at=mark.set_at)
            steps.append([Put(address, seen.to_item(), expected)])
    operation.apply_steps(ports, steps, most=_CHANGES)


def remove_published(
    ports: Ports, tenant_id: str, marks: Mapping[Address, OutboxMark], *, ids: Collection[str]
) -> int:
    """Remove marks on warrants; return how many stay.

    `ids` are the warrants that have a revocation. A mark stays if it was set again, or if the
    warrant's records differ from the feed. They differ if the change was not visible yet when they
    were read.
    """
    steps: list[Sequence[Change]] = []
    for address, mark in marks.items():
        listed = revocations.shard_of(tenant_id, address.sk).address(address.sk)
        expected = Expect.PRESENT if address.sk in ids else Expect.ABSENT
        steps.append([Delete(address, VersionIs(mark.version)), Check(listed, expected)])
    return operation.apply_steps(ports, steps, most=_CHANGES)


def remove_signer_marks(ports: Ports, marks: Iterable[Address]) -> None:
    """Remove marks on signers. Such a mark is never set again."""
    operation.apply_steps(ports, [[Delete(address, Expect.ANYTHING)] for address in marks], most=1)


def _with_addresses(found: Mapping[Partition, list[ItemRow]]) -> Iterator[tuple[Address, ItemRow]]:
    return ((partition.address(row.sk), row) for partition, rows in found.items() for row in rows)


def replacement_mark(address: Address) -> Put:
    """Return the write that replaces an unreadable mark."""
    return _put_mark(address)


def _put_mark(address: Address, at: datetime | None = None) -> Put:
    return Put(address, OutboxMark.new(set_at=at).to_item(), Expect.ANYTHING)
