"""Totals of sharded counters, which avoid contention between writes (docs/adr/02)."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

from shared.model import revocations, warrants
from shared.model.identifiers import BEFORE_WARRANT_IDS
from shared.model.items import Item, Partition
from shared.model.lists import tombstones
from shared.model.records import integer
from shared.model.signing_keys import WarrantSigner
from shared.ports import Ports


class ChangeTotals(NamedTuple):
    """How many changes the tenant has made that an SRL or its state must contain.

    `changes` counts all of them. `tombstones` counts changes of tombstones and revoked signers. If
    `tombstones` is unchanged, both sets are unchanged.
    """

    changes: int
    tombstones: int


def read_counts(ports: Ports, tenant_id: str) -> ChangeTotals:
    """Read the counters of the tenant. Raises `DataCorrupt`, `Unavailable`."""
    ended = of_tombstones(ports, tenant_id)
    return ChangeTotals(of_revocations(ports, tenant_id)["changes"] + ended, ended)


def of_tombstones(ports: Ports, tenant_id: str) -> int:
    """Count the changes of tombstones and revoked signers. Raises `DataCorrupt`, `Unavailable`."""
    signers = revocations.marker_count_address(tenant_id)
    items = ports.store.get_many([tombstones.counter_address(tenant_id), signers])
    return sum(
        integer(item, "version" if address == signers else "changes")
        for address, item in items.items()
    )


def of_revocations(ports: Ports, tenant_id: str) -> Counter[str]:
    """Sum `count` (revoked warrants) and `changes` over all shards. Raises `DataCorrupt`."""
    return total(of_shards(ports, tenant_id))


def of_shards(ports: Ports, tenant_id: str) -> list[Counter[str]]:
    """Sum `count` and `changes` of each shard. Raises `DataCorrupt`."""
    rows_by_shard = ports.store.query_many(revocations.shards(tenant_id), before=BEFORE_WARRANT_IDS)
    return [total(row.item for row in rows) for rows in rows_by_shard.values()]


def of_shard(ports: Ports, shard: Partition) -> Counter[str]:
    """Sum `count` and `changes` of one shard. Raises `DataCorrupt`."""
    return total(entry.item for entry in ports.store.query(shard, before=BEFORE_WARRANT_IDS))


def of_signed(ports: Ports, tenant_id: str, key_id: str) -> Counter[str]:
    """Sum the counters of the warrants that a key signed, by name. Raises `DataCorrupt`."""
    partition = warrants.signed_counts(tenant_id, key_id)
    return total(entry.item for entry in ports.store.query(partition))


def of_signers(ports: Ports, tenant_id: str, signers: Sequence[WarrantSigner]) -> list[int]:
    """Return how many warrants each signer signed, with one query for each key.

    Raises `DataCorrupt`.
    """
    key_ids = list(dict.fromkeys(each.key_id for each in signers))
    reads = [partial(of_signed, ports, tenant_id, each) for each in key_ids]
    counts = dict(zip(key_ids, ports.gather(*reads), strict=True)) if reads else {}
    return [counts[each.key_id][warrants.signed_count_name(each.key_version)] for each in signers]


def total(items: Iterable[Item]) -> Counter[str]:
    """Sum the attributes of counter items by name.

    Raises `DataCorrupt` if one is not an integer.
    """
    sums: Counter[str] = Counter()
    for item in items:
        sums.update({name: integer(item, name) for name in item})
    return sums
