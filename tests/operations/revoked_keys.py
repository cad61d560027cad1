"""Any number of revoked keys, at once."""

from dataclasses import asdict

from shared.model import revocations as model
from shared.model.revocations import RevokedSignerCount, SignerRevocation
from shared.model.signing_keys import WarrantSigner
from shared.operations.lists import verdicts
from shared.ports import Ports
from shared.ports.store import Expect, Increment
from tests.kit.tenants import Tenant


def fill(
    ports: Ports, tenant: Tenant, number: int, *, version: int | None = None
) -> list[WarrantSigner]:
    """Markers of keys that nobody has, and their count, straight into the store."""
    signers = [WarrantSigner(f"svc_key_gone-{each:05}", version) for each in range(number)]
    marker = SignerRevocation(ports.now(), "lost")
    for start in range(0, number, 100):
        batch = signers[start : start + 100]
        ports.store.write(
            *(verdicts.signer_revocation_change(tenant.id, each, marker) for each in batch)
        )
    count = Increment(
        model.marker_count_address(tenant.id),
        asdict(RevokedSignerCount.counting(signers)),
        Expect.ANYTHING,
    )
    ports.store.write(count)
    return signers
