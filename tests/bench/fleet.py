"""A revocation and a fleet of authorizers, in simulated time against the real operations.

    python -m tests.bench.fleet 1000

simulates another number of authorizers. Only the seconds of simulated time are measured, so that
they are the same on each machine.
"""

import sys
from collections.abc import Iterator
from typing import Final

from tests.bench.report import Row, progress, table
from tests.bench.scratch import scratch
from tests.kit.fleets import Fleet
from tests.kit.worlds import Clock, close, embedded
from tests.prices import BEHIND_A_RELAY

_SIZE: Final = 10_000
_SECONDS_MAX: Final = 60.0
_WRITES_MAX: Final = 220.0
# The fleet starts within five minutes, and then rests until each has reported once more.
_STARTING: Final = 300.0
_REST: Final = 400.0
# For so long they poll before the revocation.
_POLLING: Final = 40.0


def run(size: int = _SIZE) -> Iterator[Row]:
    """How long a revocation takes to be reported by all, and the writes of the registry."""
    for relays in (-(-size // BEHIND_A_RELAY), 0):
        yield from _simulated(size, relays)


def _simulated(size: int, relays: int) -> Iterator[Row]:
    with scratch() as folder:
        clock = Clock()
        ports = embedded(folder, clock)
        fleet = Fleet(ports, clock, size, starting=_STARTING, relays=relays)
        progress(f"{size:,} authorizers start, with {relays} relays")
        fleet.run(_STARTING + _REST - _POLLING)
        fleet.poll()
        fleet.run(_STARTING + _REST)
        began = fleet.now
        fleet.revoke("svc_wrt_stolen")
        progress("one revocation")
        fleet.run(began + 2 * _SECONDS_MAX)
        close(ports)
    yield from _rows(fleet, size, began)


def _rows(fleet: Fleet, size: int, began: float) -> Iterator[Row]:
    name = f"fleet of {size:,}" + (f" behind {fleet.relays} relays" if fleet.relays else "")
    seconds = max(fleet.holding) - began if len(fleet.holding) == size else float("inf")
    yield Row(
        f"{name}, until all have reported a revocation",
        seconds,
        "s",
        "60 s",
        seconds / _SECONDS_MAX,
        goal="≤ 1",
    )
    for when, since, until in (
        ("at rest", _STARTING + 100, began),
        ("after a revocation", began, fleet.now),
    ):
        writes = fleet.busiest(since, until, seconds=10)
        yield Row(
            f"{name}, {when}, busiest 10 s",
            writes,
            "writes/s",
            "220 writes/s",
            writes / _WRITES_MAX,
            goal="≤ 1",
        )
        yield Row(f"{name}, {when}, busiest second", fleet.busiest(since, until), "writes/s")


if __name__ == "__main__":
    print(table(list(run(*map(int, sys.argv[1:])))))
