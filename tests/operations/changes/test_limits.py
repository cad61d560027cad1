"""Callers whose role reaches some warrants and signing keys alone (AUTH-18)."""

from dataclasses import replace
from functools import partial

import pytest

from functions.batches import operations as revocation_batches
from shared.errors import InsufficientScope
from shared.model.callers import Caller, RoleLimits
from shared.model.revocation_batches import BatchAction, BatchRequest
from shared.model.signing_keys import SigningKeyType
from shared.model.warrant_format import WarrantFormat
from shared.operations.changes import key_revocation, signing_keys, warrants
from shared.operations.changes.warrants import SignRequest
from shared.ports import Ports
from tests.kit.tenants import Tenant


def limited(tenant: Tenant, *keys: str, prefix: str = "") -> Caller:
    prefixes = (prefix,) if prefix else ()
    return replace(tenant.operator, limits=RoleLimits(prefixes, keys))


def test_a_signing_key_stands_for_all_below_it(ports: Ports, tenant: Tenant) -> None:
    """AUTH-18, F1262b: A role reaches a key, its old versions and all below it; nothing above."""
    create = partial(signing_keys.create, ports, tenant.operator, name="k")
    root = create(type_=SigningKeyType.ROOT)
    paris = create(type_=SigningKeyType.ISSUER, parent_id=root.id)
    berlin = create(type_=SigningKeyType.ISSUER, parent_id=root.id)
    notary = create(type_=SigningKeyType.NOTARY, parent_id=paris.id)
    caller = limited(tenant, paris.id)
    for each in (paris, notary):
        warrants.sign(ports, caller, key_id=each.id, order=SignRequest(b"x"))
        signing_keys.rotate(ports, caller, key_id=each.id)
    for each in (root, berlin):
        with pytest.raises(InsufficientScope, match="does not include"):
            signing_keys.suspend(ports, caller, key_id=each.id)
    _, old = signing_keys.versions(ports, tenant.operator, key_id=paris.id)
    key_revocation.revoke(ports, caller, key_id=old.id, reason="lost")
    revoked = key_revocation.revoke(ports, caller, key_id=paris.id, reason="lost", cascade=True)
    assert revoked.descendants == 0
    with pytest.raises(InsufficientScope):
        signing_keys.suspend(ports, limited(tenant, prefix="svc_wrt_"), key_id=berlin.id)


def test_a_signature_needs_both(ports: Ports, tenant: Tenant) -> None:
    """F1262c: A role that names keys and warrants signs such warrants with such keys alone."""
    key = signing_keys.create(ports, tenant.operator, name="k", type_=SigningKeyType.ROOT)
    caller = limited(tenant, key.id, prefix="svc_wrt_paris-")
    sign = partial(warrants.sign, ports, caller, key_id=key.id)
    for warrant_id in (None, "svc_wrt_berlin-1"):
        with pytest.raises(InsufficientScope):
            sign(order=SignRequest(b"x", warrant_id=warrant_id))
    sign(order=SignRequest(b"x", warrant_id="svc_wrt_paris-1"))


def test_a_role_with_prefixes_signs_no_raw_payload(ports: Ports, tenant: Tenant) -> None:
    """F2004a, AUTH-18: A payload of format raw may name any warrant, so such a role signs none."""
    key = signing_keys.create(ports, tenant.operator, name="k", type_=SigningKeyType.ROOT)
    order = SignRequest(b"svc_wrt_berlin-1", WarrantFormat.RAW, warrant_id="svc_wrt_paris-1")
    caller = limited(tenant, key.id, prefix="svc_wrt_paris-")
    with pytest.raises(InsufficientScope, match="cose"):
        warrants.sign(ports, caller, key_id=key.id, order=order)
    warrants.sign(ports, limited(tenant, key.id), key_id=key.id, order=order)


def test_a_batch_does_what_the_role_reaches(ports: Ports, tenant: Tenant) -> None:
    """AUTH-18, F1262d: In a batch, each warrant that the role does not reach fails alone."""
    caller, ids = limited(tenant, prefix="svc_wrt_paris-"), ("svc_wrt_paris-1", "svc_wrt_rome-1")

    def outcomes(action: BatchAction, names: tuple[str, ...]) -> list[str]:
        batch = BatchRequest(action, names, "r", by_revocation=names[0].startswith("svc_rev_"))
        done = revocation_batches.apply(ports, caller, batch=batch).results
        return [each.outcome.value for each in done]

    assert outcomes(BatchAction.REVOKE, ids) == ["revoked", "failed"]
    assert not tenant.is_revoked(ports, ids[1])
    records = tenant.revoke(ports, ids[0]), tenant.revoke(ports, ids[1])
    assert outcomes(BatchAction.UNREVOKE, records) == ["unrevoked", "failed"]
    tenant.revoke(ports, ids[0])
    assert outcomes(BatchAction.UNREVOKE, ids) == ["unrevoked", "failed"]
    assert tenant.is_revoked(ports, ids[1])
