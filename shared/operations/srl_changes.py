"""Counting changes, which tells whether a list and its state are of today."""

from typing import NamedTuple

from shared.model import revocations, revoked_signers, tombstones
from shared.model.records import integer
from shared.ports import Ports


class Counted(NamedTuple):
    """How often what the tenant has revoked, deleted or disabled was changed.

    `changes` is of all of it; `tombstones` is the part of it that concerns tombstones and revoked
    signers: while that stays, both stay.
    """

    changes: int
    tombstones: int


def counted(ports: Ports, tenant_id: str) -> Counted:
    """The counters of the tenant. Raises `Corrupt`, `Unavailable`."""
    shards = [revocations.counter_key(shard) for shard in revocations.shards(tenant_id)]
    signers, others = revoked_signers.count_key(tenant_id), tombstones.counter_key(tenant_id)
    items = ports.store.get_many([*shards, others, signers])
    counts = {
        key: integer(item, "version" if key == signers else "changes")
        for key, item in items.items()
    }
    return Counted(sum(counts.values()), counts.get(others, 0) + counts.get(signers, 0))
