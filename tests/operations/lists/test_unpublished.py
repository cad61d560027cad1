"""Changes that wait for too long, and damage that must stop one tenant only."""

import logging
from collections.abc import Callable
from datetime import timedelta

import pytest

from functions.authorizers import propagation
from functions.webhooks import dispatch
from functions.webhooks.records import TURNS as WEBHOOK_TURNS
from functions.webhooks.records import DispatchMarker
from infra.server.feed import FeedPublisher
from infra.server.sealing import Sealing
from shared.adapters.local.sqlite import SqliteStore
from shared.model.items import Address, Partition
from shared.model.lists import schedule as schedule_model
from shared.model.lists.schedule import signers_marks, warrant_mark_address
from shared.model.tenants import DIRECTORY, SettingsChange
from shared.operations.access import tenant_settings
from shared.operations.lists import expiring, in_force, marks, publication, schedule, unpublished
from shared.operations.lists.unpublished import BacklogSummary
from shared.operations.operator import consistency, doctor, readiness
from shared.operations.operator.readiness import SrlAges
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock

Damage = Callable[[Ports, Address], None]


def _malformed(ports: Ports, address: Address) -> None:
    """The item is another one than was written, as after a fault of our own."""
    ports.store.write(Put(address, {"version": "no number"}, Expect.PRESENT))


def _torn(ports: Ports, address: Address) -> None:
    """The row is not as it was written, as after a fault of the disk."""
    store = ports.store
    assert isinstance(store, SqliteStore)
    with store._database.transaction() as connection:
        sql = f"UPDATE {address.table} SET item = '' WHERE pk = ? AND sk = ?"
        assert connection.execute(sql, address[1:]).rowcount == 1


def sequences(ports: Ports, *tenants: Tenant) -> list[int]:
    heads = [in_force.read_feed_head(ports, each.id) for each in tenants]
    return [each.sequence if each else -1 for each in heads]


def test_a_change_that_waits_too_long_is_late(ports: Ports, clock: Clock) -> None:
    """F553a: Readiness and doctor find a change that is older than 30 seconds and its window."""
    tenant, other = Tenant.create(ports), Tenant.create(ports, "globex")
    change = SettingsChange(feed_window_ms=30_000)
    tenant_settings.update(ports, other.operator, change=change)
    assert unpublished.summarize_backlog(ports) == BacklogSummary(0, 0)
    tenant.revoke(ports, "svc_wrt_a")
    other.revoke(ports, "svc_wrt_a")
    clock.advance(seconds=30)
    assert unpublished.summarize_backlog(ports) == BacklogSummary(0, 30)
    clock.advance(seconds=1)
    assert unpublished.summarize_backlog(ports) == BacklogSummary(1, 31)
    (found,) = [each for each in doctor.examine(ports) if "acknowledged" in each.problem]
    assert (found.subject, found.problem) == (
        "acme", "a change that was acknowledged 31 seconds ago is not in its feed"
    )  # fmt: skip
    # Its window, and the minute in which the schedule runs.
    clock.advance(seconds=90)
    assert unpublished.summarize_backlog(ports) == BacklogSummary(2, 121)
    publication.publish_due(ports)
    assert unpublished.summarize_backlog(ports) == BacklogSummary(0, 0)


@pytest.mark.parametrize("damage", [_malformed, _torn])
def test_a_damaged_mark_on_a_warrant_stops_its_tenant(
    ports: Ports, clock: Clock, damage: Damage
) -> None:
    """F553b: A damaged mark on a warrant stops the feed of its tenant, and no other's."""
    tenant, other = Tenant.create(ports), Tenant.create(ports, "globex")
    for each in (tenant, other):
        each.revoke(ports, "svc_wrt_a")
    damage(ports, warrant_mark_address(tenant.id, "svc_wrt_a"))
    FeedPublisher(ports, lambda _: None)._round()
    assert sequences(ports, tenant, other) == [0, 1]
    clock.advance(seconds=1)
    other.revoke(ports, "svc_wrt_b")
    tick = publication.publish_due(ports)
    assert (list(tick.failed), tick.published) == ([tenant.id], [other.id])
    assert unpublished.summarize_backlog(ports).late == 1


