"""Revoked warrants that ended long ago: lists do not read them, and all else stays as it is."""

from datetime import timedelta

import pytest

from shared.errors import Unavailable
from shared.model import revocations as model
from shared.model import warrants
from shared.model.lists import verification as srl_verification
from shared.model.tenants import SettingsChange
from shared.operations.access import tenant_settings
from shared.operations.base.operation import settle
from shared.operations.changes import revocations
from shared.operations.lists import in_force, publication, records
from shared.operations.lists import marks as srl_marks
from shared.operations.operator import consistency, doctor
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.faults import Script, broken_at, scripted
from tests.kit.reads import reading
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.races import races

pytestmark = pytest.mark.usefixtures("at_once", "few_partitions")

ENDED, LIVING = "svc_wrt_ended", "svc_wrt_living"


def revoke(ports: Ports, tenant: Tenant, clock: Clock, warrant_id: str, *, days: int = 1) -> str:
    """Revoke a warrant that ends in so many days, by the administrator's word."""
    return tenant.revoke(ports, warrant_id, ends_at=clock() + timedelta(days=days))


def tidy(ports: Ports, tenant: Tenant) -> list[str]:
    """Make the list from all records, as the schedule does it; what it has."""
    publication.publish(ports, tenant.operator, compare_all=True, prune=True)
    return tenant.published(ports).revoked_ids


def moved(ports: Ports, tenant: Tenant) -> list[str]:
    walks = [records.read_ended(ports, shard) for shard in model.shards(tenant.id)]
    return sorted(warrant_id for walk in walks for warrant_id, _ in walk)


def assert_sound(ports: Ports, tenant: Tenant) -> None:
    tenant.check_totals(ports)
    assert list(doctor.examine(ports)) == []


