"""The whole service in worlds from seeds: whatever goes wrong, nothing acknowledged is lost."""

import secrets
from collections import Counter
from collections.abc import Iterable
from threading import Event, Thread
from typing import Any

import pytest

from functions.transparency_log import log, outside
from shared.model.api_keys import Credential
from shared.operations.access import api_keys
from shared.operations.lists import feed_writer
from shared.ports import Ports
from tests.world.__main__ import lived, minimize, report
from tests.world.people import DEEDS, FAULTS
from tests.world.run import plan

_SEEDS = 100


def _live_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        life, error = lived(seed)
        assert error is None, report(seed, life, error)


@pytest.mark.slow_on(*map(str, range(1, 10)))
@pytest.mark.parametrize("part", range(10))
def test_nothing_acknowledged_is_lost(part: int) -> None:
    """F950a, F171a, F171b, F171c, FEED-12, FLEET-21, F31b, F240a, F643a: Nothing is lost.

    In worlds from 100 seeds, near relays and far from them, nobody is CLEAR of what is revoked for
    longer than it may be. Neither feed nor list falls, forks or differs from the other. No client
    accepts what nobody published, parts of answers or altered ones. When all is quiet, all is
    current without a command, and a list that follows is the one made from all records. No API key
    opens after its end, or what is another tenant's; no quota is exceeded; and each acknowledged
    change is in the audit log once, which is sealed once. After a failover, in force is what
    arrived; after a move, nobody learns anything from the source.
    """
    size = _SEEDS // 10
    _live_all(range(part * size, (part + 1) * size))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 12))
def test_nothing_is_lost_in_many_worlds(part: int) -> None:
    """F950b, F22, F25, SRL-7, F48a, OPS-24, OPS-16: In 1,100 further worlds nothing breaks."""
    _live_all(range(part * _SEEDS, (part + 1) * _SEEDS))


def test_every_kind_happens() -> None:
    """F950e: In the first worlds, people do everything, and everything goes wrong."""
    planned = Counter(each.kind for seed in range(_SEEDS) for each in plan(seed))
    assert {*planned} == {*DEEDS, *FAULTS, "torn"}
    assert min(planned.values()) > 4


@pytest.mark.slow_on(*map(str, range(1, 5)))
@pytest.mark.parametrize("seed", range(5))
def test_a_world_is_the_same_again(seed: int) -> None:
    """F950c: The same seed tells the same story, step for step."""
    (first, _), (second, _) = (lived(seed) for _ in range(2))
    assert first.world.story == second.world.story
    assert first.world.steps == second.world.steps


def test_other_threads_change_no_world() -> None:
    """F950f: A server that other tests share draws no number of a world."""
    alone, ended = lived(2)[0].world, Event()

    def draw() -> None:
        while not ended.wait(0.0001):
            secrets.token_bytes(1)

    thread = Thread(target=draw)
    thread.start()
    beside = lived(2)[0].world
    ended.set()
    thread.join()
    assert (beside.steps, beside.story) == (alone.steps, alone.story)


@pytest.mark.slow
def test_a_rewritten_audit_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """LOG-12, F906a: Worlds find a pass that signs what a thief has left of the sealed log.

    Who has taken its head and some entries can write to the store, and to nothing else.
    """
    monkeypatch.setattr(
        outside, "compare_with_anchors", lambda ports, of, _known: log.head(ports, of)
    )
    robbed = (each for each in range(_SEEDS) if any(it.kind == "rob" for it in plan(each)))
    assert "sealed log" in str(next(filter(None, (lived(seed)[1] for seed in robbed))))


def test_a_remembered_api_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """AUTH-3, F907a: Worlds find a server that remembers whom it has let in."""
    known: dict[str, Credential] = {}
    fresh = api_keys.authenticate

    def remembering(ports: Ports, secret: str, **options: Any) -> Credential:
        if secret not in known:
            known[secret] = fresh(ports, secret, **options)
        return known[secret]

    monkeypatch.setattr(api_keys, "authenticate", remembering)
    found = next(filter(None, (lived(seed)[1] for seed in range(20))))
    assert "is accepted after its end" in str(found)


@pytest.mark.slow
def test_a_failure_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """F950d: What a failure does not need is left out, and the rest breaks the same."""
    monkeypatch.setattr(feed_writer, "_read_revoked_ends", lambda *_: ({}, set()))
    plans = {seed: plan(seed, happenings=6) for seed in range(9)}
    words = "is not what was acknowledged"
    seed = next(each for each, planned in plans.items() if words in str(lived(each, planned)[1]))
    kept, order = minimize(seed, plans[seed])
    assert 0 < len(kept) <= 2 < len(plans[seed])
    assert words in str(lived(seed, kept, order)[1])
