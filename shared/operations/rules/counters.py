"""Sums of what is counted in many items, so that writes rarely meet on one (docs/adr/0037)."""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from shared.model import revocations, revoked_signers
from shared.model import warrants as warrant_model
from shared.model.identifiers import BEFORE_WARRANT_IDS
from shared.model.items import Item, Partition
from shared.model.records import integer
from shared.model.srl import tombstones
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
    signers, others = (
        revoked_signers.count_address(tenant_id),
        tombstones.counter_address(tenant_id),
    )
    items = ports.store.get_many([others, signers])
    counts = {
        key: integer(item, "version" if key == signers else "changes")
        for key, item in items.items()
    }
    changes = of_revocations(ports, tenant_id)["changes"]
    return Counted(changes + sum(counts.values()), sum(counts.values()))


def of_revocations(ports: Ports, tenant_id: str) -> Counter[str]:
    """The `count` of a tenant's revoked warrants and their `changes`. Raises `Corrupt`."""
    shards = revocations.shards(tenant_id)
    return total(ports.gather(*(partial(of_shard, ports, each) for each in shards)))


def of_shard(ports: Ports, shard: Partition) -> Counter[str]:
    """The same of one shard."""
    return total(entry.item for entry in ports.store.query(shard, before=BEFORE_WARRANT_IDS))


def of_signed(ports: Ports, tenant_id: str, key_id: str) -> Counter[str]:
    """How many warrants a key signed, by the names of its counts. Raises `Corrupt`."""
    partition = warrant_model.signed_counts(tenant_id, key_id)
    return total(entry.item for entry in ports.store.query(partition))


def total(items: Iterable[Item]) -> Counter[str]:
    """The sums of items that count. Raises `Corrupt`."""
    sums: Counter[str] = Counter()
    for item in items:
        sums.update({name: integer(item, name) for name in item})
    return sums
