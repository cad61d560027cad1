"""Consistency of webhooks: their count."""

from collections.abc import Iterator

from shared.model.records import integer
from shared.model.webhooks import webhooks as model
from shared.operations.operator.consistency.inconsistency import Inconsistency
from shared.ports import Ports
from shared.ports.store import At, Expect, Put


def check(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield the inconsistency of the tenant's webhooks. Raises `Corrupt`, `Unavailable`."""
    address = model.count_address(tenant_id)
    held = ports.store.get(address)
    number = sum(1 for _ in ports.store.query(model.webhooks(tenant_id)))
    count, version = (integer(held, name) if held else 0 for name in ("count", "version"))
    if count != number and ports.store.get(address) == held:
        yield Inconsistency(
            f"the count of webhooks is wrong by {number - count:+}",
            (
                Put(
                    address,
                    {"count": number, "version": version + 1},
                    At(version) if held else Expect.ABSENT,
                ),
            ),
        )