def test_what_ended_long_ago_is_not_read(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F150a: A list does not read the revocations of warrants that ended more than 30 days ago."""
    for number in range(120):
        revoke(ports, tenant, clock, f"svc_wrt_{number:03}")
    publication.publish_due(ports)
    tenant.revoke(ports, LIVING)
    clock.advance(days=100)
    with reading(ports) as (watched, before):
        assert tidy(watched, tenant) == [LIVING]
    with reading(ports) as (watched, reads):
        assert tidy(watched, tenant) == [LIVING]
    assert before.items > 2 * 120
    assert reads.items < 80
    assert len(moved(ports, tenant)) == 120
    assert_sound(ports, tenant)


def test_a_part_is_moved_with_each_list(
    ports: Ports, tenant: Tenant, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F150b: After each list the schedule moves a bounded number of such revocations."""
    monkeypatch.setattr(records, "MOVED_A_LIST", 2)
    for number in range(5):
        revoke(ports, tenant, clock, f"svc_wrt_{number}")
    tidy(ports, tenant)
    clock.advance(days=100)
    assert moved(ports, tenant) == []
    publication.publish(ports, tenant.operator, compare_all=True)
    assert moved(ports, tenant) == []
    for number in (2, 4, 5):
        assert tidy(ports, tenant) == []
        assert len(moved(ports, tenant)) == number
    assert_sound(ports, tenant)


def test_a_moved_warrant_stays_revoked(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F151a: A revocation that was moved is checked, listed, counted and deleted as before."""
    record_id = revoke(ports, tenant, clock, ENDED)
    tidy(ports, tenant)
    clock.advance(days=100)
    tidy(ports, tenant)
    assert moved(ports, tenant) == [ENDED]
    assert tenant.is_revoked(ports, ENDED)
    page = revocations.page(ports, tenant.operator, before=None, limit=10)
    assert ([each.id for each in page.entries], page.total) == ([record_id], 1)
    assert revoke(ports, tenant, clock, ENDED) == record_id
    tenant.unrevoke(ports, record_id)
    assert not tenant.is_revoked(ports, ENDED)
    assert moved(ports, tenant) == []
    assert tidy(ports, tenant) == []
    tenant.revoke(ports, ENDED)
    assert tidy(ports, tenant) == [ENDED]
    assert srl_marks.read_warrant_marks(ports, tenant.id, limit=10)[0] == {}
    assert_sound(ports, tenant)


def test_a_moved_warrant_that_check_forgot(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F151b: A repair finds a revocation that was moved and that checks have lost."""
    revoke(ports, tenant, clock, ENDED)
    tidy(ports, tenant)
    clock.advance(days=100)
    tidy(ports, tenant)
    address = warrants.warrant_address(tenant.id, ENDED)
    ports.store.write(Put(address, {"version": 3}, Expect.PRESENT))
    assert not tenant.is_revoked(ports, ENDED)
    assert consistency.repair(ports, tenant.operator)
    tidy(ports, tenant)
    assert tenant.is_revoked(ports, ENDED)
    assert moved(ports, tenant) == [ENDED]
    assert_sound(ports, tenant)


def test_a_clock_that_was_ahead(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F152a: A warrant that a fast clock moved too early is moved back, onto the next list."""
    revoke(ports, tenant, clock, ENDED, days=50)
    tenant.revoke(ports, LIVING)
    assert tidy(ports, tenant) == [ENDED, LIVING]
    right = clock.moment
    clock.advance(days=200)
    assert tidy(ports, tenant) == [LIVING]
    assert moved(ports, tenant) == [ENDED]
    clock.moment = right
    assert publication.publish_if_due(ports, tenant.id)
    assert tenant.published(ports).revoked_ids == [ENDED, LIVING]
    assert moved(ports, tenant) == []
    assert tidy(ports, tenant) == [ENDED, LIVING]
    assert_sound(ports, tenant)


def test_lists_that_live_longer_need_nothing_that_was_moved(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """F152b: A longer lifetime of lists needs no revocation that was moved."""
    assert model.LONG_AGO > 2 * srl_verification.LIFETIME_MAX
    tenant_settings.update(ports, tenant.operator, change=SettingsChange(srl_ttl_seconds=300))
    clock.advance(days=-1)
    for days in range(40):
        revoke(ports, tenant, clock, f"svc_wrt_{days:02}", days=days + 1)
    clock.advance(days=40, hours=1)
    tidy(ports, tenant)
    assert moved(ports, tenant) == [f"svc_wrt_{days:02}" for days in range(10)]
    tenant_settings.update(ports, tenant.operator, change=SettingsChange(srl_ttl_seconds=604800))
    assert tidy(ports, tenant) == [f"svc_wrt_{days:02}" for days in range(33, 40)]
    assert_sound(ports, tenant)


@pytest.mark.slow
def test_a_revocation_changes_while_it_is_moved(ports: Ports, clock: Clock) -> None:
    """F153a, F568f: What is made anew or extended during a move or a list is on the next list."""

    def world(ports: Ports) -> Tenant:
        tenant = Tenant.another(ports)
        clock.moment = Clock().moment
        revoke(ports, tenant, clock, ENDED)
        tidy(ports, tenant)
        clock.advance(days=100)
        return tenant

    def again(ports: Ports, tenant: Tenant) -> object:
        return tenant.revoke(ports, ENDED)

    def extend(ports: Ports, tenant: Tenant) -> object:
        record_id = again(ports, tenant)
        # Its mark is gone again.
        settle(lambda: publication.publish(ports, tenant.operator))
        return record_id

    def anew(ports: Ports, tenant: Tenant) -> object:
        (record,) = revocations.page(ports, tenant.operator, before=None, limit=2).entries
        tenant.unrevoke(ports, record.id)
        return extend(ports, tenant)

    def publish(ports: Ports, tenant: Tenant) -> object:
        return settle(lambda: tidy(ports, tenant))

    def move(ports: Ports, tenant: Tenant) -> object:
        records.move_ended(ports, tenant.id, [ENDED], since=clock())
        return moved(ports, tenant)

    ways = ((move, anew), (move, extend), (again, move), (publish, extend), (again, again))
    for first, second in ways:
        number = 0
        for race in races(ports, world, first, second):
            number += 1
            assert not isinstance(race.second, Exception)
            assert tidy(ports, race.world) == [ENDED]
            assert moved(ports, race.world) == []
            race.world.check_totals(ports)
            extended = race.world.actions(ports).count("revocation.extend")
            assert extended == (second is not anew)
        assert number > 2


def test_a_move_that_fails(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F153b: A move that fails does not fail the list, and is repeated after the next one."""
    for number in range(3):
        revoke(ports, tenant, clock, f"svc_wrt_{number}")
    tidy(ports, tenant)
    clock.advance(days=100)
    # The feed says first that they leave the list.
    publication.publish(ports, tenant.operator, compare_all=True)
    rehearsal = Script()
    version = in_force.read_srl_head(ports, tenant.id).version
    publication.publish(scripted(ports, rehearsal), tenant.operator, compare_all=True)
    calls = len(rehearsal.calls)
    failing = broken_at(ports, calls, Unavailable())
    assert tidy(failing, tenant) == []
    assert in_force.read_srl_head(ports, tenant.id).version == version + 2
    assert moved(ports, tenant) == []
    assert tidy(ports, tenant) == []
    assert len(moved(ports, tenant)) == 3
