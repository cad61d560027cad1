"""Pauses differ between instances that Lambda restored from one snapshot.

A snapshot holds the state of Python's `random`: from it, all instances would draw the same numbers.
"""

import ast
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from shared.adapters.retries import RetryPolicy
from shared.errors import PreconditionFailed, RateLimited, Unavailable
from shared.model.rate_limit import BucketPurpose, BucketUser
from shared.operations.base import operation
from shared.ports.token_buckets import Lease, TokenBuckets
from shared.web.rate_limit import TenantLimiter
from shared.web.work import result_of
from tests.kit.processes import ROOT
from tests.kit.worlds import Clock, embedded

_HELD_SECONDS = 0.010
_REFUSED_SECONDS = 0.006


@dataclass
class _Restored:
    """An instance with a clock of its own, in seconds, and a state of `random` of its own."""

    now: float
    state: tuple[Any, ...] = field(repr=False)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def attempts(self) -> Iterator[int]:
        """What `Patience` allows; the state of `random` is this instance's own meanwhile."""
        patience = RetryPolicy(sleep=self.sleep, clock=lambda: self.now)
        attempts = patience.attempts()
        while True:
            random.setstate(self.state)
            attempt = next(attempts, None)
            self.state = random.getstate()
            if attempt is None:
                return
            yield attempt


def _given_up(*, instances: int, trial: int) -> int:
    """How many instances give up, all of which first write to one item within 5 ms.

    A transaction holds the item for 10 ms; one that comes meanwhile is refused after 6 ms. That is
    a model of DynamoDB, not a measurement.
    """
    chance = random.Random(trial)
    snapshot = chance.getstate()
    waiting: list[tuple[float, int, _Restored, Iterator[int]]] = []
    for number in range(instances):
        instance = _Restored(chance.uniform(0, 0.005), snapshot)
        waiting.append((instance.now, number, instance, instance.attempts()))
    heapify(waiting)
    free_at, given_up = 0.0, 0
    while waiting:
        _, number, instance, attempts = heappop(waiting)
        # The first attempt begins at once; the others pause first, and take their place in time.
        if next(attempts, None) is None:
            given_up += 1
        elif instance.now >= free_at:
            free_at = instance.now + _HELD_SECONDS
        else:
            instance.now += _REFUSED_SECONDS
            heappush(waiting, (instance.now, number, instance, attempts))
    return given_up


def test_instances_of_one_snapshot_do_not_go_on_meeting_each_other() -> None:
    """F112a: Of twenty instances of one snapshot that write one item, hardly any gives up."""
    before = random.getstate()
    try:
        assert sum(_given_up(instances=20, trial=trial) for trial in range(5)) <= 1
    finally:
        random.setstate(before)


def _pauses_of_an_adapter(_folder: Path) -> list[float]:
    pauses: list[float] = []
    ticks = iter(range(100))
    patience = RetryPolicy(deadline_seconds=20, sleep=pauses.append, clock=lambda: next(ticks))
    list(patience.attempts())
    return pauses


def _pauses_of_an_operation(_folder: Path) -> list[float]:
    pauses: list[float] = []
    ticks = iter(range(100))
    pacing = replace(operation.PACING, sleep=pauses.append, clock=lambda: next(ticks))

    def lose() -> None:
        raise PreconditionFailed(())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operation, "PACING", pacing)
        with pytest.raises(Unavailable):
            operation.settle(lose)
    return pauses


@dataclass
class _Empty:
    """`TokenBuckets` of which nobody gets a token, which keep when they were asked."""

    buckets: TokenBuckets
    asked_at: list[float] = field(default_factory=list)

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0, least: int = 1) -> Lease:
        self.asked_at.append(now)
        lease = self.buckets.lease(name, tokens, now=now, reserve=reserve, least=least)
        return replace(lease, granted=0)


def _pauses_of_the_rate_limit(folder: Path) -> list[float]:
    clock = Clock()
    ports = embedded(folder, clock)
    empty = _Empty(ports.buckets)
    ports = replace(ports, buckets=empty)
    limiter = TenantLimiter(lambda: ports)
    for _ in range(2000):
        clock.advance(milliseconds=1)
        with pytest.raises(RateLimited):
            result_of(limiter.take(BucketUser("acme", BucketPurpose.REQUESTS, None)))
    return [later - earlier for earlier, later in pairwise(empty.asked_at)]


@pytest.mark.parametrize(
    "pauses", [_pauses_of_an_adapter, _pauses_of_an_operation, _pauses_of_the_rate_limit]
)
def test_no_pause_is_drawn_from_a_state_that_a_snapshot_holds(
    pauses: Callable[[Path], list[float]], tmp_path: Path
) -> None:
    """F112b: The pauses of one instance say nothing about the pauses of another."""
    snapshot = random.getstate()
    first = pauses(tmp_path)
    random.setstate(snapshot)
    assert len(first) > 3
    assert pauses(tmp_path) != first


@pytest.mark.slow
def test_nothing_that_is_deployed_draws_from_such_a_state() -> None:
    """F112c: Deployed code draws random numbers only from the operating system."""
    for folder in ("functions", "shared"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    assert "random" not in [each.name for each in node.names], file
                if isinstance(node, ast.ImportFrom) and node.module == "random":
                    assert [each.name for each in node.names] == ["SystemRandom"], file
