"""Marks: items that say which tenants, warrants and signers have changed.

The schedule reads the marks on tenants (docs/adr/11), the feed those on warrants and on revoked
signers (docs/adr/12). Each is set in the write of the change. The items of a write become visible
one by one, so a mark may be visible before its change (docs/adr/02). Therefore a mark on a
warrant is removed only if the records are still those that the feed was made from, and a mark on a
tenant only some time after it was seen.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Final

from shared.errors import Corrupt
from shared.model import revocations
from shared.model.items import Address, Partition, Row
from shared.model.lists import schedule as model
from shared.model.lists.schedule import Mark, SignersMark
from shared.model.records import integer
from shared.model.signing_keys import Signer
from shared.operations.base import operation, tenants
from shared.operations.lists import verdicts
from shared.ports import Ports
from shared.ports.store import At, Change, Check, Delete, Expect, Put

_log = logging.getLogger(__name__)

# The most changes that remove or replace a mark, in one write.
_CHANGES: Final = 2


def on_tenant(tenant_id: str, warrant_id: str) -> Put:
    """Return the mark on the tenant, for the write that revokes or restores a warrant."""
    return _set(model.mark_address(tenant_id, warrant_id))


def on_keys(tenant_id: str) -> Put:
    """Return the mark on the tenant, for the write that ends or changes keys or accounts."""
    return _set(model.keys_mark_address(tenant_id))


def on_trust(tenant_id: str) -> Put:
    """Return the mark on the tenant, for the write that makes a key or changes signers."""
    return _set(model.trust_mark_address(tenant_id))


def on_warrant(tenant_id: str, warrant_id: str, at: datetime | None = None) -> Put:
    """Return the mark on the warrant, for the write that revokes or restores it.

    `at` is when that happens. A repair does not know when it happened.
    """
    return _set(model.warrant_mark_address(tenant_id, warrant_id), at)


def on_signers(
    tenant_id: str,
    signers: Iterable[Signer],
    at: datetime | None = None,
    changes: Iterable[str] = (),
) -> Put:
    """Return the mark on these signers, for the write that revokes them; `at` as above.

    `changes` are the identifiers of their keys.
    """
    mark = SignersMark(model.new_version(), tuple(map(str, signers)), at, tuple(changes))
    # An address of its own: two writes must not replace each other's marks.
    address = model.signers_marks(tenant_id).address(f"{mark.version:x}")
    return Put(address, mark.to_item(), Expect.ABSENT)


def marked_tenants(ports: Ports) -> list[str]:
    """Return the tenants that have a mark that need not wait, each once."""
    now = ports.now()
    rows = chain.from_iterable(ports.store.query_many(model.marks()).values())
    return list(
        dict.fromkeys(model.tenant_of_mark(each.sk) for each in rows if not _waits(each, now))
    )


def versions(ports: Ports) -> dict[Address, int]:
    """Read the versions of the marks on all tenants. Raises `Unavailable`.

    A mark that cannot be read has another version each second, because it must neither hide the
    others nor a change of its tenant.
    """
    unreadable = int(ports.now().timestamp())

    def of(after: str | None = None, before: str | None = None) -> dict[Address, int]:
        found = ports.store.query_many(model.marks(), after=after, before=before)
        return {address: _version_of(row, unreadable) for address, row in _addressed(found)}

    try:
        return of()
    except Corrupt:
        _log.exception("a mark cannot be read; reading those of each tenant")
    found: dict[Address, int] = {}
    for tenant_id in tenants.identifiers(ports):
        try:
            found |= of(*model.around_marks_of(tenant_id))
        except Corrupt:
            found[model.keys_mark_address(tenant_id)] = unreadable
    return found


def all_marked(ports: Ports) -> list[str]:
    """Return the tenants that have a mark, each once. Raises `Unavailable`."""
    return list(dict.fromkeys(model.tenant_of_mark(each.sk) for each in versions(ports)))


def of_tenant(ports: Ports, tenant_id: str) -> dict[Address, Mark]:
    """Read the marks on a tenant. Raises `Corrupt`, `Unavailable`."""
    after, before = model.around_marks_of(tenant_id)
    found = ports.store.query_many(model.marks(), after=after, before=before)
    return {address: Mark.from_item(row.item) for address, row in _addressed(found)}


def set_on_warrants(
    ports: Ports, tenant_id: str, *, limit: int
) -> tuple[dict[Address, Mark], bool]:
    """Read the marks on a tenant's warrants, and whether these are all: `limit` of each partition.

    Raises `Corrupt`, `Unavailable`.
    """
    found = ports.store.query_many(model.warrant_marks(tenant_id), limit=limit)
    read = {address: Mark.from_item(row.item) for address, row in _addressed(found)}
    return read, all(len(rows) < limit for rows in found.values())


def set_on_signers(ports: Ports, tenant_id: str, *, limit: int) -> list[SignersMark]:
    """Read up to `limit` marks on signers. Raises `Corrupt`, `Unavailable`."""
    rows = ports.store.query(model.signers_marks(tenant_id), limit=limit)
    return [SignersMark.from_item(row.item) for row in rows]


def of_revoked_signers(ports: Ports, tenant_id: str) -> dict[Address, SignersMark]:
    """Read the marks on signers whose revocations a check finds already.

    A warrant that is signed while the mark is visible and the revocation is not may still reach
    its caller, so such a mark must not be removed (docs/adr/02).
    """
    partition = model.signers_marks(tenant_id)
    rows = ports.store.query(partition)
    found = {partition.address(row.sk): SignersMark.from_item(row.item) for row in rows}
    signers = {Signer.parse(each) for mark in found.values() for each in mark.signers}
    revoked = _revoked(ports, tenant_id, signers)
    if len(revoked) < len(signers):
        operation.wait_for_writes()
        revoked = _revoked(ports, tenant_id, signers)
    return {
        address: mark
        for address, mark in found.items()
        if revoked.issuperset(map(Signer.parse, mark.signers))
    }


def _revoked(ports: Ports, tenant_id: str, signers: Collection[Signer]) -> set[Signer]:
    """Return those of the signers that a check finds revoked."""
    if not signers:
        return set()
    count = ports.store.get(revocations.marker_count_address(tenant_id))
    return set(verdicts.markers(ports, tenant_id, count, signers))


def see(ports: Ports, marks: Mapping[Address, Mark]) -> None:
    """Record that a worker has seen these marks; remove those that were seen long enough ago.

    A mark that has been set again in the meantime is not changed.
    """
    now = ports.now()
    seen = [[_seen(key, mark, now)] for key, mark in marks.items() if not mark.waits(now)]
    operation.apply_steps(ports, seen, most=_CHANGES)


def clear(
    ports: Ports, tenant_id: str, marks: Mapping[Address, Mark], *, revoked: Collection[str]
) -> int:
    """Remove marks on warrants; return how many stay. Those in `revoked` have a revocation.

    A mark stays if it has been set again, or if the warrant's records differ from what the feed
    says, as they do if their change was not yet visible when they were read.
    """

    def step(address: Address, mark: Mark) -> Sequence[Change]:
        entry = revocations.shard_of(tenant_id, address.sk).address(address.sk)
        return Delete(address, At(mark.version)), Check(
            entry, Expect.PRESENT if address.sk in revoked else Expect.ABSENT
        )

    return operation.apply_steps(
        ports, [step(key, mark) for key, mark in marks.items()], most=_CHANGES
    )


def clear_signers(ports: Ports, marks: Iterable[Address]) -> None:
    """Remove marks on signers. Nothing sets such a mark again."""
    operation.apply_steps(ports, [[Delete(address, Expect.ANYTHING)] for address in marks], most=1)


def _addressed(found: Mapping[Partition, list[Row]]) -> Iterator[tuple[Address, Row]]:
    return ((partition.address(row.sk), row) for partition, rows in found.items() for row in rows)


def _waits(entry: Row, now: datetime) -> bool:
    try:
        return Mark.from_item(entry.item).waits(now)
    except Corrupt:
        # A broken mark of one tenant must not delay the lists of the others.
        _log.exception("the mark %s cannot be read", entry.sk)
        return False


def _version_of(entry: Row, unreadable: int) -> int:
    try:
        return integer(entry.item, "version")
    except Corrupt:
        return unreadable


def again(address: Address) -> Put:
    """Return the change that sets a mark anew that cannot be read."""
    return _set(address)


def _seen(address: Address, mark: Mark, now: datetime) -> Change:
    if mark.is_over(now):
        return Delete(address, At(mark.version))
    seen = Mark.fresh(seen_at=now, set_at=mark.set_at)
    return Put(address, seen.to_item(), At(mark.version))


def _set(address: Address, at: datetime | None = None) -> Put:
    return Put(address, Mark.fresh(set_at=at).to_item(), Expect.ANYTHING)
