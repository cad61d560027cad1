"""The schedule: who is due, what finding them costs, and that no change is ever lost to it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.errors import DataCorrupt
from shared.model.lists import schedule as model
from shared.model.lists.schedule import PublicationDeadline
from shared.model.revocations import marker_count_address
from shared.model.tenants import SettingsChange
from shared.model.warrants import by_end
from shared.operations.access import tenant_settings
from shared.operations.changes import key_revocation
from shared.operations.lists import in_force, publication
from shared.operations.lists import marks as srl_marks
from shared.operations.lists import schedule as srl_schedule
from shared.ports import Ports
from shared.ports.store import (
    Address,
    Change,
    Delete,
    Expect,
    Increment,
    ItemRow,
    Partition,
    Put,
    Store,
)
from tests.kit.intercepted import Call, Intercepted, OneByOne
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.mutations import EACH_CASE, Case, pending_signer

# A list is valid for an hour.
HALF, THREE_QUARTERS = timedelta(minutes=30), timedelta(minutes=45)
SECOND = timedelta(seconds=1)


pytestmark = pytest.mark.usefixtures("few_partitions")


def due(ports: Ports) -> list[str]:
    return srl_schedule.read_due_tenants(ports).tenant_ids


def test_the_list_of_a_caller_needs_no_other(ports: Ports, tenant: Tenant) -> None:
    """F138a: The list that a caller publishes has all changes; the schedule adds none for them."""
    names = [f"svc_wrt_{number}" for number in range(5)]
    for name in names:
        tenant.revoke(ports, name)
    assert tenant.regenerate(ports).revoked_ids == names
    assert due(ports) == [tenant.id]  # Its mark is looked at twice.
    assert not publication.publish_if_due(ports, tenant.id)
    assert due(ports) == []
    assert srl_marks.read_warrant_marks(ports, tenant.id, limit=10)[0] == {}


def test_each_is_named_once_the_most_urgent_first(ports: Ports, clock: Clock) -> None:
    """Lists that run out come in order of time, before those that changed; nobody comes twice."""
    tenants = [Tenant.create(ports, handle) for handle in ("acme", "globex", "initech")]
    for tenant in reversed(tenants):
        clock.advance(minutes=1)
        tenant.regenerate(ports)
    changed = Tenant.create(ports, "umbrella")
    clock.moment += HALF - SECOND
    for each in (changed, *tenants):
        for number in range(20):
            each.revoke(ports, f"svc_wrt_{number}")
    assert due(ports) == [*(each.id for each in reversed(tenants)), changed.id]


def test_late_is_what_three_quarters_of_the_lifetime_passed(
    ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """A list counts as late when half of the time for retries is gone; a changed one does not."""
    other = Tenant.create(ports, "globex")
    other.revoke(ports, "svc_wrt_a")
    clock.moment += THREE_QUARTERS - SECOND
    assert srl_schedule.read_due_tenants(ports).late == 0
    clock.moment += SECOND
    assert srl_schedule.read_due_tenants(ports).late == 2
    other.regenerate(ports)
    assert srl_schedule.read_due_tenants(ports).late == 1
    other.revoke(ports, "svc_wrt_b")
    assert srl_schedule.read_due_tenants(ports).late == 1


def test_expired_is_what_no_verifier_accepts(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """F110a: A list counts as expired from the moment at which verifiers refuse it."""
    expires_at = in_force.read_srl_head(ports, tenant.id).expires_at
    clock.moment = expires_at - SECOND
    assert srl_schedule.read_due_tenants(ports).expired == 0
    clock.moment = expires_at
    assert srl_schedule.read_due_tenants(ports) == srl_schedule.DueTenants(
        [tenant.id], late=1, expired=1
    )
    tenant.regenerate(ports)
    assert srl_schedule.read_due_tenants(ports) == srl_schedule.DueTenants([], late=0)


_AHEAD = [
    timedelta(minutes=5, seconds=1),
    timedelta(minutes=10),
    timedelta(hours=6),
    timedelta(days=365),
]


@pytest.mark.parametrize("ttl_seconds", [300, 3600, 604_800])
@pytest.mark.parametrize("ahead", _AHEAD)
def test_a_list_of_the_future_is_late_and_due_at_once(
    ports: Ports, clock: Clock, tenant: Tenant, ahead: timedelta, ttl_seconds: int
) -> None:
    """F35b: A list from a clock that is ahead counts as late, and the next tick replaces it."""
    other = Tenant.create(ports, "globex")
    tenant_settings.update(ports, other.operator, change=SettingsChange(srl_ttl_seconds=604_800))
    tenant_settings.update(
        ports, tenant.operator, change=SettingsChange(srl_ttl_seconds=ttl_seconds)
    )
    for each in (other, tenant):
        each.regenerate(ports)
    clock.moment += ahead
    tenant.regenerate(ports)
    clock.moment -= ahead
    assert srl_schedule.read_due_tenants(ports) == srl_schedule.DueTenants([tenant.id], late=1)
    assert publication.publish_due(ports) == publication.PublicationRun(published=[tenant.id])
    assert in_force.read_srl_head(ports, tenant.id).issued_at == clock()
    assert srl_schedule.read_due_tenants(ports) == srl_schedule.DueTenants([], late=0)


def test_clocks_may_differ_by_five_minutes(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """F35: a list issued no further in the future than that is neither due nor late."""
    clock.advance(minutes=5)
    tenant.regenerate(ports)
    clock.advance(minutes=-5)
    assert srl_schedule.read_due_tenants(ports) == srl_schedule.DueTenants([], late=0)
    assert not publication.publish_if_due(ports, tenant.id)


class Counting(OneByOne):
    """A store that can be queried alone, and counts the queries and what they hand out."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner, _nothing_else)
        self.queries = self.entries = 0

    def query(self, partition: Partition, **bounds: Any) -> Iterator[ItemRow]:
        self.queries += 1
        for entry in self.inner.query(partition, **bounds):
            self.entries += 1
            yield entry


