"""Warrants: sign a warrant, and list the warrants that a key signed (WARRANT-6, WARRANT-8)."""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from shared.authorizer.formats import ed25519
from shared.authorizer.formats.cutoffs import subject_of
from shared.authorizer.formats.warrants import Claims
from shared.errors import Conflict, DataCorrupt, InsufficientScope, InvalidRequest, InvalidState
from shared.model import revocations, seeds, signing_keys, times, warrant_format
from shared.model import warrants as model
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identifiers import WARRANT, before_all_of
from shared.model.items import Item
from shared.model.signing_keys import KeyStatus, SigningKey, WarrantSigner
from shared.model.warrant_format import WarrantFormat
from shared.model.warrants import WarrantRecord, WarrantState
from shared.operations.base import allowance, audit, counters, seals, tenants
from shared.operations.base.idempotency import Keep, OutcomeCodec, idempotent
from shared.operations.base.operation import operation
from shared.operations.base.paging import Page, PageQueryPlan, newest
from shared.operations.changes.signing_keys import find_key
from shared.operations.lists import records
from shared.operations.lists.verdicts import read_statuses
from shared.ports import Ports
from shared.ports.store import Expect, Increment, Put

# The most that two clocks differ, or that a clock is set back.
_CLOCKS_APART: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class SignRequest:
    """A request to sign `payload` (at most 64 KiB) in a format."""

    payload: bytes
    format: WarrantFormat = WarrantFormat.COSE
    warrant_id: str | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SignedWarrant:
    """A signed warrant and the public key (base64) that verifies it.

    In format raw, `signature` is the signature over the payload. In format COSE, `message` is a
    COSE_Sign1 message. Both are base64, and the member of the other format is None.
    """

    warrant: WarrantRecord
    public_key: str
    signature: str | None = None
    message: str | None = None


def _sign_again(
    ports: Ports, caller: Caller, outcome: Item, *, key_id: str, order: SignRequest
) -> SignedWarrant:
    """Sign the same warrant again, because the outcome contains no signature.

    Raises `InvalidState` if the key can no longer sign it.
    """
    warrant, key = WarrantRecord.from_item(outcome), find_key(ports, caller, key_id)
    if key.key_version != warrant.key_version:
        raise InvalidState(
            "The key was rotated after this request, and the signature was not stored; sign with "
            "a new Idempotency-Key."
        )
    _check_line(ports, key)
    signed = _sign_and_verify(ports, key, warrant, order)
    _check_still(ports, key, warrant.warrant_id)
    return signed


_SIGNED: Final = OutcomeCodec[SignedWarrant](lambda signed: signed.warrant.to_item(), _sign_again)


@idempotent(Scope.ADMIN, Scope.SIGNER, keeps=_SIGNED, rate_limited=True)
def sign(
    ports: Ports, caller: Caller, keep: Keep[SignedWarrant], *, key_id: str, order: SignRequest
) -> SignedWarrant:
    """Sign with the current version of a key, and record that this key signed the warrant.

    If the key is revoked during the call, a signature is returned only if the revocation also
    revokes the warrant (docs/adr/07). Raises `NotFound`; `InvalidRequest` if the order is not valid
    for its format or `expires_at` has passed; `InvalidState` if the key cannot sign; `Conflict` if
    the identifier is in use (WARRANT-5).
    """
    _check_order(ports, order)
    key, settings = ports.gather(
        lambda: find_key(ports, caller, key_id),
        lambda: tenants.settings(ports, caller.tenant_id),
    )
    # Created before signing, because the signed bytes contain it.
    warrant_id = order.warrant_id or ports.new_id(WARRANT)
    if subject_of(warrant_id):
        raise InvalidRequest("warrant_id: identifies all tokens of a subject; choose another.")
    if caller.limits and caller.limits.warrant_prefixes:
        if order.format is WarrantFormat.RAW:
            # The payload could name any other warrant.
            message = "Your role is limited to some warrants; sign with format cose."
            raise InsufficientScope((), message)
        allowance.check_warrants(caller, [warrant_id])
    address = model.warrant_address(caller.tenant_id, warrant_id)
    _, state = ports.gather(lambda: _check_line(ports, key), lambda: ports.store.get(address))
    if state is not None:
        raise Conflict("warrant_id: is signed or revoked already; choose another.")
    now = times.truncate_to_second(ports.now())
    warrant = WarrantRecord(warrant_id, key.id, key.key_version, now, order.expires_at)
    signed = _sign_and_verify(ports, key, warrant, order)
    counted = model.signed_count_address(caller.tenant_id, key.id, warrant_id)
    amounts = {"count": 1, model.version_count(key.key_version): 1}
    standing = WarrantState(key.id, key.key_version, order.format, warrant.ends_at)
    record_at = model.signed_by(caller.tenant_id, key.id).address(ports.new_id(WARRANT))
    ports.store.write(
        Put(address, standing.to_item(), Expect.ABSENT),
        Put(record_at, warrant.to_item(), Expect.ABSENT),
        records.end_index_change(caller.tenant_id, warrant),
        Increment(counted, amounts, Expect.ANYTHING),
        audit.entry(
            ports,
            caller,
            AuditAction.KEY_SIGN,
            key.id,
            settings=settings,
            warrant_id=warrant_id,
            key_version=key.key_version,
            format=order.format.value,
            expires_at=times.format_utc(order.expires_at) if order.expires_at else None,
        ),
        *keep(signed),
    )
    _check_still(ports, key, warrant_id)
    return signed