@pytest.mark.parametrize("damage", [_malformed, _torn])
def test_damaged_marks_on_a_tenant_stop_no_other(
    ports: Ports, clock: Clock, damage: Damage
) -> None:
    """F553c: If all marks on a tenant are damaged, the feeds and lists of the others go on."""
    tenant, other = Tenant.create(ports), Tenant.create(ports, "globex")
    names = [f"svc_wrt_{number}" for number in range(15)]
    for name in names:
        tenant.revoke(ports, name)
        other.revoke(ports, name)
    for address in marks.read_tenant_marks(ports, tenant.id):
        damage(ports, address)
    thread = FeedPublisher(ports, lambda _: None)
    thread._round()
    assert sequences(ports, tenant, other) == [1, 1]
    clock.advance(seconds=1)
    for each in (tenant, other):
        each.revoke(ports, names[0] + "_more")
    thread._round()
    assert sequences(ports, tenant, other) == [2, 2]
    tick = publication.publish_due(ports)
    assert (list(tick.failed), tick.published) == ([tenant.id], [other.id])


@pytest.mark.parametrize("partition", [schedule_model.TURNS, schedule_model.ISSUES])
def test_a_damaged_turn_stops_no_other(ports: Ports, clock: Clock, partition: Partition) -> None:
    """F553d: If an item that names who is due is damaged, all tenants are looked at."""
    tenant, other = Tenant.create(ports), Tenant.create(ports, "globex")
    (row, *_) = ports.store.query(partition)
    _torn(ports, partition.address(row.sk))
    # Only the sort keys of issues are read, unless one was issued in the future.
    is_named = partition == schedule_model.TURNS
    clock.advance(seconds=1801)
    other.revoke(ports, "svc_wrt_a")
    due = schedule.read_due_tenants(ports)
    assert set(due.tenant_ids) == {tenant.id, other.id}
    assert (due.late > 0) is is_named
    assert readiness.look(ports) == SrlAges(None, None, late=1)
    # A publication removes what named the list before.
    assert set(publication.publish_due(ports).published) == {tenant.id, other.id}
    assert readiness.look(ports) == SrlAges(0, 3600, 0)


def test_a_damaged_turn_of_a_webhook_stops_no_other(ports: Ports) -> None:
    """F553e: A turn of a webhook that cannot be read has come, and the others are found."""
    names = ["svc_tnt_a#svc_wh_a", "svc_tnt_b#svc_wh_b"]
    for name in names:
        tenant_id, webhook_id = dispatch.parts(name)
        turn = DispatchMarker(tenant_id, webhook_id, ports.now() - timedelta(seconds=1))
        ports.store.write(Put(turn.address, turn.to_item(), Expect.ABSENT))
    ports.store.write(Put(WEBHOOK_TURNS.address(names[0]), {}, Expect.PRESENT))
    assert dispatch.due(ports) == names


def test_a_damaged_entry_of_the_directory_stops_no_other(ports: Ports) -> None:
    """F553j: If an entry of the directory is damaged, all tenants are sealed and looked at."""
    made = [Tenant.create(ports), Tenant.create(ports, "globex")]
    ports.store.write(Put(DIRECTORY.address(made[0].id), {}, Expect.PRESENT))
    sealed: list[str] = []
    Sealing(ports, sealed.append)._round()
    assert sealed == [each.id for each in made]
    assert expiring.count_expiring(ports).total() == 0
    assert propagation.survey(ports) is None
    assert dispatch.count_by_state(ports, most=2) == {}


def test_the_doctor_names_a_damaged_mark_and_a_recovery_mends_it(
    ports: Ports, tenant: Tenant, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """F553f: `doctor` names damaged marks, and the repair of a recovery lets the feed go on."""
    tenant.revoke(ports, "svc_wrt_a")
    key = tenant.key(ports)
    signed = tenant.sign(ports, key)
    publication.publish_due(ports)
    clock.advance(seconds=1)
    tenant.revoke(ports, "svc_wrt_b")
    tenant.revoke_key(ports, key)
    (of_signers,) = ports.store.query(signers_marks(tenant.id))
    _malformed(ports, warrant_mark_address(tenant.id, "svc_wrt_b"))
    _malformed(ports, signers_marks(tenant.id).address(of_signers.sk))
    _malformed(ports, next(iter(marks.read_tenant_marks(ports, tenant.id))))
    found = [each.problem for each in doctor.examine(ports)]
    assert any(each.startswith("cannot read an outbox mark") for each in found)
    assert sum("cannot read" in each for each in found) == 4
    consistency.repair(ports, tenant.operator)
    with caplog.at_level(logging.ERROR):
        publication.publish_due(ports)
    newest = in_force.read_feed_head(ports, tenant.id)
    assert newest is not None
    entries = in_force.read_entries(ports, tenant.id, after=0, until=newest.sequence)
    revoked = {name for each in entries for name in each.decode()[0].revoked}
    assert revoked == {"svc_wrt_a", "svc_wrt_b", signed}
    assert unpublished.read_backlog(ports, tenant.id).oldest_at is None
