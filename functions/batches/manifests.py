"""Manifests: store the revocations to delete, and delete them by parts (REVOKE-26).

A part is one repeatable call of a batch. Each member is unrevoked once, by the first call, and each
call returns the same results (REVOKE-22).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

from functions.batches import operations as revocation_batches
from shared.errors import DataCorrupt, InvalidRequest, NotFound
from shared.model import times
from shared.model import unrevoke_manifests as model
from shared.model.callers import Caller, Scope
from shared.model.identifiers import BATCH, MANIFEST
from shared.model.revocation_batches import (
    BatchAction,
    BatchOutcome,
    BatchRequest,
    BatchResults,
)
from shared.model.unrevoke_manifests import ManifestPart, Member, UnrevokeManifest
from shared.operations.base import allowance
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page
from shared.operations.changes import revocation_changes as changes
from shared.operations.changes.revocation_search import revocations_of_batch
from shared.ports import Ports
from shared.ports.store import Expect, Put

# Together they stay below 4 MB, the limit of a DynamoDB transaction.
_PARTS_A_WRITE: Final = 25


@operation(Scope.ADMIN, Scope.REVOKER, rate_limited=True)
def create(
    ports: Ports,
    caller: Caller,
    *,
    batch_id: str | None = None,
    revocation_ids: Sequence[str] = (),
    warrant_ids: Sequence[str] = (),
) -> tuple[UnrevokeManifest, list[str]]:
    """Store a manifest of the revocations that these identifiers name.

    Also returns the identifiers that name no revocation. Raises `InvalidRequest` if there are more
    than `MEMBERS_MAX`; `InsufficientScope` if the caller's role limits exclude some of them.
    """
    standings = changes.standings(ports, caller.tenant_id, warrant_ids)
    named: dict[str, str | None] = {each: each for each in revocation_ids}
    named |= {name: standing.revocation_id for name, standing in standings.items()}
    of_batch = revocations_of_batch(ports, caller, batch_id or "", None)
    ids = {*filter(None, named.values())}
    ids.update(each for _, each in islice(of_batch, model.MEMBERS_MAX + 1))
    if len(ids) > model.MEMBERS_MAX:
        raise InvalidRequest(
            f"body: a manifest has at most {model.MEMBERS_MAX} revocations; split them among "
            "several manifests with revocation_ids."
        )
    records = changes.records(ports, caller.tenant_id, ids)
    members = [records[each][1] for each in sorted(records)]
    allowance.check_warrants(caller, (each.warrant_id for each in members))
    expires_at = times.truncate_to_second(ports.now() + model.KEPT)
    manifest = UnrevokeManifest(
        id=ports.new_id(MANIFEST),
        tenant_id=caller.tenant_id,
        unrevoke_batch_id=ports.new_id(BATCH),
        sha256=model.hash_members(each.id for each in members),
        count=len(members),
        groups=model.count_groups(members),
        created_by=caller.identity,
        created_at=ports.now(),
        expires_at=expires_at,
        expires=int(expires_at.timestamp()),
    )
    puts = list[Put]()
    for number in range(1, manifest.parts + 1):
        some = members[(number - 1) * model.PART_SIZE : number * model.PART_SIZE]
        part = ManifestPart(
            tuple(each.id for each in some),
            tuple(each.warrant_id for each in some),
            manifest.expires,
        )
        puts.append(Put(manifest.part_address(number), part.to_item(), Expect.ABSENT))
    for start in range(0, len(puts), _PARTS_A_WRITE):
        ports.store.write(*puts[start : start + _PARTS_A_WRITE])
    # Written last, so a manifest always has its parts.
    ports.store.write(Put(manifest.address, manifest.to_item(), Expect.ABSENT))
    return manifest, [name for name, each in named.items() if each not in records]


@operation(Scope.ADMIN, Scope.REVOKER, Scope.AUDITOR, rate_limited=True)
def get(ports: Ports, caller: Caller, *, manifest_id: str) -> UnrevokeManifest:
    """Return a manifest. Raises `NotFound`; `InsufficientScope` as `create` does."""
    manifest = _find(ports, caller, manifest_id)
    if caller.limits:
        for number in range(1, manifest.parts + 1):
            allowance.check_warrants(caller, _part(ports, manifest, number).warrant_ids)
    return manifest


@operation(Scope.ADMIN, Scope.REVOKER, Scope.AUDITOR, rate_limited=True)
def members(
    ports: Ports, caller: Caller, *, manifest_id: str, before: str | None, limit: int
) -> Page[Member]:
    """Return a page of the members, in order; `before` counts the members of earlier pages.

    Raises the errors of `get` for the members of the page.
    """
    manifest = _find(ports, caller, manifest_id)
    start = int(before or 0)
    end = min(start + limit, manifest.count)
    pairs = list[tuple[str, str]]()
    first = start // model.PART_SIZE
    for number in range(first, -(-end // model.PART_SIZE)):
        part = _part(ports, manifest, number + 1)
        pairs += zip(part.revocation_ids, part.warrant_ids, strict=True)
    skipped = first * model.PART_SIZE
    pairs = pairs[start - skipped : end - skipped]
    allowance.check_warrants(caller, (name for _, name in pairs))
    records = changes.records(ports, caller.tenant_id, (each for each, _ in pairs))
    page = [
        Member(each, name, records[each][1].created_by, records[each][1].reason)
        if each in records
        else Member(each, name, None, None)
        for each, name in pairs
    ]
    return Page(page, manifest.count, str(end) if end < manifest.count else None)


@operation(Scope.ADMIN, Scope.REVOKER, fresh=True, rate_limited=True)
def apply(
    ports: Ports, caller: Caller, *, manifest_id: str, number: int, reason: str
) -> BatchResults:
    """Unrevoke the members of part `number`, from 1 (REVOKE-27).

    A member that changed since has the outcome `NOT_REVOKED`, with the current revocation of its
    warrant. Raises `NotFound`; `ApprovalRequired`, `ApprovalRequested` for the whole manifest.
    """
    manifest = _find(ports, caller, manifest_id)
    if not 1 <= number <= manifest.parts:
        raise NotFound
    if caller.asks_approval:
        restoring = changes.restoring(ports, caller, manifest.id)
        restoring.request_approval(manifest, partial(_has_other_makers, ports, manifest))
    part = _part(ports, manifest, number)
    batch = BatchRequest(
        BatchAction.UNREVOKE,
        part.revocation_ids,
        reason,
        by_revocation=True,
        id=manifest.unrevoke_batch_id,
    )
    applied = revocation_batches.carry_out(ports, caller, batch, subject=manifest.id)
    names = dict(zip(part.revocation_ids, part.warrant_ids, strict=True))
    gone = {each.id for each in applied.results if each.outcome is BatchOutcome.NOT_REVOKED}
    if not gone:
        # An unnecessary read could fail after the write.
        return applied
    warrant_ids = [names[each.id] for each in applied.results if each.id in gone]
    now = changes.standings(ports, caller.tenant_id, warrant_ids)
    results = [
        replace(each, warrant_id=names[each.id], revocation_id=now[names[each.id]].revocation_id)
        if each.id in gone
        else each
        for each in applied.results
    ]
    return replace(applied, results=results)


def _has_other_makers(ports: Ports, manifest: UnrevokeManifest) -> bool:
    """Return whether another maker has revoked the warrant of a member again."""
    parts = (_part(ports, manifest, number + 1) for number in range(manifest.parts))
    return any(
        standing.also_by
        for part in parts
        for standing in changes.standings(ports, manifest.tenant_id, part.warrant_ids).values()
    )


def _find(ports: Ports, caller: Caller, manifest_id: str) -> UnrevokeManifest:
    """Read a manifest of the caller's tenant. Raises `NotFound` if it has expired."""
    partition = model.manifests(caller.tenant_id)
    manifest = allowance.find(ports, partition, manifest_id, kind=MANIFEST, record=UnrevokeManifest)
    if times.has_passed(manifest.expires_at, ports.now()):
        raise NotFound
    return manifest


def _part(ports: Ports, manifest: UnrevokeManifest, number: int) -> ManifestPart:
    """Read a part, from 1. Raises `DataCorrupt` if it does not exist."""
    item = ports.store.get(manifest.part_address(number))
    if item is None:
        raise DataCorrupt("a part of a manifest is missing")
    return ManifestPart.from_item(item)
