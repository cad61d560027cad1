"""How far a revocation has got, by what the entries and the lists themselves say (REVOKE-8)."""

import pytest

from shared.authorizer.formats.wire import FeedEntry
from shared.model import feed as model
from shared.model.lists.schedule import warrant_mark_address
from shared.operations.changes import revocations, srl
from shared.operations.lists import in_force, publication, reach, storage
from shared.operations.lists.decisions import PendingEntry
from shared.operations.lists.reach import PublicationStatus
from shared.operations.lists.storage import SeedCache
from shared.ports import Ports
from shared.ports.store import Delete, Expect
from tests.kit.reads import reading
from tests.kit.tenants import Tenant, break_off
from tests.kit.worlds import Clock

pytestmark = pytest.mark.usefixtures("few_partitions")


def found(ports: Ports, tenant: Tenant, revocation_id: str) -> PublicationStatus:
    _, got = revocations.get(ports, tenant.operator, revocation_id=revocation_id)
    return got


def test_a_revocation_gets_its_way(ports: Ports, tenant: Tenant) -> None:
    """REVOKE-8, F205a: An entry gives a revocation its sequence, and a list its version."""
    revocation_id = tenant.revoke(ports, "svc_wrt_a")
    assert found(ports, tenant, revocation_id) == PublicationStatus(None, None)
    publication.publish_feed(ports, tenant.id)
    assert found(ports, tenant, revocation_id) == PublicationStatus(1, None)
    assert srl.regenerate(ports, tenant.operator).version == 2
    srl.regenerate(ports, tenant.operator)
    assert found(ports, tenant, revocation_id) == PublicationStatus(1, 2)


def test_a_second_revocation(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F205e: Entries about an earlier revocation of the same warrant do not count."""
    revocation_id = ""
    for sequence in (1, 3):
        revocation_id = tenant.revoke(ports, "svc_wrt_a")
        publication.publish_feed(ports, tenant.id)
        assert found(ports, tenant, revocation_id) == PublicationStatus(sequence, None)
        if sequence == 1:
            tenant.unrevoke(ports, revocation_id)
            publication.publish_feed(ports, tenant.id)
    tenant.unrevoke(ports, revocation_id)
    clock.advance(minutes=6)
    revocation_id = tenant.revoke(ports, "svc_wrt_a")
    assert found(ports, tenant, revocation_id) == PublicationStatus(None, None)
    publication.publish_feed(ports, tenant.id)
    assert found(ports, tenant, revocation_id) == PublicationStatus(4, None)


def test_a_revocation_that_the_feed_may_still_undo(ports: Ports, tenant: Tenant) -> None:
    """F262c: A warrant that is revoked again has no sequence before the feed says so again.

    An entry that says that it was restored may be in the making, although older ones revoke it.
    """
    revocation_id = tenant.revoke(ports, "svc_wrt_a")
    publication.publish_feed(ports, tenant.id)
    facts = in_force.read_facts(ports, tenant.id)
    tenant.unrevoke(ports, revocation_id)
    revocation_id = tenant.revoke(ports, "svc_wrt_a")
    assert found(ports, tenant, revocation_id) == PublicationStatus(None, None)
    storage.append_entry(
        ports, SeedCache(ports), facts, PendingEntry(FeedEntry(2, removed=("svc_wrt_a",)), [])
    )
    assert found(ports, tenant, revocation_id) == PublicationStatus(None, None)
    publication.publish_feed(ports, tenant.id)
    assert found(ports, tenant, revocation_id) == PublicationStatus(3, None)


def test_a_break(ports: Ports, tenant: Tenant) -> None:
    """F205b: A revocation that no entry names is known from the break that its list follows."""
    tenant.revoke(ports, "svc_wrt_earlier")
    publication.publish_feed(ports, tenant.id)
    revocation_id = tenant.revoke(ports, "svc_wrt_a")
    break_off(ports, tenant.id)
    # The mark is still there, so an entry will name it.
    assert found(ports, tenant, revocation_id) == PublicationStatus(None, None)
    _forget_marks(ports, tenant)
    assert found(ports, tenant, revocation_id) == PublicationStatus(2, None)


def _forget_marks(ports: Ports, tenant: Tenant) -> None:
    mark = warrant_mark_address(tenant.id, "svc_wrt_a")
    ports.store.write(Delete(mark, Expect.PRESENT))


def test_a_revocation_further_back(
    ports: Ports, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F205c: If more entries followed than are read, the oldest of those stands for the first."""
    monkeypatch.setattr(reach, "_FEW", 2)
    monkeypatch.setattr(reach, "ENTRIES_MAX", 4)
    first = tenant.revoke(ports, "svc_wrt_a")
    for number in range(4):
        publication.publish_feed(ports, tenant.id)
        tenant.revoke(ports, f"svc_wrt_{number}")
    publication.publish_feed(ports, tenant.id)
    last = tenant.revoke(ports, "svc_wrt_last")
    srl.regenerate(ports, tenant.operator)
    assert found(ports, tenant, first) == PublicationStatus(3, 2)
    assert found(ports, tenant, last) == PublicationStatus(6, 2)
    with reading(ports) as (watched, reads):
        found(watched, tenant, last)
    assert reads.trips <= 10


def test_a_feed_that_forgot(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F205d: A revocation whose entries were removed has the present sequence of the feed."""
    revocation_id = tenant.revoke(ports, "svc_wrt_a")
    srl.regenerate(ports, tenant.operator)
    clock.advance(days=15)
    storage.prune(ports, tenant.id, until=1)
    assert found(ports, tenant, revocation_id) == PublicationStatus(1, 2)
    ports.store.write(Delete(model.head_address(tenant.id), Expect.PRESENT))
    assert found(ports, tenant, revocation_id) == PublicationStatus(None, None)
