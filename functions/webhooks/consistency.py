"""The check of the number of webhooks."""

from collections.abc import Iterator

from functions.webhooks import records
from shared.capabilities.inconsistency import Inconsistency
from shared.model.records import integer
from shared.ports import Ports
from shared.ports.store import Expect, Put, VersionIs


def check_count(ports: Ports, tenant_id: str) -> Iterator[Inconsistency]:
    """Yield the inconsistency of the number of webhooks. Raises `DataCorrupt`, `Unavailable`."""
    address = records.count_address(tenant_id)
    held = ports.store.get(address)
    number = sum(1 for _ in ports.store.query(records.webhooks(tenant_id)))
    count, version = (integer(held, name) if held else 0 for name in ("count", "version"))
    if count != number and ports.store.get(address) == held:
        yield Inconsistency(
            f"the count of webhooks is wrong by {number - count:+}",
            (
                Put(
                    address,
                    {"count": number, "version": version + 1},
                    VersionIs(version) if held else Expect.ABSENT,
                ),
            ),
        )
