"""The whole service in worlds from seeds: whatever goes wrong, nothing acknowledged is lost."""

import pytest

from shared.operations.lists import unpublished
from tests.world.__main__ import lived, minimize, report

_SEEDS = 200


def _live_all(seeds: range) -> None:
    for seed in seeds:
        life, error = lived(seed)
        assert error is None, report(seed, life, error)


@pytest.mark.parametrize("part", range(4))
def test_nothing_acknowledged_is_lost(part: int) -> None:
    """F950a, F171a, F171b, F171c, FEED-12, FLEET-21: Nobody is CLEAR of what is revoked for long.

    In worlds from 200 seeds, near relays and far from them, neither feed nor list falls, forks or
    differs from the other; no client accepts what nobody published, parts of answers or altered
    ones; and when all is quiet, everything is current without a command.
    """
    size = _SEEDS // 4
    _live_all(range(part * size, (part + 1) * size))


@pytest.mark.slow
def test_nothing_is_lost_in_many_worlds() -> None:
    """F950b: In 1,000 further worlds nothing breaks either."""
    _live_all(range(_SEEDS, _SEEDS + 1_000))


def test_a_world_is_the_same_again() -> None:
    """F950c: The same seed tells the same story, step for step."""
    for seed in range(5):
        (first, _), (second, _) = (lived(seed) for _ in range(2))
        assert first.world.story == second.world.story
        assert first.world.steps == second.world.steps


def test_a_failure_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """F950d: What a failure does not need is left out, and the rest breaks the same."""
    fresh = unpublished.Look.since
    monkeypatch.setattr(
        unpublished.Look, "since", lambda self, before: fresh(self._replace(oldest_at=None), before)
    )
    seed = next(each for each in range(_SEEDS) if lived(each)[1])
    kept, order = minimize(seed)
    assert 0 < len(kept) <= 5
    assert "is CLEAR of" in str(lived(seed, kept, order)[1])
