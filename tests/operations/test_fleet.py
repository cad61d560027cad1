"""A revocation reaches a fleet of thousands, in simulated time against the real operations."""

from pathlib import Path

import pytest

from shared.operations.api import propagation
from tests.fleets import Fleet
from tests.worlds import Clock, embedded

# What a revocation may take until each authorizer has reported it, and the writes per second that
# the registry may take: a partition of DynamoDB takes a thousand.
SECONDS_MAX = 60
WRITES_MAX = 220


@pytest.mark.parametrize(
    "size",
    [pytest.param(1_000, marks=pytest.mark.slow), pytest.param(10_000, marks=pytest.mark.long)],
)
def test_a_revocation_reaches_a_fleet(tmp_path: Path, clock: Clock, size: int) -> None:
    """F295a: All of 10,000 authorizers report a revocation within 60 s, by 220 writes a second.

    Then the proof of propagation is complete. Writes are averages of the busiest ten seconds.
    No second has as many as a half more.
    """
    ports = embedded(tmp_path, clock)
    fleet = Fleet(ports, clock, size, starting=300)
    fleet.run(700)
    began = fleet.now
    # At rest: each writes every five minutes or more rarely.
    assert fleet.busiest(400, began, seconds=60) <= size / 250
    revocation_id = fleet.revoke("svc_wrt_stolen")
    shown = []
    for seconds in (1, SECONDS_MAX):
        fleet.run(began + seconds)
        found = propagation.of_revocation(ports, fleet.caller, revocation_id=revocation_id)
        shown.append((found.propagation.holding == size, found.propagation.is_complete))
    assert shown == [(False, False), (True, True)]
    # Each reported once.
    assert len(fleet.holding) == size
    assert fleet.busiest(began, fleet.now, seconds=10) <= WRITES_MAX
    assert fleet.busiest(began, fleet.now) <= WRITES_MAX * 1.5
    # Reports that came together do not come together again.
    fleet.run(began + 420)
    assert fleet.busiest(began + SECONDS_MAX + 1, fleet.now, seconds=10) <= WRITES_MAX * 0.7
