"""What a tenant's revocations are kept in: many partitions, which act as one (docs/adr/02)."""

from shared.model import revocations as model
from shared.operations.changes import revocations
from shared.ports import Ports
from tests.kit.reads import reading
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock


def listed(ports: Ports, tenant: Tenant, limit: int) -> list[str]:
    """All pages of the list, whose total is right on each."""
    found, before = list[str](), None
    while True:
        page = revocations.page(ports, tenant.operator, before=before, limit=limit)
        found += [each.warrant_id for each in page.entries]
        before = page.next_before
        if before is None:
            assert len(found) == page.total
            return found


def test_a_page_over_all_shards_reads_little_more_than_it_shows(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """F139a: A page has the newest records, each once, and the exact total of all partitions.

    It reads little more than it shows.
    """
    for number in range(300):
        clock.advance(milliseconds=7)
        tenant.revoke(ports, f"svc_wrt_{number:03}")
    assert listed(ports, tenant, 50) == [f"svc_wrt_{number:03}" for number in range(300)][::-1]
    with reading(ports) as (watched, reads):
        revocations.page(watched, tenant.operator, before=None, limit=50)
    counters = model.SHARDS * model.COUNTERS
    assert reads.items <= 51 + model.RECORD_SHARDS * 9 + counters
