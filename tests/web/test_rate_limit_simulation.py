"""F32 in virtual time: instances of the limiter on one bucket, under every kind of load."""

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shared.errors import RateLimited
from shared.model.rate_limit import Bucket, BucketPurpose, BucketUser
from shared.ports.token_buckets import Lease, TokenBuckets
from shared.web.rate_limit import TenantLimiter
from shared.web.work import result_of
from tests.kit.worlds import embedded

RATE, BURST = 1000, 2000
ADMIN = BucketUser("acme", BucketPurpose.REQUESTS, None)
SECOND = 1_000_000
START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
START_MICROSECONDS = int(START.timestamp()) * SECOND

# When a request comes, in microseconds from the start, and to which instance.
Arrival = tuple[int, int]
Load = Callable[[random.Random, int, int], Iterator[Arrival]]


@dataclass
class Meter:
    """`TokenBuckets` that notes when DynamoDB would have written, and how often in any second."""

    buckets: TokenBuckets
    full_at: int = 0
    most_writes: int = 0
    _written: deque[int] = field(default_factory=deque)

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0, least: int = 1) -> Lease:
        lease = self.buckets.lease(name, tokens, now=now, reserve=reserve, least=least)
        # A bucket that is full, or short of tokens, costs a second write.
        twice = self.full_at < now or 0 < lease.granted < tokens
        self.full_at = lease.full_at
        self._written.extend([now] * (1 + twice))
        while self._written[0] <= now - SECOND:
            self._written.popleft()
        self.most_writes = max(self.most_writes, len(self._written))
        return lease


@dataclass
class Exact:
    """One bucket that every request asks, whichever instance it comes to."""

    full_at: int = 0
    admitted: int = 0

    def ask(self, now: int) -> None:
        bucket = Bucket(self.full_at, now)
        if bucket.tokens:
            self.full_at = bucket.take(1).full_at
            self.admitted += 1


@dataclass
class Outcome:
    """What became of a run."""

    offered: int = 0
    admitted: int = 0
    exact: int = 0
    most_writes: int = 0

    def __str__(self) -> str:
        return (
            f"{self.offered} offered, {self.admitted} admitted, {self.exact} by an exact bucket,"
            f" {self.most_writes} writes in the worst second"
        )


def simulate(folder: Path, instances: int, arrivals: Iterator[Arrival]) -> Outcome:
    """Run the requests; at each one, no more are admitted than the rate and the burst allow."""
    outcome, exact, present = Outcome(), Exact(), 0
    ports = embedded(folder, lambda: START + timedelta(microseconds=present))
    meter = Meter(ports.buckets)
    world = replace(ports, buckets=meter)
    limiters = [TenantLimiter(lambda: world) for _ in range(instances)]
    for present, instance in arrivals:
        exact.ask(START_MICROSECONDS + present)
        outcome.offered += 1
        try:
            result_of(limiters[instance].take(ADMIN))
        except RateLimited:
            continue
        outcome.admitted += 1
        assert outcome.admitted * SECOND <= RATE * present + BURST * SECOND
    outcome.exact, outcome.most_writes = exact.admitted, meter.most_writes
    return outcome


def steady(chance: random.Random, instances: int, load: int) -> Iterator[Arrival]:
    """One request after the other, each to any instance."""
    for number in range(load * 3):
        yield number * SECOND // load, chance.randrange(instances)


def bursts(chance: random.Random, instances: int, load: int) -> Iterator[Arrival]:
    """Heaps of requests at once, some for one instance and some for all, with gaps between."""
    present = 0
    while present < 3 * SECOND:
        size = chance.randint(1, load // 4)
        busy = chance.sample(range(instances), chance.choice([1, instances]))
        for number in range(size):
            yield present + number * 10, chance.choice(busy)
        present += size * 10 + int(chance.uniform(0, 2) * size * SECOND / load)


def pauses(chance: random.Random, instances: int, load: int) -> Iterator[Arrival]:
    """Cold, a second of load, silence for seconds, and again; each instance gets half as much."""
    shares = [2.0**-number for number in range(instances)]
    for begin in (0, 3 * SECOND):
        targets = chance.choices(range(instances), shares, k=load)
        for number, instance in enumerate(targets):
            yield begin + number * SECOND // load, instance


@pytest.mark.parametrize("offered", [200, 5000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("instances", [1, 16])
@pytest.mark.parametrize("load", [steady, bursts, pauses])
def test_instances_together_are_one_limiter(
    tmp_path: Path, load: Load, instances: int, offered: int
) -> None:
    """AUTH-6, F32a: Sixteen instances admit 95 to 100 % of the limit at under 1000 writes/s."""
    random.seed(f"{load.__name__} {instances} {offered}")
    outcome = simulate(tmp_path, instances, load(random.Random(32), instances, offered))
    assert outcome.offered > 0
    assert outcome.admitted >= 0.95 * outcome.exact, outcome
    assert outcome.most_writes < 1000, outcome
