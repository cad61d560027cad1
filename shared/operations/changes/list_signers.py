"""SRL signers: list, create, activate, rotate, revoke (SIGNER-2, docs/adr/13).

An operation that replaces the active signer also publishes an SRL by the new signer in the same
write. No SRL by the old signer can therefore follow. The record of the active signer is a
precondition of each write, so one of two concurrent operations runs again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

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
from shared.operations.lists import in_force, marks, publication
from shared.operations.lists import records as srl_records
from shared.operations.lists import signers as srl_signers
from shared.operations.trust import documents, publishing
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
class SignerPage:
    """A page of signers.

    `next_before` is the `before` of the next page, or None on the last page.
    """

    signers: list[SrlSignerView]
    next_before: str | None


@dataclass(frozen=True, slots=True)
class _SignerFacts:
    """The records that operations on signers depend on."""

    settings: TenantSettings
    head: SrlHead
    active: SrlSigner

    def to_view(self, srl_signer: SrlSigner) -> SrlSignerView:
        return _to_view(srl_signer, self.settings)


def _stored_result(view: SrlSignerView) -> Item:
    since = view.activates_at
    record = item(view.record, but=["sealed_seed"])
    return {"record": record, "activates_at": None if since is None else times.format_utc(since)}


def _restore_result(_ports: Ports, _caller: Caller, outcome: Item, **_: object) -> SrlSignerView:
    record = SrlSigner.from_item(nested_item(outcome, "record"))
    return SrlSignerView(record, moment(outcome.get("activates_at"), "activates_at"))


_KEPT: Final = OutcomeCodec[SrlSignerView](_stored_result, _restore_result)


@operation(*Scope)
def page(ports: Ports, caller: Caller, *, before: str | None = None) -> SignerPage:
    """Return the signers: first the signer of the current SRL, then the others, newest first.

    A retired signer is omitted after its last SRL has expired. A revoked signer stays, so a
    verifier that pinned it sees the revocation. The first page contains all signers that are not
    archived. The pages from `before` on contain the archived revoked signers.
    """
    tenant_id, now = caller.tenant_id, ports.now()
    if before is not None:
        archived, position = srl_signers.read_archive_page(ports, tenant_id, before=before)
        return SignerPage([SrlSignerView(each, None) for each in archived], position)
    settings, head = ports.gather(
        lambda: tenants.settings(ports, tenant_id), lambda: in_force.read_srl_head(ports, tenant_id)
    )
    # Read after the SRL head, so the records include the signer that the head names.
    records = srl_signers.read_unarchived(ports, tenant_id)
    listed = srl_signers.filter_listed(records, now)
    first = [each for each in records if each.id == head.key_id]
    others = [each for each in listed if each.id != head.key_id]
    shown = [_to_view(each, settings) for each in (*first, *others)]
    return SignerPage(shown, srl_signers.first_archive_page(ports, tenant_id))


@idempotent(Scope.ADMIN, keeps=_KEPT, fresh=True)
def create(ports: Ports, caller: Caller, keep: Keep[SrlSignerView]) -> SrlSignerView:
    """Create a pending signer, with a succession statement by the active signer.

    Raises `InvalidState` if there is a pending signer, `Conflict` if too many retired signers are
    listed, `DataCorrupt` if the active signer's seed cannot be unwrapped.
    """
    facts = _facts(ports, caller)
    if facts.active.pending_id is not None:
        raise InvalidState(_ONE_PENDING)
    pending = _new(ports, facts, SrlSignerStatus.PENDING)
    if pending.statement is None:
        raise DataCorrupt(
            "cannot unwrap the seed of the SRL signer, which must sign the succession statement"
        )
    shown = facts.to_view(pending)
    ports.store.write(
        Put(pending.address, pending.to_item(), Expect.ABSENT),
        _update(facts.active, facts.active.with_successor(pending.id)),
        _entry(ports, caller, facts, AuditAction.SRL_CREATE_KEY, pending),
        marks.trust_mark(caller.tenant_id),
        *keep(shown),
    )
    return shown


@idempotent(Scope.ADMIN, keeps=_KEPT, claims=True, fresh=True)
def activate(
    ports: Ports, caller: Caller, keep: Keep[SrlSignerView], *, key_id: str, force: bool = False
) -> SrlSignerView:
    """Activate a pending signer, and publish an SRL that it signs.

    Raises `NotFound`; `InvalidState` if the signer is retired or revoked, or if its grace period
    has not passed and `force` is false; `TrustUnsigned` if the trust document does not name it yet.
    """
    facts = _facts(ports, caller)
    found = _find(ports, caller, key_id)
    is_early = ports.now() < found.created_at + facts.settings.rotation_grace
    is_forced = force and is_early and found.status is SrlSignerStatus.PENDING
    taken = _approval_changes(ports, caller, facts, found.id, is_needed=is_forced)
    if found.status is SrlSignerStatus.ACTIVE:
        return facts.to_view(found)
    if found.status is not SrlSignerStatus.PENDING:
        raise InvalidState(f"A {found.status} signer cannot be activated; create another signer.")
    if not force and is_early:
        raise InvalidState(
            "Verifiers may not have this signer yet; wait until its activates_at, or pass force."
        )
    if not _named_in_trust_document(ports, facts, [found]):
        raise TrustUnsigned(_UNSIGNED)
    entry = _entry(ports, caller, facts, AuditAction.SRL_ACTIVATE_KEY, found, force=force)
    return _replace_active_signer(ports, caller, keep, facts, found, [entry, *taken])


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
    facts = _facts(ports, caller)
    if compromised:

        def extra_changes(signer: SrlSigner) -> Sequence[Change]:
            return keep(facts.to_view(signer))

        return facts.to_view(_replace_stolen(ports, caller, facts, facts.active, extra_changes))
    taken = _approval_changes(ports, caller, facts, facts.active.id)
    successor = _successor(ports, facts) or _new(ports, facts, SrlSignerStatus.ACTIVE)
    entry = _entry(ports, caller, facts, AuditAction.SRL_ROTATE_KEY, successor)
    return _replace_active_signer(ports, caller, keep, facts, successor, [entry, *taken])


@idempotent(Scope.ADMIN, keeps=_KEPT, claims=True, fresh=True)
def revoke(
    ports: Ports, caller: Caller, keep: Keep[SrlSignerView], *, key_id: str
) -> SrlSignerView:
    """Revoke a stolen signer. If it is in use, publish an SRL by another signer.

    It is in use if it is active or signed the current SRL. The other signer has no succession
    statement, because the thief could also use the stolen key to sign a statement for a foreign
    key. Raises `NotFound`.
    """
    facts = _facts(ports, caller)
    found = facts.active if key_id == facts.active.id else _find(ports, caller, key_id)
    if found.status is SrlSignerStatus.REVOKED:
        allowance.check_asks_nothing(caller)
        return facts.to_view(found)
    shown = facts.to_view(found.revoke(ports.now()))
    if found.id in (facts.active.id, facts.head.key_id):
        _replace_stolen(ports, caller, facts, found, lambda _: keep(shown))
    else:
        allowance.check_asks_nothing(caller)
        _drop(ports, caller, facts, found, keep(shown))
    return shown


def _drop(
    ports: Ports, caller: Caller, facts: _SignerFacts, stolen: SrlSigner, kept: Sequence[Change]
) -> None:
    """Revoke a signer that is not active and did not sign the current SRL."""
    changes = srl_signers.replacement_changes(stolen, stolen.revoke(ports.now()))
    if facts.active.pending_id == stolen.id:
        changes.append(_update(facts.active, facts.active.with_successor(None)))
    else:
        # Without this precondition, it may have become the active signer since.
        changes.append(_expect_unchanged(facts.active))
    details: dict[str, Value] = {"was": stolen.status.value}
    entry = _entry(ports, caller, facts, AuditAction.SRL_REVOKE_KEY, stolen, **details)
    moves = srl_signers.archive_changes(ports, caller.tenant_id, ids=[stolen.id])
    ports.store.write(
        *changes, *srl_records.tombstone_counter_changes(caller.tenant_id), entry, *moves, *kept
    )


def _replace_stolen(
    ports: Ports,
    caller: Caller,
    facts: _SignerFacts,
    stolen: SrlSigner,
    extra_changes: Callable[[SrlSigner], Sequence[Change]],
) -> SrlSigner:
    """Revoke the active signer or the signer of the current SRL; publish an SRL with another.

    The same write adds a discontinuity to the feed, above any entry that a thief may have signed. A
    client that accepted such an entry then restarts from the new SRL (FEED-7). `extra_changes`
    returns further changes for that write. Returns the new active signer.
    """
    signer, takes_over = facts.active, [_expect_unchanged(facts.active)]
    is_active = stolen.id == facts.active.id
    taken = _approval_changes(ports, caller, facts, stolen.id, is_needed=is_active)
    if is_active:
        successor = _successor(ports, facts, is_urgent=True)
        successor = successor or srl_signers.create_signer(ports, caller.tenant_id)
        signer, takes_over = _takes_over(ports, facts, successor.without_statement())
    details: dict[str, Value] = {"was": stolen.status.value, "successor": signer.id}
    entry = _entry(ports, caller, facts, AuditAction.SRL_REVOKE_KEY, stolen, **details)
    moves = srl_signers.archive_changes(ports, caller.tenant_id, ids=[stolen.id])
    revoked = srl_signers.replacement_changes(stolen, stolen.revoke(ports.now()))
    mark = marks.trust_mark(caller.tenant_id)
    changes = [*takes_over, *revoked, entry, mark, *moves, *extra_changes(signer), *taken]
    publication.publish_with_new_signer(ports, caller, facts.head, signer, changes, leaps=True)
    return signer


def _replace_active_signer(
    ports: Ports,
    caller: Caller,
    keep: Keep[SrlSignerView],
    facts: _SignerFacts,
    successor: SrlSigner,
    extra_changes: Sequence[Change],
) -> SrlSignerView:
    """Retire the active signer, and publish an SRL by its successor."""
    signer, takes_over = _takes_over(ports, facts, successor)
    retired = facts.active.retire(listed_until=facts.head.expires_at)
    moves = srl_signers.archive_changes(ports, caller.tenant_id, ids=[retired.id])
    shown = facts.to_view(signer)
    mark = marks.trust_mark(caller.tenant_id)
    ends = _update(facts.active, retired)
    changes = [*takes_over, ends, *extra_changes, mark, *moves, *keep(shown)]
    publication.publish_with_new_signer(ports, caller, facts.head, signer, changes)
    return shown


def _takes_over(
    ports: Ports, facts: _SignerFacts, successor: SrlSigner
) -> tuple[SrlSigner, list[Change]]:
    """Return the successor as active signer, and the changes that store it."""
    if successor.status is SrlSignerStatus.PENDING:
        activated = successor.activate(ports.now())
        return activated, [_update(successor, activated)]
    # A pending signer stays pending.
    signer = replace(successor, pending_id=facts.active.pending_id)
    changes = list[Change]()
    if successor.status is SrlSignerStatus.STANDBY:
        signer = signer.activate(ports.now())
        changes.append(srl_signers.standby_change(ports, signer.tenant_id, after=successor))
    return signer, [Put(signer.address, signer.to_item(), Expect.ABSENT), *changes]


def _successor(ports: Ports, facts: _SignerFacts, *, is_urgent: bool = False) -> SrlSigner | None:
    """Return the pending or the standby signer, if the trust document names it.

    Without a trust document, returns the pending signer. Returns None if a new signer has to sign:
    there is neither signer, and the tenant has no trust document or the call `is_urgent`. Raises
    `TrustUnsigned` if the document names neither and the call is not urgent.
    """
    pending, standby = (
        _pending(ports, facts),
        srl_signers.read_standby(ports, facts.active.tenant_id),
    )
    if standby is not None and standby.id == facts.active.id:
        # A rotation is only partly visible: the standby signs, and its successor is not visible
        # yet.
        raise PreconditionFailed([standby_address(facts.active.tenant_id)])
    if in_force.read_trust_head(ports, facts.active.tenant_id) is None:
        return pending
    found = [each for each in (pending, standby) if each is not None]
    named = _named_in_trust_document(ports, facts, found) or (found if is_urgent else [])
    if not named and not is_urgent:
        raise TrustUnsigned(_UNSIGNED)
    successor = next(iter(named), None)
    if successor is None or successor.status is SrlSignerStatus.PENDING or is_urgent:
        return successor
    records = srl_signers.read_unarchived(ports, successor.tenant_id)
    _check_room(records, ports.now())
    return srl_signers.add_statement(ports, successor, facts.active, records)


def _named_in_trust_document(
    ports: Ports, facts: _SignerFacts, signers: Sequence[SrlSigner]
) -> list[SrlSigner]:
    """Return the signers that the trust document names, or all if there is no document.

    Clients reject signatures by other signers. If the root key is online, the document is created
    first.
    """
    named = _known_signers(ports, facts, signers)
    if not named and ports.root is not None:
        publishing.keep(ports, facts.active.tenant_id)
        named = _known_signers(ports, facts, signers)
    return named


def _known_signers(
    ports: Ports, facts: _SignerFacts, signers: Sequence[SrlSigner]
) -> list[SrlSigner]:
    keys = documents.list_keys(ports, facts.active.tenant_id)
    return [each for each in signers if keys is None or each.public_bytes in keys]


def _approval_changes(
    ports: Ports, caller: Caller, facts: _SignerFacts, key_id: str, *, is_needed: bool = True
) -> list[Change]:
    """Return the approval writes for the early activation of another signer."""
    # Imported here so that reads of SRLs do not load it.
    from shared.operations.identities import protected_acts  # noqa: PLC0415

    details: dict[str, Value] = {"active": facts.active.id}
    return protected_acts.approval_changes(
        ports,
        caller,
        ProtectedAction.FORCE_SIGNER,
        key_id,
        details,
        version=facts.active.version,
        is_needed=is_needed,
    )


def _facts(ports: Ports, caller: Caller) -> _SignerFacts:
    settings, (head, active) = ports.gather(
        lambda: tenants.settings(ports, caller.tenant_id),
        lambda: in_force.read_head_and_signer(ports, caller.tenant_id),
    )
    return _SignerFacts(settings, head, active)


def _find(ports: Ports, caller: Caller, key_id: str) -> SrlSigner:
    if not is_identifier(key_id, kind=SIGNING_KEY):
        raise NotFound
    found = srl_signers.read_by_ids(ports, caller.tenant_id, [key_id])
    if key_id not in found:
        raise NotFound
    return found[key_id]


def _pending(ports: Ports, facts: _SignerFacts) -> SrlSigner | None:
    """Read the pending signer, or None if there is none.

    Raises `PreconditionFailed` if the pending signer of the active one is not pending.
    """
    if facts.active.pending_id is None:
        return None
    address = signers_partition(facts.settings.tenant_id).address(facts.active.pending_id)
    pending = SrlSigner.from_optional(ports.store.get(address))
    if pending is None or pending.status is not SrlSignerStatus.PENDING:
        # The write of another call is in flight.
        raise PreconditionFailed([address])
    return pending


def _new(ports: Ports, facts: _SignerFacts, status: SrlSignerStatus) -> SrlSigner:
    """Create a signer, with a succession statement if the active signer's seed can be unwrapped."""
    records = srl_signers.read_unarchived(ports, facts.settings.tenant_id)
    _check_room(records, ports.now())
    signer = srl_signers.create_signer(ports, facts.settings.tenant_id, status)
    return srl_signers.add_statement(ports, signer, facts.active, records)


