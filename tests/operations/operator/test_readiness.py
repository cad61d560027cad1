"""Readiness: whether the stores answer, and how old the lists are."""

import pytest

from shared.errors import Unavailable
from shared.operations.operator import readiness
from shared.operations.operator.readiness import SrlAges
from shared.ports import Ports
from tests.kit.faults import Script, broken_at, scripted
from tests.kit.reads import reading
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock


def test_ages_are_of_all_lists_together(ports: Ports, clock: Clock) -> None:
    """F155d: Readiness has the oldest age, soonest expiry and late lists of all tenants."""
    Tenant.create(ports, "first")
    clock.advance(seconds=600)
    Tenant.create(ports, "second")
    assert readiness.look(ports) == SrlAges(600, 3000, 0)
    # A list is late once three quarters of its hour are over.
    clock.advance(seconds=2100)
    assert readiness.look(ports) == SrlAges(2700, 900, 1)
    clock.advance(seconds=1800)
    assert readiness.look(ports) == SrlAges(4500, -900, 2)
    # As seen from a clock that is right, both were issued in the future.
    clock.advance(days=-1)
    assert readiness.look(ports).late == 2


def test_a_store_that_does_not_answer_is_reported(ports: Ports) -> None:
    """F155b: The service is not ready if any call of the store fails. No other port is used."""
    Tenant.create(ports)
    script = Script()
    readiness.look(scripted(ports, script))
    assert set(script.calls) == {"get_many", "count", "query"}
    for number, _ in enumerate(script.calls):
        with pytest.raises(Unavailable):
            readiness.look(broken_at(ports, number, Unavailable("broken")))


def test_it_costs_the_same_for_many_tenants(ports: Ports) -> None:
    """F156: one look makes a fixed number of calls, and reads no record of a tenant."""
    trips = []
    for number in range(2):
        Tenant.create(ports, f"tenant-{number}")
        with reading(ports) as (watched, reads):
            readiness.look(watched)
        trips.append(reads.trips)
    assert trips == [4, 4]
