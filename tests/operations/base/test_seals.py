"""Seals: what they open for, and what is never signed because of them."""

from dataclasses import replace

import pytest

from shared.errors import DataCorrupt
from shared.model import seeds
from shared.model.audit.audit_log import AuditAction
from shared.model.signing_keys import KeyStatus, SigningKey, SigningKeyType
from shared.model.warrant_format import WarrantFormat
from shared.operations.changes import warrants
from shared.operations.changes.warrants import SignRequest
from shared.operations.lists import in_force
from shared.ports import Ports
from shared.ports.store import Expect, Put, VersionIs
from tests.kit.reserved import FORGED_LIST
from tests.kit.tenants import Tenant


def signed_nothing(ports: Ports, tenant: Tenant, key_id: str, order: SignRequest) -> str:
    """Hold that a key refuses to sign; the reason that the log is told."""
    with pytest.raises(DataCorrupt) as caught:
        warrants.sign(ports, tenant.operator, key_id=key_id, order=order)
    assert AuditAction.KEY_SIGN not in tenant.actions(ports)
    return str(caught.value)


def test_a_planted_list_signer_signs_no_warrant(ports: Ports, tenant: Tenant) -> None:
    """SIGNER-1, F44a, S3: A list signer that is copied among the signing keys signs no warrant."""
    signer = in_force.read_active_signer(ports, tenant.id)
    planted = SigningKey(
        id=signer.id,
        tenant_id=tenant.id,
        type=SigningKeyType.ROOT,
        name="planted",
        status=KeyStatus.ACTIVE,
        parent_id=None,
        ancestors=(),
        public_key=signer.public_key,
        created_at=signer.created_at,
        version_created_at=signer.created_at,
        expires_at=None,
        sealed_seed=signer.sealed_seed,
    )
    ports.store.write(Put(planted.address, planted.to_item(), Expect.ABSENT))
    for order in (SignRequest(FORGED_LIST), SignRequest(FORGED_LIST, warrant_id="svc_wrt_a")):
        reported = signed_nothing(ports, tenant, planted.id, order)
        assert "cannot unwrap the seed" in reported


def test_a_planted_signing_key_signs_no_list(ports: Ports, tenant: Tenant) -> None:
    """SIGNER-1, F44, S3: The seed of a signing key signs no list."""
    key = tenant.key(ports)
    signer = in_force.read_active_signer(ports, tenant.id)
    before = in_force.read_srl_head(ports, tenant.id)
    assert key.sealed_seed is not None
    planted = replace(
        signer, sealed_seed=key.sealed_seed, public_key=key.public_key, version=signer.version + 1
    )
    ports.store.write(Put(signer.address, planted.to_item(), VersionIs(signer.version)))
    with pytest.raises(DataCorrupt, match="cannot unwrap the seed"):
        tenant.regenerate(ports)
    assert in_force.read_srl_head(ports, tenant.id) == before


def test_the_seal_of_an_earlier_version_of_a_key(ports: Ports, tenant: Tenant) -> None:
    """F44: a superseded version's seal, put back under the present one, does not open."""
    key = tenant.key(ports)
    address = key.address
    ports.store.write(
        Put(
            address,
            replace(key, key_version=2, version=key.version + 1).to_item(),
            VersionIs(key.version),
        )
    )
    assert "cannot unwrap the seed" in signed_nothing(ports, tenant, key.id, SignRequest(b"grant"))


def test_a_key_of_another_tenant_signs_nothing(ports: Ports, tenant: Tenant) -> None:
    """S3: A signing key that is copied to another tenant, with its seal, signs no warrant there."""
    key, other = tenant.key(ports), Tenant.create(ports, "globex")
    planted = replace(key, tenant_id=other.id)
    ports.store.write(Put(planted.address, planted.to_item(), Expect.ABSENT))
    assert "cannot unwrap the seed" in signed_nothing(ports, other, key.id, SignRequest(b"grant"))


def test_the_seed_of_another_key_signs_nothing(ports: Ports, tenant: Tenant) -> None:
    """WARRANT-7, F44b, S3: No signature goes out unless its record's public key verifies it."""
    key = tenant.key(ports)
    seed, _ = seeds.new()
    sealed = ports.sealer.seal(seed, context=key.seal_context)
    other = replace(key, sealed_seed=sealed, version=key.version + 1)
    ports.store.write(Put(key.address, other.to_item(), VersionIs(key.version)))
    assert "another key" in signed_nothing(ports, tenant, key.id, SignRequest(b"grant"))
    order = SignRequest(b"svc_wrt_a", WarrantFormat.RAW, "svc_wrt_a")
    assert "another key" in signed_nothing(ports, tenant, key.id, order)
