"""SRL signers: list, create, activate, rotate, revoke (SIGNER-2, docs/adr/13).

An operation that replaces the active signer also publishes an SRL by the new signer in the same
write. No SRL by the old signer can therefore follow. The record of the active signer is a
precondition of each write, so one of two concurrent operations runs again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from shared.capabilities import INSTALLED
from shared.errors import (
    Conflict,
    DataCorrupt,
    InvalidState,
    NotFound,
    PreconditionFailed,
    TrustUnsigned,
)
from shared.model import times
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identifiers import SIGNING_KEY, is_identifier
from shared.model.identities.approvals import ProtectedAction
from shared.model.items import Item, Value
from shared.model.lists.head import SrlHead
from shared.model.lists.signers import (
    SrlSigner,
    SrlSignerStatus,
    signers_partition,
    standby_address,
)
from shared.model.records import moment
from shared.model.tenants import TenantSettings
from shared.operations.base import allowance, audit, tenants
from shared.operations.base.idempotency import Keep, OutcomeCodec, idempotent, item, nested_item
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page
from shared.operations.lists import in_force, marks, publication
from shared.operations.lists import records as srl_records
from shared.operations.lists import signers as srl_signers
from shared.ports import Ports
from shared.ports.store import Change, Check, Expect, Put, VersionIs

_UNSIGNED: Final = (
    "The trust document does not name this key yet; retry in a minute. If the root keys are "
    "offline, sign the draft with them."
)
_ONE_PENDING: Final = "A signer is already pending; activate or revoke it first."


@dataclass(frozen=True, slots=True)
class SrlSignerView:
    """An SRL signer for callers.

    A pending signer may be activated without `force` from `activates_at` on. Any other signer has
    signed since then, or the time is None if it is revoked.
    """

    record: SrlSigner
    activates_at: datetime | None


@dataclass(frozen=True, slots=True)
class _SignerCall:
    """A call that changes signers, and the records that it depends on."""

    ports: Ports
    caller: Caller
    settings: TenantSettings
    head: SrlHead
    active: SrlSigner


def _stored_result(view: SrlSignerView) -> Item:
    since = view.activates_at
    record = item(view.record, but=["sealed_seed"])
    return {"record": record, "activates_at": None if since is None else times.format_utc(since)}


def _restore_result(_ports: Ports, _caller: Caller, outcome: Item, **_: object) -> SrlSignerView:
    record = SrlSigner.from_item(nested_item(outcome, "record"))
    return SrlSignerView(record, moment(outcome.get("activates_at"), "activates_at"))


_KEPT: Final = OutcomeCodec[SrlSignerView](_stored_result, _restore_result)


@operation(*Scope)
def page(ports: Ports, caller: Caller, *, before: str | None = None) -> Page[SrlSignerView]:
    """Return the signers: first the signer of the current SRL, then the others, newest first.

    A retired signer is omitted after its last SRL has expired. A revoked signer stays, so a
    verifier that pinned it sees the revocation. The first page contains all signers that are not
    archived. The pages from `before` on contain the archived revoked signers.
    """
    tenant_id, now = caller.tenant_id, ports.now()
    if before is not None:
        archived, position = srl_signers.read_archive_page(ports, tenant_id, before=before)
        return Page([SrlSignerView(each, None) for each in archived], None, position)
    settings, head = ports.gather(
        lambda: tenants.settings(ports, tenant_id), lambda: in_force.read_srl_head(ports, tenant_id)
    )
    # Read after the SRL head, so the records include the signer that the head names.
    records = srl_signers.read_unarchived(ports, tenant_id)
    listed = srl_signers.filter_listed(records, now)
    first = [each for each in records if each.id == head.key_id]
    others = [each for each in listed if each.id != head.key_id]
    views = [_to_view(each, settings) for each in (*first, *others)]
    return Page(views, None, srl_signers.first_archive_page(ports, tenant_id))


@idempotent(Scope.ADMIN, keeps=_KEPT, fresh=True)
def create(ports: Ports, caller: Caller, keep: Keep[SrlSignerView]) -> SrlSignerView:
    """Create a pending signer, with a succession statement by the active signer.

    Raises `InvalidState` if there is a pending signer, `Conflict` if too many retired signers are
    listed, `DataCorrupt` if the active signer's seed cannot be unwrapped.
    """
    call = _read_call(ports, caller)
    if call.active.pending_id is not None:
        raise InvalidState(_ONE_PENDING)
    pending = _create_signer(call, SrlSignerStatus.PENDING)
    if pending.statement is None:
        raise DataCorrupt(
            "cannot unwrap the seed of the SRL signer, which must sign the succession statement"
        )
    view = _to_view(pending, call.settings)
    ports.store.write(
        Put(pending.address, pending.to_item(), Expect.ABSENT),
        _update(call.active, call.active.with_successor(pending.id)),
        _entry(call, AuditAction.SRL_CREATE_KEY, pending),
        marks.trust_mark(caller.tenant_id),
        *keep(view),
    )
    return view


@idempotent(Scope.ADMIN, keeps=_KEPT, claims=True, fresh=True)
def activate(
    ports: Ports, caller: Caller, keep: Keep[SrlSignerView], *, key_id: str, force: bool = False
) -> SrlSignerView:
    """Activate a pending signer, and publish an SRL that it signs.

    Raises `NotFound`; `InvalidState` if the signer is retired or revoked, or if its grace period
    has not passed and `force` is false; `TrustUnsigned` if the trust document does not name it yet.
    """
    call = _read_call(ports, caller)
    signer = _find(ports, caller, key_id)
    is_early = ports.now() < signer.created_at + call.settings.rotation_grace
    is_forced = force and is_early and signer.status is SrlSignerStatus.PENDING
    approval = _approval_changes(call, signer.id, is_needed=is_forced)
    if signer.status is SrlSignerStatus.ACTIVE:
        return _to_view(signer, call.settings)
    if signer.status is not SrlSignerStatus.PENDING:
        raise InvalidState(f"A {signer.status} signer cannot be activated; create another signer.")
    if not force and is_early:
        raise InvalidState(
            "Verifiers may not have this signer yet; wait until its activates_at, or pass force."
        )
    if _find_accepted(call, [signer]) == []:
        raise TrustUnsigned(_UNSIGNED)
    entry = _entry(call, AuditAction.SRL_ACTIVATE_KEY, signer, force=force)
    return _replace_active_signer(call, keep, signer, [entry, *approval])


@idempotent(Scope.ADMIN, keeps=_KEPT, claims=True, fresh=True)
def rotate(
    ports: Ports, caller: Caller, keep: Keep[SrlSignerView], *, compromised: bool = False
) -> SrlSignerView:
    """Activate the pending or the standby signer, without the grace period.

    The trust document already names it. A tenant without trust documents gets a new signer if none
    is pending.

    If `compromised` is true, the active signer was stolen. It is revoked as by `revoke`, and its
    successor has no succession statement (SIGNER-5). Otherwise raises `Conflict` if too many
    retired signers are listed and no signer is pending, and `TrustUnsigned` if the trust document
    names neither signer.
    """
    call = _read_call(ports, caller)
    if compromised:
        successor = _replace_stolen(
            call, call.active, lambda new: keep(_to_view(new, call.settings))
        )
        return _to_view(successor, call.settings)
    approval = _approval_changes(call, call.active.id)
    successor = _find_successor(call) or _create_signer(call, SrlSignerStatus.ACTIVE)
    entry = _entry(call, AuditAction.SRL_ROTATE_KEY, successor)
    return _replace_active_signer(call, keep, successor, [entry, *approval])


@idempotent(Scope.ADMIN, keeps=_KEPT, claims=True, fresh=True)
def revoke(
    ports: Ports, caller: Caller, keep: Keep[SrlSignerView], *, key_id: str
) -> SrlSignerView:
    """Revoke a stolen signer. If it is in use, publish an SRL by another signer.

    It is in use if it is active or signed the current SRL. The other signer has no succession
    statement, because the thief could also use the stolen key to sign a statement for a foreign
    key. Raises `NotFound`.
    """
    call = _read_call(ports, caller)
    stolen = call.active if key_id == call.active.id else _find(ports, caller, key_id)
    if stolen.status is SrlSignerStatus.REVOKED:
        allowance.check_asks_nothing(caller)
        return _to_view(stolen, call.settings)
    view = _to_view(stolen.revoke(ports.now()), call.settings)
    if stolen.id in (call.active.id, call.head.key_id):
        _replace_stolen(call, stolen, lambda _: keep(view))
        return view
    allowance.check_asks_nothing(caller)
    changes = srl_signers.replacement_changes(stolen, stolen.revoke(ports.now()))
    if call.active.pending_id == stolen.id:
        changes.append(_update(call.active, call.active.with_successor(None)))
    else:
        # Without this precondition, it may have become the active signer since.
        changes.append(_expect_unchanged(call.active))
    entry = _entry(call, AuditAction.SRL_REVOKE_KEY, stolen, was=stolen.status.value)
    moves = srl_signers.archive_changes(ports, caller.tenant_id, ids=[stolen.id])
    counts = srl_records.tombstone_counter_changes(caller.tenant_id)
    ports.store.write(*changes, *counts, entry, *moves, *keep(view))
    return view


def _replace_stolen(
    call: _SignerCall, stolen: SrlSigner, extra_changes: Callable[[SrlSigner], Sequence[Change]]
) -> SrlSigner:
    """Revoke the active signer or the signer of the current SRL; publish an SRL with another.

    The same write adds a discontinuity to the feed, above any entry that a thief may have signed. A
    client that accepted such an entry then restarts from the new SRL (FEED-7). `extra_changes`
    returns further changes for that write. Returns the new active signer.
    """
    signer, takes_over = call.active, [_expect_unchanged(call.active)]
    is_active = stolen.id == call.active.id
    approval = _approval_changes(call, stolen.id, is_needed=is_active)
    if is_active:
        successor = _find_successor(call, is_urgent=True)
        successor = successor or srl_signers.create_signer(call.ports, call.caller.tenant_id)
        signer, takes_over = _take_over(call, successor.without_statement())
    action, was = AuditAction.SRL_REVOKE_KEY, stolen.status.value
    entry = _entry(call, action, stolen, was=was, successor=signer.id)
    moves = srl_signers.archive_changes(call.ports, call.caller.tenant_id, ids=[stolen.id])
    revoked = srl_signers.replacement_changes(stolen, stolen.revoke(call.ports.now()))
    mark = marks.trust_mark(call.caller.tenant_id)
    changes = [*takes_over, *revoked, entry, mark, *moves, *extra_changes(signer), *approval]
    publication.publish_with_new_signer(call.ports, call.head, signer, changes, jump=True)
    return signer


def _replace_active_signer(
    call: _SignerCall,
    keep: Keep[SrlSignerView],
    successor: SrlSigner,
    extra_changes: Sequence[Change],
) -> SrlSignerView:
    """Retire the active signer, and publish an SRL by its successor."""
    signer, takes_over = _take_over(call, successor)
    retired = call.active.retire(listed_until=call.head.expires_at)
    moves = srl_signers.archive_changes(call.ports, call.caller.tenant_id, ids=[retired.id])
    view = _to_view(signer, call.settings)
    mark = marks.trust_mark(call.caller.tenant_id)
    ends = _update(call.active, retired)
    changes = [*takes_over, ends, *extra_changes, mark, *moves, *keep(view)]
    publication.publish_with_new_signer(call.ports, call.head, signer, changes)
    return view


def _take_over(call: _SignerCall, successor: SrlSigner) -> tuple[SrlSigner, list[Change]]:
    """Activate the successor; return it, and the changes that store it."""
    if successor.status is SrlSignerStatus.PENDING:
        activated = successor.activate(call.ports.now())
        return activated, [_update(successor, activated)]
    # A pending signer stays pending.
    signer = replace(successor, pending_id=call.active.pending_id)
    changes = list[Change]()
    if successor.status is SrlSignerStatus.STANDBY:
        signer = signer.activate(call.ports.now())
        changes.append(srl_signers.standby_change(call.ports, signer.tenant_id, after=successor))
    return signer, [Put(signer.address, signer.to_item(), Expect.ABSENT), *changes]


def _find_successor(call: _SignerCall, *, is_urgent: bool = False) -> SrlSigner | None:
    """Return the pending or the standby signer, if the trust document names it.

    Without a trust document, returns the pending signer. Returns None if a new signer has to sign:
    there is neither signer, and the tenant has no trust document or the call `is_urgent`. Raises
    `TrustUnsigned` if the document names neither and the call is not urgent.
    """
    tenant_id, pending = call.active.tenant_id, None
    if call.active.pending_id is not None:
        address = signers_partition(tenant_id).address(call.active.pending_id)
        pending = SrlSigner.from_optional(call.ports.store.get(address))
        if pending is None or pending.status is not SrlSignerStatus.PENDING:
            # The write of another call is in flight.
            raise PreconditionFailed([address])
    standby = srl_signers.read_standby(call.ports, tenant_id)
    if standby is not None and standby.id == call.active.id:
        # A rotation is only partly visible: the standby signs, and its successor is not visible
        # yet.
        raise PreconditionFailed([standby_address(tenant_id)])
    signers = [each for each in (pending, standby) if each is not None]
    accepted = _find_accepted(call, signers)
    if accepted is None:
        return pending
    named = accepted or (signers if is_urgent else [])
    if not named and not is_urgent:
        raise TrustUnsigned(_UNSIGNED)
    successor = next(iter(named), None)
    if successor is None or successor.status is SrlSignerStatus.PENDING or is_urgent:
        return successor
    records = srl_signers.read_unarchived(call.ports, successor.tenant_id)
    _check_room(records, call.ports.now())
    return srl_signers.add_statement(call.ports, successor, call.active, records)


def _find_accepted(call: _SignerCall, signers: Sequence[SrlSigner]) -> list[SrlSigner] | None:
    """Return the signers that clients accept, or None if they accept any.

    Clients accept any signer of a tenant without trust documents.
    """
    found = None
    for accept in (accept for each in INSTALLED for accept in each.signer_filters()):
        keys = [each.public_bytes for each in signers]
        if (accepted := accept(call.ports, call.active.tenant_id, keys)) is not None:
            signers = found = [each for each in signers if each.public_bytes in accepted]
    return found


def _approval_changes(call: _SignerCall, key_id: str, *, is_needed: bool = True) -> list[Change]:
    """Return the approval writes for the early activation of another signer."""
    # Imported here so that reads of SRLs do not load it.
    from shared.operations.identities import protected_acts  # noqa: PLC0415

    return protected_acts.approval_changes(
        call.ports,
        call.caller,
        ProtectedAction.FORCE_SIGNER,
        key_id,
        {"active": call.active.id},
        version=call.active.version,
        is_needed=is_needed,
    )


def _read_call(ports: Ports, caller: Caller) -> _SignerCall:
    settings, (head, active) = ports.gather(
        lambda: tenants.settings(ports, caller.tenant_id),
        lambda: in_force.read_head_and_signer(ports, caller.tenant_id),
    )
    return _SignerCall(ports, caller, settings, head, active)


def _find(ports: Ports, caller: Caller, key_id: str) -> SrlSigner:
    if not is_identifier(key_id, kind=SIGNING_KEY):
        raise NotFound
    signers = srl_signers.read_by_ids(ports, caller.tenant_id, [key_id])
    if key_id not in signers:
        raise NotFound
    return signers[key_id]


def _create_signer(call: _SignerCall, status: SrlSignerStatus) -> SrlSigner:
    """Create a signer, with a succession statement if the active signer's seed can be unwrapped."""
    records = srl_signers.read_unarchived(call.ports, call.settings.tenant_id)
    _check_room(records, call.ports.now())
    signer = srl_signers.create_signer(call.ports, call.settings.tenant_id, status)
    return srl_signers.add_statement(call.ports, signer, call.active, records)


