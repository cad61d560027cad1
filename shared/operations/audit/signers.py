"""The audit signers of a tenant: read, made, and used for a checkpoint (LOG-9)."""

import logging
from typing import Final

from shared.model import seeds
from shared.model.identifiers import SIGNING_KEY
from shared.model.sealed_log.checkpoint import Checkpoint
from shared.model.sealed_log.signers import AuditSigner, signers
from shared.model.seeds import Purpose
from shared.operations.rules import operation, seals
from shared.operations.rules.seals import SeedLost
from shared.ports import Ports

# How many signers may sign one checkpoint.
SIGNING_MAX: Final = 4

_log = logging.getLogger(__name__)


def all_of(ports: Ports, tenant_id: str) -> list[AuditSigner]:
    """Return all audit signers of a tenant, in order of creation. Raises `Unavailable`."""
    return [AuditSigner.from_item(each.item) for each in ports.store.query(signers(tenant_id))]


def settled(ports: Ports, tenant_id: str) -> list[AuditSigner]:
    """Return the same, read again after a pause if all of them were replaced.

    The items of a rotation become visible one by one, the successor perhaps last. Raises
    `Unavailable`.
    """
    found = all_of(ports, tenant_id)
    if not found or any(each.signs_until is None for each in found):
        return found
    operation.wait_for_writes()
    return all_of(ports, tenant_id)


def make(ports: Ports, tenant_id: str) -> AuditSigner:
    """Create a signer with a sealed seed, without storing it. Raises `Unavailable`."""
    key_id = ports.new_id(SIGNING_KEY)
    seed, public_key = seeds.new()
    context = seeds.seal_context(tenant_id, key_id, purpose=Purpose.AUDIT)
    sealed = ports.sealer.seal(seed, context=context)
    return AuditSigner(key_id, tenant_id, public_key, ports.now(), sealed)


def sign(ports: Ports, checkpoint: Checkpoint, found: list[AuditSigner]) -> str:
    """Return the checkpoint, signed by all signers that sign now.

    The signature of a replaced signer is left out if its seed is lost. Raises `SeedLost` if that of
    the current one is, and `Unavailable`.
    """
    opened = []
    for each in found:
        if not each.signs(ports.now()):
            continue
        try:
            opened.append(seals.opened(ports, each))
        except SeedLost:
            if each.signs_until is None:
                raise
            _log.warning("the seed of a replaced audit signer does not open; it signs no more")
    return checkpoint.signed(opened)
