"""What a tenant's revocations are kept in: many partitions, which act as one (docs/adr/02)."""

from collections.abc import Iterator

import pytest

from shared.errors import NotFound
from shared.model import revocations as model
from shared.model import warrants
from shared.model.items import Partition, Table
from shared.model.lists import schedule as srl_schedule
from shared.model.revocations import Revocation, RevokedWarrant
from shared.model.warrants import Standing
from shared.operations.changes import revocations
from shared.operations.lists import marks as srl_marks
from shared.operations.lists import publication
from shared.operations.operator import doctor
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.reads import reading
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

OLD = "svc_wrt_Old"


def _new_ids(ports: Ports) -> Iterator[str]:
    while True:
        yield ports.new_id("rev")


def revoked_by_an_earlier_release(ports: Ports, tenant: Tenant) -> Revocation:
    """A revocation as it was stored when there was one partition of records, and one of marks."""
    record_id = next(each for each in _new_ids(ports) if len(model.record_addresses("t", each)) > 1)
    record = Revocation(record_id, OLD, "lost", ports.now(), tenant.operator.identity)
    standing = Standing().revoked(record.id, at=record.created_at, reason="lost", ends_at=None)
    shard = model.shard_of(tenant.id, OLD)
    records = Partition(Table.REVOCATIONS, f"{tenant.id}#revocations")
    marks = Partition(Table.REVOCATIONS, f"{tenant.id}#srl-changed")
    seen = Partition(Table.KEYS, "srl-marks#3")
    assert records.address(record.id) != model.record_address(tenant.id, record.id)
    assert marks.address(OLD) != srl_schedule.warrant_mark_address(tenant.id, OLD)
    ports.store.write(
        Put(warrants.warrant_address(tenant.id, OLD), standing.to_item(), Expect.ABSENT),
        Put(shard.address(OLD), RevokedWarrant().to_item(), Expect.ABSENT),
        Put(records.address(record.id), record.to_item(), Expect.ABSENT),
        Put(shard.address("#count"), {"count": 1, "changes": 1}, Expect.ABSENT),
        Put(seen.address(f"{tenant.id}#03"), {"version": 1}, Expect.ABSENT),
        Put(marks.address(OLD), {"version": 1}, Expect.ABSENT),
    )
    return record


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


def test_what_an_earlier_release_stored_goes_on(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """OPS-11, F139a: Records of an earlier release are listed, counted, published and deleted."""
    record = revoked_by_an_earlier_release(ports, tenant)
    for number in range(20):
        clock.advance(seconds=1)
        tenant.revoke(ports, f"svc_wrt_{number:02}")
    names = [OLD, *(f"svc_wrt_{number:02}" for number in range(20))]
    assert listed(ports, tenant, 6) == names[::-1]
    assert tenant.revoke(ports, OLD) == record.id
    assert publication.publish_due(ports).published == [tenant.id]
    assert tenant.published(ports).revoked_ids == sorted(names)
    assert srl_marks.set_on_warrants(ports, tenant.id, limit=100)[0] == {}
    assert list(doctor.examine(ports)) == []
    tenant.take_back(ports, record.id)
    with pytest.raises(NotFound):
        tenant.take_back(ports, record.id)
    assert listed(ports, tenant, 6) == names[:0:-1]
    tenant.check_totals(ports)
    clock.advance(minutes=7)
    for _ in range(2):
        publication.publish_due(ports)
        clock.advance(minutes=7)
    assert srl_marks.of_tenant(ports, tenant.id) == {}


def test_a_page_over_all_shards_reads_little_more_than_it_shows(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """F139: newest first, each once, with an exact total; each partition gives its share."""
    for number in range(300):
        clock.advance(milliseconds=7)
        tenant.revoke(ports, f"svc_wrt_{number:03}")
    assert listed(ports, tenant, 50) == [f"svc_wrt_{number:03}" for number in range(300)][::-1]
    with reading(ports) as (watched, reads):
        revocations.page(watched, tenant.operator, before=None, limit=50)
    counters = model.SHARDS * model.COUNTERS
    assert reads.items <= 51 + model.RECORD_SHARDS * 9 + counters
