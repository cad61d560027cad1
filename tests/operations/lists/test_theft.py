"""After a theft: that the steps of docs/security.md lead back to a sound service."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from shared.adapters.file_sealer import FileSealer
from shared.errors import Corrupt
from shared.model.lists.signers import ListSigner
from shared.operations.changes import list_signers
from shared.operations.lists import in_force
from shared.ports import Ports
from tests.kit.tenants import Tenant


def _rotated(ports: Ports, tenant: Tenant) -> ListSigner:
    return list_signers.rotate(ports, tenant.operator).record


def _revoked(ports: Ports, tenant: Tenant) -> ListSigner:
    with pytest.raises(Corrupt, match="cannot vouch"):
        list_signers.create(ports, tenant.operator)
    stolen = in_force.signer(ports, tenant.id)
    list_signers.revoke(ports, tenant.operator, key_id=stolen.id)
    return in_force.signer(ports, tenant.id)


@pytest.mark.parametrize("replace_signer", [_rotated, _revoked])
def test_another_master_key_heals(
    ports: Ports,
    tenant: Tenant,
    tmp_path: Path,
    replace_signer: Callable[[Ports, Tenant], ListSigner],
) -> None:
    """All signs again, lists keep what they had, and the stolen key opens no seed of now."""
    key = tenant.key(ports)
    tenant.revoke(ports, "svc_wrt_a")
    after = replace(ports, sealer=FileSealer.create(tmp_path / "another.key"))
    signer = replace_signer(after, tenant)
    rotated = tenant.rotate(after, key)
    tenant.sign(after, rotated)
    assert tenant.regenerate(after).revoked_ids == ["svc_wrt_a"]
    for each in (signer, rotated):
        assert each.sealed_seed is not None
        with pytest.raises(Corrupt):
            ports.sealer.unseal(each.sealed_seed, context=each.seal_context)
