"""Counting changes, which tells whether a list and its state are of today."""

from typing import NamedTuple

from shared.model import revocations, tombstones
from shared.model.records import integer
from shared.model.signing_keys import RevokedSigners, revoked_signers_key
from shared.operations import revoked_signers
from shared.ports import Ports


class Counted(NamedTuple):
    """How often what the tenant has revoked, deleted or disabled was changed, and its signers.

    `changes` is of all of it; `tombstones` is the part of it that concerns tombstones.
    """

    changes: int
    tombstones: int
    signers: RevokedSigners


def counted(ports: Ports, tenant_id: str) -> Counted:
    """The counters of the tenant. Raises `Corrupt`, `Unavailable`."""
    shards = [revocations.counter_key(shard) for shard in revocations.shards(tenant_id)]
    signers_key, marked = revoked_signers_key(tenant_id), tombstones.counter_key(tenant_id)
    items = ports.store.get_many([*shards, marked, signers_key])
    signers = revoked_signers.completed(ports, tenant_id, items.get(signers_key))
    counts = {key: integer(item, "changes") for key, item in items.items() if key != signers_key}
    of_tombstones = counts.get(marked, 0) + signers.version
    return Counted(sum(counts.values()) + signers.version, of_tombstones, signers)