def _check_room(records: list[SrlSigner], now: datetime) -> None:
    listed = srl_signers.filter_listed(records, now)
    if sum(each.status is SrlSignerStatus.RETIRED for each in listed) >= srl_signers.KEPT:
        raise Conflict(
            f"At most {srl_signers.KEPT} retired signers are listed; wait until the last SRL of a "
            "retired signer expires."
        )


def _entry(call: _SignerCall, action: AuditAction, signer: SrlSigner, **details: Value) -> Change:
    details = {"active": call.active.id, **details}
    return audit.entry(
        call.ports, call.caller, action, signer.id, settings=call.settings, **details
    )


def _update(old: SrlSigner, new: SrlSigner) -> Change:
    return Put(new.address, new.to_item(), VersionIs(old.version))


def _expect_unchanged(srl_signer: SrlSigner) -> Change:
    return Check(srl_signer.address, VersionIs(srl_signer.version))


def _to_view(srl_signer: SrlSigner, settings: TenantSettings) -> SrlSignerView:
    activates_at: datetime | None = srl_signer.activated_at or srl_signer.created_at
    if srl_signer.status is SrlSignerStatus.PENDING:
        activates_at = srl_signer.created_at + settings.rotation_grace
    if srl_signer.status is SrlSignerStatus.REVOKED:
        activates_at = None
    return SrlSignerView(srl_signer, activates_at)
