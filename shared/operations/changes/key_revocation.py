"""Revoke a signing key, and thereby every warrant that it signed (KEY-9).

Warrant records do not change, because a check also reads the state of the key (docs/adr/07).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from shared.model import signing_keys as model
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identities.approvals import ProtectedAction
from shared.model.items import Item
from shared.model.records import Record, integer
from shared.model.revocations import SignerRevocation
from shared.model.signing_keys import KeyStatus, SigningKey
from shared.operations.base import audit, counters, operation, tenants
from shared.operations.base.idempotency import Keep, OutcomeCodec, idempotent, item, nested_item
from shared.operations.changes.signing_keys import count_change, find_key
from shared.operations.lists import marks, verdicts
from shared.ports import Ports
from shared.ports.store import Put, VersionIs

# Each key takes three changes, and the rest of the write seven, of at most a hundred.
_KEYS_A_WRITE = 31


@dataclass(frozen=True, slots=True)
class RevocationImpact(Record):
    """The number of keys that a revocation would revoke, and of warrants that they signed."""

    keys: int
    warrants: int


@dataclass(frozen=True, slots=True)
class RevokedKey:
    """A key after its revocation, or before a dry run with the impact in `reach`.

    `descendants` is the number of active or suspended descendants that are not revoked.
    """

    key: SigningKey
    descendants: int
    reach: RevocationImpact | None = None


def _stored_result(result: RevokedKey) -> Item:
    reach = None if result.reach is None else result.reach.to_item()
    key = item(result.key, but=["sealed_seed"])
    return {"key": key, "descendants": result.descendants, "reach": reach}


def _restore_result(_ports: Ports, _caller: Caller, outcome: Item, **_: object) -> RevokedKey:
    reach = None
    if outcome.get("reach") is not None:
        reach = RevocationImpact.from_item(nested_item(outcome, "reach"))
    key = SigningKey.from_item(nested_item(outcome, "key"))
    return RevokedKey(key, integer(outcome, "descendants"), reach)


@idempotent(
    Scope.ADMIN, keeps=OutcomeCodec(_stored_result, _restore_result), claims=True, rate_limited=True
)
def revoke(  # noqa: PLR0913 (callers pass no `keep`)
    ports: Ports,
    caller: Caller,
    keep: Keep[RevokedKey],
    *,
    key_id: str,
    reason: str,
    cascade: bool = False,
    dry_run: bool = False,
) -> RevokedKey:
    """Revoke a key, and its descendants if `cascade` is true. A revoked key is unchanged.

    The first write revokes the key and up to 30 descendants, and further writes the rest. If a call
    is interrupted, the same call completes it. If `dry_run` is true, the keys and warrants are
    counted and not changed (KEY-11). Raises `NotFound`, `ApprovalRequired` (APPROVAL-1).
    """
    # Imported here so that signing does not load it.
    from shared.operations.identities import protected_acts  # noqa: PLC0415

    key = find_key(ports, caller, key_id)
    staying = 0
    # A superseded version has no descendants.
    if not cascade and key.current_id is None:
        living = (KeyStatus.ACTIVE, KeyStatus.SUSPENDED)
        staying = sum(each.status in living for each in _descendants(ports, key))
    is_root = key.type is model.SigningKeyType.ROOT
    approval = protected_acts.approval_changes(
        ports,
        caller,
        ProtectedAction.REVOKE_ROOT,
        key.id,
        {"name": key.name, "reason": reason, "cascade": cascade},
        version=key.version,
        is_needed=is_root and not dry_run and key.status is not KeyStatus.REVOKED,
    )
    if dry_run:
        keys = _living(ports, key, cascade=cascade)
        impact = RevocationImpact(len(keys), sum(_count_warrants(ports, keys).values()))
        return RevokedKey(key, staying, impact)
    settings = tenants.settings(ports, caller.tenant_id)
    # Read again after each write: a child may have been created before its parent was revoked.
    while keys := _keys_to_revoke(ports, key, cascade=cascade)[:_KEYS_A_WRITE]:
        now = ports.now()
        signed = _count_warrants(ports, keys)
        markers = {each.signer: SignerRevocation(now, reason) for each in keys}
        changes = verdicts.signer_revocation_changes(ports, caller.tenant_id, markers)
        revoked = {each.id: each.revoke(now, reason=reason) for each in keys}
        for each in keys:
            changes.append(Put(each.address, revoked[each.id].to_item(), VersionIs(each.version)))
            entry = audit.entry(
                ports,
                caller,
                AuditAction.KEY_REVOKE,
                each.id,
                settings=settings,
                reason=reason,
                cascade=cascade,
                warrants=signed.get(each.id, 0),
            )
            changes.append(entry)
        amounts = chain(((each, -1) for each in keys), ((each, 1) for each in revoked.values()))
        counts = count_change(caller.tenant_id, *amounts)
        mark = marks.signers_mark(caller.tenant_id, markers, now, revoked)
        # A cascade may need more writes, so its outcome is stored when it has ended.
        outcome = () if cascade else keep(RevokedKey(revoked[key_id], staying))
        approval_of_write = approval if key_id in revoked else []
        ports.store.write(
            *changes, marks.keys_mark(caller.tenant_id), mark, counts, *outcome, *approval_of_write
        )
        key = revoked.get(key.id, key)
    return RevokedKey(key, staying)


def _keys_to_revoke(ports: Ports, key: SigningKey, *, cascade: bool) -> list[SigningKey]:
    """Return the keys to revoke, including a key that becomes visible only now."""
    living = _living(ports, key, cascade=cascade)
    if living or not cascade:
        return living
    # The creation of a child may still be in flight when its parent has been revoked.
    operation.wait_for_writes()
    return _living(ports, key, cascade=cascade)


def _living(ports: Ports, key: SigningKey, *, cascade: bool) -> list[SigningKey]:
    keys = [key, *(_descendants(ports, key) if cascade else [])]
    return [each for each in keys if each.status is not KeyStatus.REVOKED]


def _count_warrants(ports: Ports, keys: Sequence[SigningKey]) -> dict[str, int]:
    """Count the warrants of each key. A superseded version counts as part of its key."""
    ids = {key.id for key in keys}
    counted = [key for key in keys if key.current_id not in ids]
    signers = [key.signer for key in counted]
    signed = counters.of_signers(ports, keys[0].tenant_id, signers) if keys else []
    return {key.id: number for key, number in zip(counted, signed, strict=True)}


def _descendants(ports: Ports, key: SigningKey) -> list[SigningKey]:
    """Read all descendants of a key. They cannot sign, because the key is revoked first."""
    keys = SigningKey.from_rows(ports.store.query(model.keys(key.tenant_id)))
    return [each for each in keys if key.id in each.ancestors]
