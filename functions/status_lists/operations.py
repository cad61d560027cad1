"""Token Status Lists: create, allocate entries, and serve the signed lists (TOKEN-5).

A signed status list is derived from the current SRL when it is first requested. It is stored as a
blob only to save time, because every process creates the same bytes (docs/adr/10).
"""

import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from functions.status_lists import records as model
from functions.status_lists.records import LISTS_MAX, StatusList, StatusListContent, StatusSigner
from shared.errors import (
    BlobExists,
    Conflict,
    DataCorrupt,
    ListFull,
    NotFound,
    OutOfSpace,
    ReadOnly,
    Unavailable,
)
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identifiers import SIGNING_KEY, STATUS_LIST
from shared.model.identities.approvals import ProtectedAction
from shared.model.items import Item
from shared.model.lists.content import revoked_ids
from shared.model.lists.head import SrlHead, head_address, version_prefix
from shared.model.records import integer
from shared.operations.base import audit, seals
from shared.operations.base.idempotency import Keep, OutcomeCodec, idempotent, of_record
from shared.operations.base.operation import operation, reread
from shared.operations.lists import in_force, marks
from shared.ports import Ports
from shared.ports.store import Expect, Put, VersionIs

_ORDER_BYTES: Final = 32
# How long a replaced status list stays on one machine. A request may be about to read it.
_REPLACED_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Allocation:
    """Allocated entries of a status list: `count` entries from number `first` on."""

    status_list: StatusList
    first: int
    count: int

    @property
    def uri(self) -> str:
        """The URL from which verifiers fetch the status list."""
        return self.status_list.uri

    @property
    def indexes(self) -> list[int]:
        """The indexes of the entries. They do not reveal the order of allocation."""
        return self.status_list.indexes(self.first, self.count)


@idempotent(Scope.ADMIN, keeps=of_record(StatusList, but=("order",)))
def create(
    ports: Ports, caller: Caller, keep: Keep[StatusList], *, name: str, url: str
) -> StatusList:
    """Create a status list, and the status signer with the first one.

    `url` is the URL of the service. Raises `Conflict` if the tenant has `LISTS_MAX` lists.
    """
    list_id = ports.new_id(STATUS_LIST)
    before = _signer(ports, caller.tenant_id)
    if before is not None and len(before.lists) >= LISTS_MAX:
        raise Conflict(f"The tenant has {LISTS_MAX} status lists; use one of them.")
    order = secrets.token_bytes(_ORDER_BYTES)
    uri = f"{url}{model.PATH}/{list_id}"
    status_list = StatusList(list_id, caller.tenant_id, name, uri, ports.now(), order)
    signer = (before or _new_signer(ports, caller.tenant_id)).signing(list_id)
    action = AuditAction.STATUS_LIST_CREATE
    ports.store.write(
        Put(status_list.address, status_list.to_item(), Expect.ABSENT),
        _put_signer(signer, before),
        *([marks.trust_mark(caller.tenant_id)] if before is None else ()),
        audit.entry(ports, caller, action, list_id, name=name, uri=uri, key_id=signer.id),
        *keep(status_list),
    )
    return status_list


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def every(ports: Ports, caller: Caller) -> list[StatusList]:
    """Return all status lists of the tenant, newest first. Raises `DataCorrupt`, `Unavailable`."""
    signer = _signer(ports, caller.tenant_id)
    addresses = [model.list_address(each) for each in signer.lists[::-1]] if signer else []
    items = ports.store.get_many(addresses)
    # Omits a status list that is only partly in a backup.
    return [StatusList.from_item(items[each]) for each in addresses if each in items]


def _restore_result(
    ports: Ports, caller: Caller, outcome: Item, *, list_id: str, **_: Any
) -> Allocation:
    status_list = _of_tenant(ports, caller, list_id)
    return Allocation(status_list, integer(outcome, "first"), integer(outcome, "count"))


_ALLOCATED: Final = OutcomeCodec[Allocation](
    lambda allocation: {"first": allocation.first, "count": allocation.count}, _restore_result
)


@idempotent(Scope.ADMIN, keeps=_ALLOCATED)
def allocate(
    ports: Ports, caller: Caller, keep: Keep[Allocation], *, list_id: str, count: int
) -> Allocation:
    """Allocate unused entries (TOKEN-6).

    Raises `NotFound`; `ListFull` if fewer are left.
    """
    before = _of_tenant(ports, caller, list_id)
    if not before.has_room(count):
        left = before.size - before.allocated
        raise ListFull(f"The status list has {left} entries left; create another status list.")
    after = before.allocating(count)
    allocation = Allocation(before, before.allocated, count)
    action, allocated = AuditAction.STATUS_LIST_ALLOCATE, after.allocated
    ports.store.write(
        Put(after.address, after.to_item(), VersionIs(before.version)),
        audit.entry(ports, caller, action, list_id, count=count, allocated=allocated),
        *keep(allocation),
    )
    return allocation