def _check_order(ports: Ports, order: SignRequest) -> None:
    """Raise `InvalidRequest` if the order is not valid for its format."""
    allowance.check_end(ports, order.expires_at)
    if order.format is not WarrantFormat.RAW:
        return
    if order.warrant_id is None:
        raise InvalidRequest("warrant_id: is required with format raw; put it into the payload.")
    if order.expires_at is not None:
        raise InvalidRequest("expires_at: is not signed with format raw; omit it.")
    if warrant_format.is_reserved(order.payload):
        raise InvalidRequest("payload: must be neither an SRL nor a COSE message with format raw.")


def _sign_and_verify(
    ports: Ports, key: SigningKey, warrant: WarrantRecord, order: SignRequest
) -> SignedWarrant:
    """Sign, and verify with the public key. Raises `DataCorrupt` if that fails, `Unavailable`."""
    seed, signed = seals.unwrap_seed(ports, key), SignedWarrant(warrant, key.public_key)
    if order.format is WarrantFormat.RAW:
        data, signature = order.payload, seeds.signature(order.payload, seed=seed)
        signed = replace(signed, signature=base64.b64encode(signature).decode())
    else:
        claims = Claims(
            key.tenant_id, warrant.warrant_id, warrant.signed_at, warrant.ends_at, order.payload
        )
        message = warrant_format.sign(claims, key_id=key.id, key_version=key.key_version, seed=seed)
        data, signature = message.signed_bytes, message.signature
        signed = replace(signed, message=base64.b64encode(message.encode()).decode())
    if not ed25519.is_signed(data, signature, public_key=key.public_bytes):
        raise DataCorrupt("the seed of a signing key belongs to another key")
    return signed


@operation(Scope.ADMIN, Scope.READ_ONLY, Scope.AUDITOR)
def page(
    ports: Ports, caller: Caller, *, key_id: str, before: str | None, limit: int
) -> Page[WarrantRecord]:
    """Return a page of the warrants that a key or a superseded version signed, newest first.

    Raises `NotFound`.
    """
    key = find_key(ports, caller, key_id)
    signer_id, version = key.signer.key_id, key.signer.key_version
    signed = model.signed_by(caller.tenant_id, signer_id)
    walk = PageQueryPlan(signed, WarrantRecord.from_item, before, limit)

    def total() -> int:
        counts = counters.of_signed(ports, caller.tenant_id, signer_id)
        return counts[model.signed_count_name(version)]

    if version is None:
        return newest(ports, walk, total=total)
    walk = replace(walk, keep=lambda warrant: warrant.key_version == version)
    # A superseded version signed between these times.
    start = before_all_of(key.version_created_at - _CLOCKS_APART, kind=WARRANT)
    rotated_at = key.rotated_at or key.version_created_at
    end = before_all_of(rotated_at + _CLOCKS_APART, kind=WARRANT)
    in_time = replace(walk, after=start, before=end if before is None else min(before, end))
    result = newest(ports, in_time, total=total)
    if before is None and result.next_before is None and len(result.entries) < (result.total or 0):
        # Clocks differed by more than `_CLOCKS_APART`, or a warrant is being signed.
        return newest(ports, walk, total=total)
    return result


def _check_line(ports: Ports, key: SigningKey) -> None:
    """Raise `InvalidState` if the state of the key or of an ancestor prevents signing."""
    if key.status is not KeyStatus.ACTIVE:
        raise InvalidState(f"The key is {key.status}; only an active key signs.")
    if key.has_expired(ports.now()):
        raise InvalidState("The key has expired; create another one.")
    _check_active(ports, key, key.ancestors)


def _check_still(ports: Ports, key: SigningKey, warrant_id: str) -> None:
    """Raise `InvalidState` if the key stopped signing before the warrant was stored.

    Checks and SRLs find a revoked key by its marker. If no marker exists after the warrant is
    stored, every SRL built after a later revocation contains the warrant (docs/adr/07).
    """
    signers = (WarrantSigner(key.id, None), WarrantSigner(key.id, key.key_version))
    markers = [revocations.marker_address(key.tenant_id, each) for each in signers]
    verdict, stored_markers, _ = ports.gather(
        lambda: read_statuses(ports, key.tenant_id, [warrant_id])[warrant_id],
        lambda: ports.store.get_many(markers),
        lambda: _check_active(ports, key, (key.id, *key.ancestors)),
    )
    if verdict.by_key or stored_markers:
        raise InvalidState(_INACTIVE)


def _check_active(ports: Ports, key: SigningKey, key_ids: Iterable[str]) -> None:
    addresses = [signing_keys.keys(key.tenant_id).address(each) for each in key_ids]
    items = ports.store.get_many(addresses)
    if len(items) != len(addresses):
        raise DataCorrupt("a key has an ancestor that does not exist")
    for each in (SigningKey.from_item(items[address]) for address in addresses):
        if each.status is not KeyStatus.ACTIVE:
            raise InvalidState(
                _INACTIVE
                if each.id == key.id
                else "An ancestor of this key is not active; enable the ancestor first."
            )


_INACTIVE = "The key is no longer active; only an active key signs."
