"""Counting changes, which tells whether a list and its state are of today."""

from typing import NamedTuple

from shared.model import revoked_signers, tombstones
from shared.model.records import integer
from shared.operations import counters
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
    signers, others = revoked_signers.count_key(tenant_id), tombstones.counter_key(tenant_id)
    items = ports.store.get_many([others, signers])
    counts = {
        key: integer(item, "version" if key == signers else "changes")
        for key, item in items.items()
    }
    changes = counters.of_revocations(ports, tenant_id)["changes"]
    return Counted(changes + sum(counts.values()), sum(counts.values()))
