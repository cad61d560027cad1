"""The blobs that a backup of the records needs, and checks of them (OPS-15)."""

from collections.abc import Iterator

from shared.errors import RescindError
from shared.model import seeds
from shared.model.items import Table
from shared.model.lists.head import folders, version_of
from shared.operations.base import seals, tenants
from shared.operations.lists import in_force, journal
from shared.ports import Ports


def blobs(ports: Ports, tenant_id: str) -> Iterator[str]:
    """Yield the names of the blobs that a restored tenant needs.

    They are the current SRL with its related blobs, newer SRLs, and the blobs of the transparency
    log and of trust documents. Old SRLs are not needed. Raises `DataCorrupt`, `Unavailable`.
    """
    version = in_force.read_srl_head(ports, tenant_id).version
    for folder in folders(tenant_id):
        yield from (each for each in ports.blobs.names(folder) if version_of(each) >= version)
    yield from ports.blobs.names(f"audit/{tenant_id}")
    yield from ports.blobs.names(f"trust/{tenant_id}")


def journal_blobs(ports: Ports, tenant_id: str) -> Iterator[str]:
    """Yield the names of the journal blobs that the current SRL may not cover.

    A store that is restored without them contains their changes. Raises `DataCorrupt`,
    `Unavailable`.
    """
    yield from journal.blobs_since(
        ports, tenant_id, in_force.read_srl_head(ports, tenant_id).issued_at
    )


def problems(ports: Ports) -> Iterator[str]:
    """Read all records, and yield a sentence for each reason not to rely on them.

    For each tenant, verifies hashes and signatures of the current SRL and its state, and unwraps
    the seed of the SRL signer. Raises `Unavailable`.
    """
    for table in Table:
        for _ in ports.store.everything(table):
            pass
    for tenant in tenants.directory(ports):
        try:
            _check(ports, tenant.tenant_id)
        except RescindError as error:
            yield f"{tenant.handle}: {error}"


def _check(ports: Ports, tenant_id: str) -> None:
    tenants.settings(ports, tenant_id)
    head, signer = in_force.read_head_and_signer(ports, tenant_id)
    in_force.read_srl_body(ports, head)
    in_force.read_srl_state(ports, head, signer)
    if seeds.public_key(seals.unwrap_seed(ports, signer)) != signer.public_key:
        raise seals.SeedUnavailable(
            f"the seed of its SRL signer {signer.id} belongs to another key"
        )
