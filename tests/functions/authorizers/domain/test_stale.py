"""Stale authorizers: who is announced, how often, and what that must not disturb."""

import logging
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import pytest

from functions.authorizers import enforcement as propagation_model
from functions.authorizers import operations as authorizers
from functions.authorizers import propagation, stale
from functions.authorizers import records as model
from shared.errors import Unavailable
from shared.model.audit import audit_log
from shared.operations.lists import publication
from shared.ports import Ports
from tests.kit.faults import Script, scripted
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.fleets import Fleet
from tests.web.outages import breaking

pytestmark = pytest.mark.usefixtures("few_partitions")


@pytest.fixture
def fleet(ports: Ports, tenant: Tenant, clock: Clock) -> Fleet:
    """Two authorizers that hold all, and do not say how old a state they accept."""
    fleet = Fleet(ports, tenant).add("north", "south")
    change(ports, tenant, clock)
    fleet.report("north", "south", staleness=None)
    return fleet


def change(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """A new entry of the feed, six minutes ago."""
    tenant.revoke(ports, ports.new_id("wrt"))
    publication.publish_feed(ports, tenant.id)
    clock.advance(minutes=6)


def count(ports: Ports) -> int:
    """A count of all tenants; how many it announced."""
    found = propagation.survey(ports)
    assert found is not None
    return stale.announce_all(ports, found.settled)


def announced(ports: Ports, tenant: Tenant) -> list[Any]:
    rows = chain.from_iterable(
        ports.store.query(each) for each in audit_log.month(tenant.id, ports.now())
    )
    items = [row.item for row in sorted(rows, key=lambda row: row.sk)]
    return [each for each in items if each["action"] == "authorizer.stale"]


def test_each_episode_is_announced_once(
    ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock
) -> None:
    """FLEET-18, F400a: A stale authorizer is announced once, and again if it came back meanwhile.

    While it is behind, neither further changes nor its heartbeats have it announced again.
    """
    assert count(ports) == 0
    change(ports, tenant, clock)
    fleet.report("south", staleness=None)
    assert (count(ports), count(ports)) == (1, 0)
    change(ports, tenant, clock)
    fleet.beat("north", 1, staleness=None)
    fleet.report("south", staleness=None)
    assert count(ports) == 0
    fleet.report("north", staleness=None)
    assert count(ports) == 0
    assert not list(ports.store.query(model.stale(tenant.id)))
    change(ports, tenant, clock)
    fleet.report("south", staleness=None)
    assert (count(ports), count(ports)) == (1, 0)
    seen = [(each["resource_id"], each["details"]["sequence"]) for each in announced(ports, tenant)]
    assert seen == [(fleet.ids["north"], 1), (fleet.ids["north"], 3)]


def test_what_an_announcement_says(
    ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock
) -> None:
    """AUDIT-3: The entry is of the monitor, and names the authorizer and what it should have."""
    change(ports, tenant, clock)
    fleet.report("south", staleness=None)
    count(ports)
    (entry,) = announced(ports, tenant)
    assert (entry["actor"], entry["resource_id"]) == ("system+monitor@acme.svc", fleet.ids["north"])
    assert entry["details"] == {
        "name": "north",
        "sequence": 1,
        "expected_sequence": 2,
        "last_seen_at": "2026-11-21T12:06:00Z",
    }


def test_one_that_refuses_everything_is_not_announced(
    ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock
) -> None:
    """FLEET-18: An authorizer that is closed is not announced, nor is one that was removed."""
    fleet.report("north", staleness=60)
    change(ports, tenant, clock)
    assert count(ports) == 1
    authorizers.remove(ports, tenant.operator, authorizer_id=fleet.ids["south"])
    assert count(ports) == 0
    assert [each["resource_id"] for each in announced(ports, tenant)] == [fleet.ids["south"]]
    assert not list(ports.store.query(model.stale(tenant.id)))


def test_two_counts_at_once(ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock) -> None:
    """F400b: Two runs of the schedule at the same time announce an authorizer once."""
    change(ports, tenant, clock)
    fleet.report("south", staleness=None)
    settled = propagation.of_feed(ports, tenant.id)
    assert settled is not None
    again = partial(stale.announce, ports, tenant.id, settled)
    script = Script(before={1: again})
    stale.announce(scripted(ports, script), tenant.id, settled)
    assert len(announced(ports, tenant)) == 1


def test_a_crowd_is_announced_in_part(
    ports: Ports, tenant: Tenant, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F400c: Of many stale authorizers, those not heard of for longest are announced, once each."""
    for module in (stale, propagation_model):
        monkeypatch.setattr(module, "LAGGING_MAX", 2)
    fleet = Fleet(ports, tenant).add("a", "b", "c")
    change(ports, tenant, clock)
    assert (count(ports), count(ports)) == (2, 0)
    for name in ("a", "b"):
        fleet.beat(name, 0, staleness=None)
        count(ports)
    assert [each["details"]["name"] for each in announced(ports, tenant)] == ["a", "b", "c"]


def test_a_fault_of_one_tenant_does_not_silence_the_others(
    ports: Ports, tenant: Tenant, fleet: Fleet, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """F400d: Each tenant's stale authorizers are announced, whatever fails for another one."""
    other = Tenant.create(ports, "other")
    Fleet(ports, other).add("east")
    for each in (tenant, other):
        change(ports, each, clock)
    notes = model.stale(tenant.id).pk
    down = breaking(ports.store, Unavailable("throttled"), lambda _verb, pk: pk == notes)
    assert count(replace(ports, store=down)) == 1
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert [tenant.id in each.getMessage() for each in errors] == [True]
    assert (len(announced(ports, tenant)), len(announced(ports, other))) == (0, 1)
    assert count(ports) == 2