def _nothing_else(call: Call) -> Any:
    pytest.fail(f"{call.verb} is no query")


@pytest.mark.parametrize("tenants", [0, 100, 1000])
def test_finding_costs_by_who_is_due(ports: Ports, clock: Clock, tenants: int) -> None:
    """Two due by time and one by a change are three items read, however many tenants there are."""
    now = ports.now()
    first = in_force.read_srl_head(ports, Tenant.create(ports).id)
    for number in range(tenants + 2):
        late = number < 2
        issued_at = now - HALF if late else now - HALF + SECOND * (1 + number % 1000)
        head = replace(first, issued_at=issued_at, expires_at=issued_at + 2 * HALF)
        turn = PublicationDeadline.after_publication(head, f"t{number}")
        ports.store.write(Put(turn.address, turn.to_item(), Expect.ABSENT))
    Tenant.create(ports, "globex").revoke(ports, "svc_wrt_a")
    counting = Counting(ports.store)
    assert len(due(replace(ports, store=counting))) == 3
    assert counting.entries == 3
    assert counting.queries == 2 + len(model.mark_partitions())


class Watched(Intercepted):
    """A store that says of each write whether it changes what is revoked, and whom it marks."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.changes: list[tuple[bool, set[Address]]] = []

    def write(self, *changes: Change) -> None:
        marks = {each.address for each in changes if each.address.pk.startswith("srl-marks#")}
        # A mark for the trust document makes no list due.
        marks -= {each for each in marks if each.sk.endswith("#trust")}
        self.changes.append((any(map(_changes_revoked, changes)), marks))
        self.inner.write(*changes)


def _changes_revoked(change: Change) -> bool:
    return isinstance(change, Increment) and (
        "changes" in change.amounts or change.address.sk == marker_count_address("t").sk
    )


# What changes the list or the tombstones beside it.
_REVOKES = {
    *("api_key.rotate", "api_key.revoke", "api_key.delete"),
    *("key.revoke", "key.rotate", "key.suspend", "key.enable"),
    *("revocation.create", "revocation.delete"),
    *("revocation.create_batch", "revocation.delete_batch"),
    *("service_account.disable", "service_account.enable", "service_account.delete"),
}


@EACH_CASE
def test_a_change_and_its_mark_are_one_write(ports: Ports, tenant: Tenant, case: Case) -> None:
    """F48b: Every write that changes a list marks its tenant as due, and no other does."""
    prepared = case.prepare(ports, tenant)
    store: Any = Watched(ports.store)
    case.run(replace(ports, store=store), tenant, prepared)
    # A signer that is not in force is revoked without a list.
    of_pending = (case.action, case.prepare) == ("srl.revoke_key", pending_signer)
    revokes = of_pending or case.action in _REVOKES
    assert [changed for changed, _ in store.changes] == [revokes]
    assert all(bool(marks) == changed for changed, marks in store.changes)
    own = model.mark_range(tenant.id)
    assert all(own[0] < mark.sk < own[1] for _, marks in store.changes for mark in marks)


def test_every_write_of_a_long_cascade_is_marked(ports: Ports, tenant: Tenant) -> None:
    """A revocation that takes several writes marks in each, since it may stop after any."""
    root = tenant.key(ports)
    for _ in range(50):
        tenant.key(ports, root)
    store: Any = Watched(ports.store)
    there = replace(ports, store=store)
    key_revocation.revoke(there, tenant.operator, key_id=root.id, reason="lost", cascade=True)
    assert len(store.changes) == 2
    assert all(changed and marks for changed, marks in store.changes)


def test_what_was_in_flight_when_its_key_was_revoked_is_listed(
    ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """SRL-12, F41a: A signature that was in flight when its key was revoked is listed later."""
    key = tenant.key(ports)
    tenant.sign(ports, key, "svc_wrt_signed")
    signed = by_end(tenant.id, key.id)
    (entry,) = ports.store.query(signed)
    address = signed.address(entry.sk)
    ports.store.write(Delete(address, Expect.PRESENT))
    tenant.revoke_key(ports, key)
    assert publication.publish_if_due(ports, tenant.id)
    assert tenant.published(ports).revoked_ids == []
    ports.store.write(Put(address, entry.item, Expect.ABSENT))
    assert due(ports) == []
    clock.moment += model.IN_FLIGHT_MAX
    assert due(ports) == [tenant.id]
    assert publication.publish_if_due(ports, tenant.id)
    assert tenant.published(ports).revoked_ids == ["svc_wrt_signed"]
    assert due(ports) == []


def test_a_mark_of_the_future_names_its_tenant(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """F41: a mark that a worker saw whose clock is ahead waits for nobody."""
    tenant.revoke(ports, "svc_wrt_a")
    clock.advance(days=365)
    publication.publish_if_due(ports, tenant.id)
    clock.advance(days=-365)
    publication.publish_if_due(ports, tenant.id)
    assert srl_marks.read_tenant_marks(ports, tenant.id) == {}


@pytest.mark.parametrize("tenant_id", ["svc_tnt_01k6x3v9e8h2m4q7r5t1w0z3yb", "nonsense", "a\nb"])
def test_an_unknown_tenant_is_an_error(anywhere: Ports, tenant_id: str) -> None:
    """F10: who is not there is not passed over in silence."""
    with pytest.raises(DataCorrupt, match="no settings"):
        publication.publish_if_due(anywhere, tenant_id)


def test_a_turn_that_cannot_be_read_holds_back_nobody(
    ports: Ports, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """F10: it is loud and counts as late; its tenant is named all the same, as the others are."""
    broken, other = Tenant.create(ports), Tenant.create(ports, "globex")
    turn = PublicationDeadline.after_publication(
        in_force.read_srl_head(ports, broken.id), broken.id
    )
    ports.store.write(Put(turn.address, {"due_at": 1}, Expect.PRESENT))
    clock.advance(minutes=30)
    due = srl_schedule.read_due_tenants(ports)
    assert (sorted(due.tenant_ids), due.late) == (sorted([broken.id, other.id]), 1)
    assert "cannot read the publication deadline" in caplog.text
