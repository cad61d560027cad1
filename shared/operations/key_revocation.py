"""Revoking a signing key, and with it every warrant that it signed (service.md 3).

The warrants are not touched: that they are revoked follows from their key (docs/adr/0010).
"""

from collections.abc import Sequence
from typing import TypedDict

from shared.model import signing_keys as model
from shared.model.audit_log import Action
from shared.model.callers import Caller, Scope
from shared.model.signing_keys import SigningKey, Status
from shared.model.tenants import Settings
from shared.operations import audit_log, srl_marks, tenants
from shared.operations.operation import operation
from shared.operations.signing_keys import counted, find_key
from shared.operations.verdicts import revoked_signers
from shared.ports import Ports
from shared.ports.store import At, Change, Expect, Put

# Each takes two changes of the hundred that a write may have.
_KEYS_A_WRITE = 45


class _Details(TypedDict):
    """What the audit log says of a revocation."""

    reason: str
    cascade: bool


@operation(Scope.ADMIN)
def revoke(
    ports: Ports, caller: Caller, *, key_id: str, reason: str, cascade: bool = False
) -> SigningKey:
    """Revoke a key for good; with `cascade`, its descendants too. A revoked one stays as it is.

    The key and its first 44 descendants go in one write; more follow in further writes, and a call
    that was stopped on the way goes on where it is repeated. Raises `NotFound`.
    """
    key = find_key(ports, caller, key_id)
    settings = tenants.settings(ports, caller.tenant_id)
    # Walked again after each write: a child may have come before its parent was revoked.
    details = _Details(reason=reason, cascade=cascade)
    while living := _living(ports, key, cascade=cascade):
        revoked = _revoke_all(ports, caller, settings, living[:_KEYS_A_WRITE], details)
        key = revoked.get(key.id, key)
    return key


def _living(ports: Ports, key: SigningKey, *, cascade: bool) -> list[SigningKey]:
    doomed = [key, *(_descendants(ports, key) if cascade else [])]
    return [each for each in doomed if each.status is not Status.REVOKED]


def _descendants(ports: Ports, key: SigningKey) -> list[SigningKey]:
    """Every key below this one. Revoked before them, it cuts them off even where the call stops."""
    entries = ports.store.query(model.keys(key.tenant_id))
    keys = (SigningKey.from_item(entry.item) for entry in entries)
    return [each for each in keys if key.id in each.ancestors]


def _revoke_all(
    ports: Ports, caller: Caller, settings: Settings, keys: Sequence[SigningKey], details: _Details
) -> dict[str, SigningKey]:
    signers = revoked_signers(ports, caller.tenant_id)
    expected = At(signers.version) if signers.version else Expect.ABSENT
    changes: list[Change] = []
    amounts: dict[str, int] = {}
    added: list[str] = []
    revoked = {key.id: key.revoked(ports.now(), reason=details["reason"]) for key in keys}
    for key in keys:
        added.append(str(key.signer))
        for status, amount in ((key.status, -1), (Status.REVOKED, 1)):
            name = model.count_name(key.type, status)
            amounts[name] = amounts.get(name, 0) + amount
        changes.append(Put(key.key, revoked[key.id].to_item(), At(key.version)))
        changes.append(
            audit_log.entry(
                ports,
                caller,
                Action.KEY_REVOKE,
                key.id,
                settings=settings,
                **details,
            )
        )
    place = model.revoked_signers_key(caller.tenant_id)
    ports.store.write(
        *changes,
        Put(place, signers.plus(tuple(added)).to_item(), expected),
        # One mark for all: they share the item above anyhow.
        srl_marks.on_tenant(caller.tenant_id, str(place)),
        counted(caller.tenant_id, amounts),
    )
    return revoked
