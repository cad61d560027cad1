"""Verify the transparency log and its entries, in bounded memory (LOG-13), for the doctor.

The walk keeps one bundle of 256 commitments in memory, with their entries and the right edge of the
tree. `infra/audit_verification` does the same from outside, with less trust.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

from functions.transparency_log import checkpoint, log, outside, signers, witnessing
from functions.transparency_log import head as model
from functions.transparency_log.checkpoint import PinnedCheckpoint
from functions.transparency_log.head import LogHead
from functions.transparency_log.merkle import NOTHING, WIDTH, TreeFrontier
from shared.capabilities.finding import DoctorCheck, Finding, Report
from shared.errors import DataCorrupt
from shared.model.audit import audit_log, records
from shared.model.audit.audit_log import EntryFilters
from shared.model.audit.records import EntryCommitment
from shared.model.items import ItemRow
from shared.model.lists.head import SrlHead
from shared.model.tenants import DirectoryEntry
from shared.operations.audit import audit_log as audit_entries
from shared.operations.base import tenants
from shared.operations.base.operation import reread
from shared.operations.operator.recovery import newest
from shared.ports import Ports

_LOG_GUIDE: Final = "docs/runbook.md#the-audit-log-was-cut-or-altered"
_WITNESS_GUIDE: Final = "docs/audit-log.md#witnesses"

# A younger entry need not be in the log yet. Alarms report it if it stays out.
_PENDING: Final = timedelta(minutes=10)
# A tenant exists before its first entry, but the clock at its creation may have been wrong.
_BEFORE: Final = timedelta(days=1)
# Seconds before its expiry in which an entry may already be gone.
_EXPIRING: Final = 60.0
# The most problems of one kind that are named.
_NAMED: Final = 10
_REPORTED: Final = 100_000


def problems(
    ports: Ports,
    tenant_id: str,
    anchors: Iterable[PinnedCheckpoint],
    report: Callable[[int, int], object] = lambda _done, _size: None,
) -> Iterator[str]:
    """Yield a sentence for each problem of a tenant's log.

    `anchors` are the log anchors in SRL states. `report` is called with the number of verified
    leaves and their total, every 100,000 leaves. Raises `Unavailable`.
    """
    try:
        anchored = {*anchors, *outside.all_anchors(ports, tenant_id)}
        head = reread(lambda: outside.compare_with_anchors(ports, tenant_id, anchored))
        if head is not None:
            number = yield from _verify_leaves(ports, tenant_id, head, report)
            yield from _never_sealed(ports, tenant_id, number)
    except DataCorrupt as error:
        yield str(error)


def _verify_leaves(
    ports: Ports, tenant_id: str, head: LogHead, report: Callable[[int, int], object]
) -> Generator[str, None, int]:
    """Yield the problems of all leaves; return the number of entries that are old enough."""
    now, edge, named, number = ports.now(), NOTHING, 0, 0
    for first in range(0, head.size, WIDTH):
        data = log.data(ports, tenant_id, head, first, first + WIDTH)
        edge, full_tiles = edge.append([records.leaf(each) for each in data])
        for place, content in full_tiles.items() if first < head.stored else ():
            if ports.blobs.get(model.blob(tenant_id, head.generation, place)) != content:
                yield f"the tile {place.path} of its transparency log is missing or altered"
                break
        commitments = [EntryCommitment.parse(each) for each in data]
        alive = [each for each in commitments if each.expires > now.timestamp() + _EXPIRING]
        stored = audit_entries.read_entries(ports, tenant_id, [each.id for each in alive])
        for index, each in enumerate(commitments, first):
            item = stored.get(each.id)
            if item is not None and records.moment(each.id) < now - _PENDING:
                number += 1
            if each not in alive or (item is not None and EntryCommitment.of(item) == each):
                continue
            named += 1
            if named <= _NAMED:
                what = "removed" if item is None else "changed"
                yield f"the audit entry {each.id} (leaf {index}) was {what}"
        if first and first % _REPORTED < WIDTH:
            report(first, head.size)
    yield from _check_checkpoint(ports, tenant_id, head, edge)
    return number


def _check_checkpoint(
    ports: Ports, tenant_id: str, head: LogHead, edge: TreeFrontier
) -> Iterator[str]:
    if not head.size:
        return
    try:
        stated = checkpoint.Checkpoint.parse(head.checkpoint)
    except ValueError:
        yield "the checkpoint of its transparency log is malformed"
        return
    origin = checkpoint.origin(tenant_id, head.generation)
    if stated != (origin, edge.size, edge.root()):
        yield "the checkpoint of its transparency log does not match its leaves"
    keys = [each.key(origin) for each in signers.all_of(ports, tenant_id)]
    if not any(checkpoint.is_signed_by(head.checkpoint, key) for key in keys):
        yield "no audit signer signed the checkpoint of its transparency log"


def _never_sealed(ports: Ports, tenant_id: str, number: int) -> Iterator[str]:
    """Yield the entries without a leaf, if there are more entries than the walk found.

    Only their number is compared at first, because finding the leaf of each entry is slow.
    """
    now = ports.now()
    if sum(1 for _ in _old_entries(ports, tenant_id, now)) <= number:
        return
    # Read now, because an entry may have been appended since.
    head, named = log.head(ports, tenant_id), 0
    for row in _old_entries(ports, tenant_id, now):
        if head is not None and log.find(ports, tenant_id, head, row.sk) is None:
            named += 1
            if named <= _NAMED:
                yield f"the audit entry {row.sk} was never appended to the transparency log"


def _old_entries(ports: Ports, tenant_id: str, now: datetime) -> Iterator[ItemRow]:
    created_at = tenants.settings(ports, tenant_id).created_at
    filters = EntryFilters(min(created_at, now) - _BEFORE, now)
    ends = now.timestamp() + _EXPIRING
    for _, partitions in audit_log.months(tenant_id, filters):
        for each in partitions:
            for row in ports.store.query(each, after=filters.lower_bound):
                is_old = records.moment(row.sk) < now - _PENDING
                if is_old and EntryCommitment.of(row.item).expires > ends:
                    yield row


def _check_log_head(ports: Ports, tenant: DirectoryEntry, _head: SrlHead) -> Iterator[Finding]:
    """Find tiles of the transparency log that are newer than its log head (LOG-10)."""
    if signers.find_unknown_tiles(ports, tenant.tenant_id) is not None:
        problem = "its transparency log has leaves that its records lack"
        yield Finding(tenant.handle, problem, f"run: rescind recover {tenant.handle}")


def _check_witnesses(ports: Ports, tenant: DirectoryEntry, _head: SrlHead) -> Iterator[Finding]:
    """Find witnesses that did not sign the last checkpoint (LOG-31)."""
    for problem, is_away in witnessing.problems(ports, tenant.tenant_id):
        yield Finding(tenant.handle, problem, f"see {_WITNESS_GUIDE}", is_remark=is_away)


def check_log(ports: Ports, tenant: DirectoryEntry, report: Report) -> Iterator[Finding]:
    """Verify the transparency log and its entries (LOG-13)."""

    def report_progress(count: int, size: int) -> None:
        report(f"{tenant.handle}: verified {count} of {size} leaves of its transparency log")

    states = newest.read_newest(ports, tenant.tenant_id).states
    listed = PinnedCheckpoint.list_in_states([each.added for each in states])
    for problem in problems(ports, tenant.tenant_id, listed, report_progress):
        yield Finding(tenant.handle, problem, f"see {_LOG_GUIDE}")


CHECKS: Final[tuple[DoctorCheck, ...]] = (_check_log_head, _check_witnesses)
