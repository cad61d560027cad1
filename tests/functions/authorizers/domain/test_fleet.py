"""A revocation reaches a fleet of thousands, in simulated time against the real operations."""

from pathlib import Path

import pytest

from functions.authorizers import propagation
from tests.kit.fleets import Fleet
from tests.kit.worlds import Clock, embedded

# What a revocation may take until each authorizer has reported it, and the writes per second that
# the registry may take: a partition of DynamoDB takes a thousand.
SECONDS_MAX = 60
WRITES_MAX = 220


@pytest.mark.parametrize(
    ("size", "relays", "seconds"),
    [
        pytest.param(600, 0, SECONDS_MAX, marks=pytest.mark.slow),
        pytest.param(600, 2, SECONDS_MAX, marks=pytest.mark.slow),
        pytest.param(10_000, 20, SECONDS_MAX, marks=pytest.mark.long),
        # The service lets them poll every 15 seconds, so as not to exceed the rate limit.
        pytest.param(10_000, 0, SECONDS_MAX + 6, marks=pytest.mark.long),
    ],
)
def test_a_revocation_reaches_a_fleet(
    tmp_path: Path, clock: Clock, size: int, relays: int, seconds: float
) -> None:
    """F295a: All of 10,000 authorizers report a revocation within 60 s, by 220 writes a second.

    Then the proof of propagation is complete. They share 20 relays; if each polls by itself, it
    takes up to 66 s. Writes are averages of the busiest ten seconds. No second has as many as a
    half more. No poll exceeds the rate limit.
    """
    ports = embedded(tmp_path, clock)
    fleet = Fleet(ports, clock, size, starting=300, relays=relays)
    fleet.run(660)
    fleet.poll()
    fleet.run(700)
    began = fleet.now
    # At rest: each writes every five minutes or more rarely.
    assert fleet.busiest(400, began, seconds=60) <= size / 250
    revocation_id = fleet.revoke("svc_wrt_stolen")
    shown = []
    for after in (0.6, seconds):
        fleet.run(began + after)
        found = propagation.progress_of(ports, fleet.caller, revocation_id=revocation_id)
        shown.append((found.propagation.enforced == size, found.propagation.is_complete))
    assert shown == [(False, False), (True, True)]
    rest, news = (
        [fleet.busiest(*span, seconds=each) for each in (10, 1)]
        for span in ((400, began), (began, fleet.now))
    )
    print(f"all by {max(fleet.holding) - began:.1f} s, writes per second: {news}, at rest {rest}")
    # Each reported once.
    assert len(fleet.holding) == size
    assert fleet.refused_polls == 0
    assert fleet.busiest(began, fleet.now, seconds=10) <= WRITES_MAX
    assert fleet.busiest(began, fleet.now) <= WRITES_MAX * 1.5
    # Reports that came together do not come together again.
    fleet.run(began + 420)
    assert fleet.busiest(began + seconds + 1, fleet.now, seconds=10) <= WRITES_MAX * 0.7
