"""The whole service in worlds from seeds: whatever goes wrong, nothing acknowledged is lost."""

from typing import Any

import pytest

from shared.model.api_keys import Credential
from shared.operations.access import api_keys
from shared.operations.audit import log, outside
from shared.operations.lists import unpublished
from shared.ports import Ports
from tests.world.__main__ import lived, minimize, report

_SEEDS = 200


def _live_all(seeds: range) -> None:
    for seed in seeds:
        life, error = lived(seed)
        assert error is None, report(seed, life, error)


@pytest.mark.parametrize("part", range(4))
def test_nothing_acknowledged_is_lost(part: int) -> None:
    """F950a, F171a, F171b, F171c, FEED-12, FLEET-21, F31b, F22, F25: In worlds nothing is lost.

    In worlds from 200 seeds, near relays and far from them, nobody is CLEAR of what is revoked for
    longer than it may be. Neither feed nor list falls, forks or differs from the other. No client
    accepts what nobody published, parts of answers or altered ones. When all is quiet, all is
    current without a command. No API key opens after its end, or what is another tenant's; no quota
    is exceeded; and each acknowledged change is in the audit log once, which is sealed once.
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


def test_a_rewritten_audit_log_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """LOG-12, F906a: Worlds find a pass that signs what a thief has left of the sealed log.

    Who has taken its head and some entries can write to the store, and to nothing else.
    """
    monkeypatch.setattr(outside, "compared", lambda ports, of, _known: log.head(ports, of))
    assert "sealed log" in str(next(filter(None, (lived(seed)[1] for seed in range(20)))))


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
