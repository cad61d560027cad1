"""Revoke a signing key, and thereby every warrant that it signed (KEY-9).

Warrant records do not change, because a check also reads the state of the key (docs/adr/07).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain
from typing import TypedDict

from shared.model import signing_keys as model
from shared.model.audit.audit_log import AuditAction
from shared.model.callers import Caller, Scope
from shared.model.identities.approvals import ProtectedAction
from shared.model.items import Item, Value
from shared.model.records import integer
from shared.model.revocations import SignerRevocation
from shared.model.signing_keys import KeyStatus, SigningKey
from shared.model.tenants import TenantSettings
from shared.operations.base import audit, counters, operation, tenants
from shared.operations.base.idempotency import Keep, OutcomeCodec, idempotent, item, nested_item
from shared.operations.changes.signing_keys import count_change, find_key
from shared.operations.lists import marks, verdicts
from shared.ports import Ports
from shared.ports.store import Change, Put, VersionIs

# Each key takes three changes, and the rest of the write seven, of at most a hundred.
_KEYS_A_WRITE = 31


class _Details(TypedDict):
    """Details of the audit entry of a revocation."""

    reason: str
    cascade: bool


@dataclass(frozen=True, slots=True)
class RevocationImpact:
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
    reach = None if result.reach is None else asdict(result.reach)
    key = item(result.key, but=["sealed_seed"])
    return {"key": key, "descendants": result.descendants, "reach": reach}


def _restore_result(_ports: Ports, _caller: Caller, outcome: Item, **_: object) -> RevokedKey:
    reach = None
    if outcome.get("reach") is not None:
        found = nested_item(outcome, "reach")
        reach = RevocationImpact(integer(found, "keys"), integer(found, "warrants"))
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
    key = find_key(ports, caller, key_id)
    staying = 0 if cascade else _staying(ports, key)
    details = _Details(reason=reason, cascade=cascade)
    is_change = not dry_run and key.status is not KeyStatus.REVOKED
    taken = _approval_changes(ports, caller, key, details, is_needed=is_change)
    if dry_run:
        return RevokedKey(key, staying, _reach(ports, _living(ports, key, cascade=cascade)))
    settings = tenants.settings(ports, caller.tenant_id)

    def extra_changes(keys: Mapping[str, SigningKey]) -> Sequence[Change]:
        # A cascade may need more writes, so its outcome is stored when it has ended.
        kept = () if cascade else keep(RevokedKey(keys[key_id], staying))
        return [*kept, *(taken if key_id in keys else [])]

    # Read again after each write: a child may have been created before its parent was revoked.
    while living := _keys_to_revoke(ports, key, cascade=cascade):
        revoked = _revoke_all(
            ports, caller, settings, living[:_KEYS_A_WRITE], details, extra_changes
        )
        key = revoked.get(key.id, key)
    return RevokedKey(key, staying)


def _approval_changes(
    ports: Ports, caller: Caller, key: SigningKey, details: _Details, *, is_needed: bool
) -> list[Change]:
    """Return the approval writes for the revocation of a key, if it is a protected root key."""
    # Imported here so that signing does not load it.
    from shared.operations.identities import protected_acts  # noqa: PLC0415

    is_root = key.type is model.SigningKeyType.ROOT
    reason, cascade = details["reason"], details["cascade"]
    shown: dict[str, Value] = {"name": key.name, "reason": reason, "cascade": cascade}
    return protected_acts.approval_changes(
        ports,
        caller,
        ProtectedAction.REVOKE_ROOT,
        key.id,
        shown,
        version=key.version,
        is_needed=is_needed and is_root,
    )


def _keys_to_revoke(ports: Ports, key: SigningKey, *, cascade: bool) -> list[SigningKey]:
    """Return the keys to revoke, including a key that becomes visible only now."""
    living = _living(ports, key, cascade=cascade)
    if living or not cascade:
        return living
    # The creation of a child may still be in flight when its parent has been revoked.
    operation.wait_for_writes()
    return _living(ports, key, cascade=cascade)


def _living(ports: Ports, key: SigningKey, *, cascade: bool) -> list[SigningKey]:
    doomed = [key, *(_descendants(ports, key) if cascade else [])]
    return [each for each in doomed if each.status is not KeyStatus.REVOKED]


def _staying(ports: Ports, key: SigningKey) -> int:
    """Count the active and suspended descendants. A superseded version has none."""
    if key.current_id is not None:
        return 0
    living = (KeyStatus.ACTIVE, KeyStatus.SUSPENDED)
    return sum(1 for each in _descendants(ports, key) if each.status in living)


def _reach(ports: Ports, keys: Sequence[SigningKey]) -> RevocationImpact:
    """Count `keys` and their warrants."""
    return RevocationImpact(len(keys), sum(_count_warrants(ports, keys).values()))


def _count_warrants(ports: Ports, keys: Sequence[SigningKey]) -> dict[str, int]:
    """Count the warrants of each key. A superseded version counts as part of its key."""
    going = {key.id for key in keys}
    counted = [key for key in keys if key.current_id not in going]
    signers = [key.signer for key in counted]
    signed = counters.of_signers(ports, keys[0].tenant_id, signers) if keys else []
    return {key.id: number for key, number in zip(counted, signed, strict=True)}


def _descendants(ports: Ports, key: SigningKey) -> list[SigningKey]:
    """Read all descendants of a key. They cannot sign, because the key is revoked first."""
    keys = SigningKey.from_rows(ports.store.query(model.keys(key.tenant_id)))
    return [each for each in keys if key.id in each.ancestors]


def _revoke_all(
    ports: Ports,
    caller: Caller,
    settings: TenantSettings,
    keys: Sequence[SigningKey],
    details: _Details,
    extra_changes: Callable[[Mapping[str, SigningKey]], Sequence[Change]],
) -> dict[str, SigningKey]:
    """Revoke `keys` in one write, together with the writes of `extra_changes`."""
    now, reason = ports.now(), details["reason"]
    signed = _count_warrants(ports, keys)
    markers = {key.signer: SignerRevocation(now, reason) for key in keys}
    changes = verdicts.signer_revocation_changes(ports, caller.tenant_id, markers)
    revoked = {key.id: key.revoke(now, reason=reason) for key in keys}
    for key in keys:
        changes.append(Put(key.address, revoked[key.id].to_item(), VersionIs(key.version)))
        action = AuditAction.KEY_REVOKE
        entry = partial(audit.entry, ports, caller, action, key.id, settings=settings, **details)
        changes.append(entry(warrants=signed.get(key.id, 0)))
    amounts = chain(((key, -1) for key in keys), ((key, 1) for key in revoked.values()))
    counts = count_change(caller.tenant_id, *amounts)
    mark = marks.signers_mark(caller.tenant_id, markers, now, revoked)
    ports.store.write(
        *changes, marks.keys_mark(caller.tenant_id), mark, counts, *extra_changes(revoked)
    )
    return revoked
