"""After a theft: that the steps of docs/security.md lead back to a sound service."""

from dataclasses import replace
from pathlib import Path

import pytest

from shared.adapters.local_keys import KeyFile
from shared.errors import Corrupt
from shared.operations import signing_keys, srl_keys
from shared.ports import Ports
from tests.operations.tenants import Tenant


def test_another_master_key_and_rotations_heal(ports: Ports, tmp_path: Path) -> None:
    """All signs again, lists keep what they had, and the stolen key opens no seed of now."""
    tenant = Tenant.create(ports)
    key = tenant.key(ports)
    tenant.revoke(ports, "svc_wrt_a")
    after = replace(ports, keys=KeyFile.create(tmp_path / "another.key"))
    signer = srl_keys.rotate(after, tenant.operator)
    rotated = signing_keys.rotate(after, tenant.operator, key_id=key.id)
    tenant.sign(after, rotated)
    assert tenant.regenerate(after).revoked_ids == ["svc_wrt_a"]
    for each in (signer, rotated):
        assert each.sealed_seed is not None
        with pytest.raises(Corrupt):
            ports.keys.unwrap(each.sealed_seed, context=each.seal_context)