def _check_room(records: list[SrlSigner], now: datetime) -> None:
    listed = srl_signers.filter_listed(records, now)
    if sum(each.status is SrlSignerStatus.RETIRED for each in listed) >= srl_signers.KEPT:
        raise Conflict(
            f"At most {srl_signers.KEPT} retired signers are listed; wait until the last SRL of a "
            "retired signer expires."
        )


def _entry(
    ports: Ports,
    caller: Caller,
    facts: _SignerFacts,
    action: AuditAction,
    srl_signer: SrlSigner,
    **details: Value,
) -> Change:
    settings, active_id = facts.settings, facts.active.id
    return audit.entry(
        ports, caller, action, srl_signer.id, settings=settings, active=active_id, **details
    )


def _update(old: SrlSigner, new: SrlSigner) -> Change:
    return Put(new.address, new.to_item(), VersionIs(old.version))


def _expect_unchanged(srl_signer: SrlSigner) -> Change:
    return Check(srl_signer.address, VersionIs(srl_signer.version))


def _to_view(srl_signer: SrlSigner, settings: TenantSettings) -> SrlSignerView:
    since = srl_signer.activated_at or srl_signer.created_at
    if srl_signer.status is SrlSignerStatus.PENDING:
        return SrlSignerView(srl_signer, srl_signer.created_at + settings.rotation_grace)
    return SrlSignerView(
        srl_signer, None if srl_signer.status is SrlSignerStatus.REVOKED else since
    )