@idempotent(Scope.ADMIN, keeps=of_record(StatusSigner, but=("sealed_seed",)))
def rotate(ports: Ports, caller: Caller, keep: Keep[StatusSigner]) -> StatusSigner:
    """Replace the status signer at once. Verifiers reject the previous one (TOKEN-8).

    Raises `NotFound` if the tenant has no status lists yet; `ApprovalRequired` (APPROVAL-1).
    """
    before = _signer(ports, caller.tenant_id)
    if before is None:
        raise NotFound("There is no status list yet.")
    # Imported here so that reads of status lists do not load it.
    from shared.operations.identities import protected_acts  # noqa: PLC0415

    approval = protected_acts.approval_changes(
        ports,
        caller,
        ProtectedAction.ROTATE_STATUS_SIGNER,
        before.id,
        {"replaced": before.id},
        version=before.version,
    )
    new = _new_signer(ports, caller.tenant_id)
    after = replace(new, lists=before.lists, version=before.version + 1)
    entry = audit.entry(
        ports,
        caller,
        AuditAction.STATUS_LIST_ROTATE_KEY,
        after.id,
        public_key=after.public_key,
        replaced=before.id,
    )
    mark = marks.trust_mark(caller.tenant_id)
    ports.store.write(_put_signer(after, before), mark, entry, *approval, *keep(after))
    return after


def signer_of(ports: Ports, list_id: str) -> StatusSigner:
    """Return the signer of a status list, for any caller.

    Raises `NotFound`, `DataCorrupt`, `Unavailable`.
    """
    return _check_signer(_signer(ports, _list(ports, list_id).tenant_id))


def look(ports: Ports, list_id: str) -> StatusListContent:
    """Return the current content of the signed status list, for any caller.

    Raises `NotFound`; `Unavailable` if the SRL has expired; `DataCorrupt`.
    """
    return reread(lambda: _projection(ports, _list(ports, list_id)))


def read_cached(ports: Ports, of: StatusListContent) -> bytes | None:
    """Return the signed status list if it is stored and intact. Raises `Unavailable`."""
    data = ports.blobs.get(of.blob)
    return data if data is not None and of.is_made(data) else None


def make(ports: Ports, list_id: str) -> tuple[StatusListContent, bytes]:
    """Return the current signed status list. Creates it if it is not stored.

    Raises the errors of `look`, and `DataCorrupt` if the SRL or the seed is damaged.
    """
    of = look(ports, list_id)
    stored = read_cached(ports, of)
    if stored is not None:
        return of, stored
    seed = seals.unwrap_seed(ports, of.signer)
    signed = of.sign(revoked_ids(in_force.read_srl_body(ports, of.head)), seed=seed)
    before = version_prefix(of.head.version)
    # It is also served without being stored, on a full disk or by a read-only process.
    with suppress(BlobExists, OutOfSpace, ReadOnly):
        ports.blobs.discard(of.folder, before=before, older_than_seconds=_REPLACED_SECONDS)
        ports.blobs.put(of.blob, signed)
    return of, signed


def _projection(ports: Ports, status_list: StatusList) -> StatusListContent:
    head_at = head_address(status_list.tenant_id)
    signer_at = model.signer_address(status_list.tenant_id)
    items = ports.store.get_many([head_at, signer_at])
    if head_at not in items:
        raise DataCorrupt("a tenant has no published SRL")
    signer = _check_signer(StatusSigner.from_optional(items.get(signer_at)))
    content = StatusListContent(status_list, SrlHead.from_item(items[head_at]), signer)
    if not content.seconds_left(ports.now()):
        raise Unavailable("the Signed Revocation List has expired")
    return content


def _list(ports: Ports, list_id: str) -> StatusList:
    item = ports.store.get(model.list_address(list_id)) if model.is_list(list_id) else None
    if item is None:
        raise NotFound
    return StatusList.from_item(item)


def _of_tenant(ports: Ports, caller: Caller, list_id: str) -> StatusList:
    """Return a status list that the tenant's signer names, because `recover` closes no other."""
    signer = _signer(ports, caller.tenant_id)
    if signer is None or list_id not in signer.lists:
        raise NotFound
    return _list(ports, list_id)


def _signer(ports: Ports, tenant_id: str) -> StatusSigner | None:
    return StatusSigner.from_optional(ports.store.get(model.signer_address(tenant_id)))


def _check_signer(signer: StatusSigner | None) -> StatusSigner:
    if signer is None:
        raise DataCorrupt("a tenant with status lists has no status signer")
    return signer


def _new_signer(ports: Ports, tenant_id: str) -> StatusSigner:
    key_id = ports.new_id(SIGNING_KEY)
    public_key, sealed = seals.create(ports, StatusSigner, tenant_id, key_id)
    return StatusSigner(key_id, tenant_id, public_key, ports.now(), sealed)


def _put_signer(signer: StatusSigner, previous: StatusSigner | None) -> Put:
    expected = Expect.ABSENT if previous is None else VersionIs(previous.version)
    return Put(signer.address, signer.to_item(), expected)
