"""How many requests of one tenant DynamoDB bears: a model, since no emulator refuses so.

    python -m tests.models.contention

Requests arrive at random, each with one transaction. A transaction holds its items for some
milliseconds. One that begins meanwhile on one of them fails after three fifths of that time, and is
tried again as the adapter does, until its patience ends: then the caller gets 503.

Which items are touched is taken from the writes that the operations make, and so is what they cost:
a partition takes 1,000 write units a second, and a change in a transaction takes two a KiB.
"""

import heapq
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest import mock

import cbor2

from shared.adapters import retries
from shared.adapters.retries import RetryPolicy
from shared.operations.changes import revocations, warrants
from shared.operations.changes.warrants import Order
from shared.ports import Ports
from shared.ports.store import Address, Change, Put, Table
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock, close, embedded

PARTITION_UNITS: Final = 1000
_FAILS_AFTER: Final = 0.6
_SEED: Final = 37

Write = Sequence[Change]


@dataclass(frozen=True)
class Outcome:
    """How requests fared: the part of them that was refused, and the longest of them in seconds."""

    refused: float
    p99: float
    longest: float

    def __str__(self) -> str:
        return (
            f"{self.refused:.2%} refused, 99 % within {self.p99:.2f} s, "
            f"the last within {self.longest:.2f} s"
        )


def simulate(
    writes: Sequence[frozenset[Address]], rate: float, hold: float, seconds: int
) -> Outcome:
    """`rate` requests a second, each with the items of one of `writes`, which `hold` seconds."""
    with mock.patch.object(retries, "_RANDOM", random.Random(_SEED)):
        return _Simulation(hold).run(_arrivals(writes, rate, seconds))


def _arrivals(
    writes: Sequence[frozenset[Address]], rate: float, seconds: int
) -> list[tuple[float, frozenset[Address]]]:
    chance, at, arrivals = random.Random(_SEED), 0.0, list[tuple[float, frozenset[Address]]]()
    while (at := at + chance.expovariate(rate)) < seconds:
        arrivals.append((at, chance.choice(writes)))
    return arrivals


class _Simulation:
    def __init__(self, hold: float) -> None:
        self._hold = hold
        self._now = 0.0
        self._held: dict[Address, float] = {}

    def run(self, arrivals: Sequence[tuple[float, frozenset[Address]]]) -> Outcome:
        queue: list[tuple[float, int, Any]] = [(at, n, None) for n, (at, _) in enumerate(arrivals)]
        took, refused = list[float](), 0
        while queue:
            self._now, number, attempts = heapq.heappop(queue)
            arrived, items = arrivals[number]
            if attempts is None:
                attempts = RetryPolicy(sleep=self._sleep, clock=lambda: self._now).attempts()
                next(attempts)
            if self._take(items):
                took.append(self._now + self._hold - arrived)
                continue
            self._now += _FAILS_AFTER * self._hold
            if next(attempts, None) is None:
                refused += 1
            else:
                heapq.heappush(queue, (self._now, number, attempts))
        took.sort()
        return Outcome(refused / len(arrivals), took[int(0.99 * len(took))], took[-1])

    def _sleep(self, seconds: float) -> None:
        self._now += seconds

    def _take(self, items: frozenset[Address]) -> bool:
        if any(self._held.get(item, 0) > self._now for item in items):
            return False
        self._held |= dict.fromkeys(items, self._now + self._hold)
        return True


def shards(number: int) -> list[frozenset[Address]]:
    """Writes that each touch one of so many items."""
    return [frozenset({Address(Table.KEYS, "shard", str(each))}) for each in range(number)]


def shared_items(writes: Sequence[Write]) -> list[frozenset[Address]]:
    """Of each write, the items that others touch too."""
    times = Counter(change.address for change in chain(*writes))
    return [
        frozenset(each.address for each in write if times[each.address] > 1) for write in writes
    ]


def hottest(writes: Sequence[Write]) -> tuple[str, float]:
    """The partition that takes the most write units, and how many a request."""
    units: Counter[str] = Counter()
    for change in chain(*writes):
        units[change.address.pk] += 2 * math.ceil(_size(change) / 1024)
    partition, most = units.most_common(1)[0]
    return partition, most / len(writes)


def _size(change: Change) -> int:
    size = len("".join(change.address[1:]))
    return size + (len(cbor2.dumps(dict(change.item))) if isinstance(change, Put) else 50)


def signatures(number: int) -> list[Write]:
    """What so many signatures with one key write, two levels below its root."""

    def sign(ports: Ports, tenant: Tenant) -> Callable[[int], object]:
        key = tenant.key(ports, tenant.key(ports, tenant.key(ports)))
        order, operator = Order(b"grant"), tenant.operator
        return lambda _: warrants.sign(ports, operator, key_id=key.id, order=order)

    return _written(number, sign)


def created(number: int) -> list[Write]:
    """What so many revocations of a tenant write."""

    def create(ports: Ports, tenant: Tenant) -> Callable[[int], object]:
        return lambda n: revocations.create(
            ports, tenant.operator, warrant_id=f"svc_wrt_{n}", reason="stolen"
        )

    return _written(number, create)


def _written(
    number: int, prepare: Callable[[Ports, Tenant], Callable[[int], object]]
) -> list[Write]:
    with TemporaryDirectory() as folder:
        ports = embedded(Path(folder), Clock())
        tenant = Tenant.create(ports)
        written: list[Write] = []

        def note(call: Call) -> Any:
            if call.verb == "write":
                written.append(call.arguments)
            return call()

        run = prepare(replace(ports, store=Intercepted(ports.store, note)), tenant)
        written.clear()
        for n in range(number):
            run(n)
        close(ports)
    return written


def main() -> None:
    """Print what the model says of signing and revoking, as it was and as it is."""
    for name, writes, once, rates in (
        ("signatures with one key", signatures(2000), 1, (50, 100, 200, 400)),
        ("revocations of one tenant", created(4000), 16, (500, 1000, 2000)),
    ):
        partition, units = hottest(writes)
        print(f"{name}: {PARTITION_UNITS / units:.0f}/s by the write units of {partition}")
        for rate in rates:
            for hold in (0.010, 0.020):
                before = simulate(shards(once), rate, hold, 60)
                after = simulate(shared_items(writes), rate, hold, 60)
                print(f"  {rate:5}/s, {hold * 1000:.0f} ms: was {before}, is {after}")


if __name__ == "__main__":
    main()
