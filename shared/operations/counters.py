"""Sums of what is counted in many items, so that writes rarely meet on one (docs/adr/0037)."""

from collections import Counter
from collections.abc import Iterable
from functools import partial

from shared.model import revocations
from shared.model import warrants as warrant_model
from shared.model.identifiers import BEFORE_WARRANT_IDS
from shared.model.items import Item, Partition
from shared.model.records import integer
from shared.ports import Ports


def of_revocations(ports: Ports, tenant_id: str) -> Counter[str]:
    """The `count` of a tenant's revoked warrants and their `changes`. Raises `Corrupt`."""
    shards = revocations.shards(tenant_id)
    return total(ports.together(*(partial(of_shard, ports, each) for each in shards)))


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
