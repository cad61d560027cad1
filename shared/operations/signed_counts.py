"""How many warrants keys signed: the sums of what is counted in many items (docs/adr/0037)."""

from collections import Counter
from collections.abc import Iterable

from shared.model import warrants as model
from shared.model.items import Item
from shared.model.records import integer
from shared.ports import Ports


def of(ports: Ports, tenant_id: str, key_id: str) -> Counter[str]:
    """The counts of a key, by name. Raises `Corrupt`, `Unavailable`."""
    return total(entry.item for entry in ports.store.query(model.signed_counts(tenant_id, key_id)))


def total(items: Iterable[Item]) -> Counter[str]:
    """The sums of items that count. Raises `Corrupt`."""
    sums: Counter[str] = Counter()
    for item in items:
        sums.update({name: integer(item, name) for name in item})
    return sums
