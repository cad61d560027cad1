"""When an authorizer reported an entry: it may be told late, and never early (FLEET-31)."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from functions.authorizers.advances import PAIRS_MAX, advances
from functions.authorizers.enforcement import CURVE_MAX, AuthorizerStatus, EnforcementState, curve
from functions.authorizers.records import Authorizer, AuthorizerDescription, Heartbeat
from shared.model.feed import PublishedEntry

BEGIN = datetime(2026, 11, 21, 12, tzinfo=UTC)


def new() -> Authorizer:
    return Authorizer.new("svc_azr_a", AuthorizerDescription("gateway"), owner="o", now=BEGIN)


def reported(found: Authorizer, sequence: int | None, at: datetime, **more: object) -> Authorizer:
    """After a report that the service takes now, and a relay heard a while ago."""
    beat = Heartbeat(sequence, **more)  # type: ignore[arg-type]
    return found.with_heartbeat(beat, at, relay="r", equivocation=False)


def since(found: Authorizer, sequence: int) -> tuple[int, bool]:
    """The second of the curve for an entry, and whether it may be late."""
    told = curve(
        [AuthorizerStatus(found, EnforcementState.ENFORCED)],
        PublishedEntry(sequence, BEGIN, {}),
        BEGIN,
    )
    ((second, _),) = told.points
    return second, told.is_upper_bound


@pytest.mark.slow_on(*map(str, range(8, 60)))
@pytest.mark.parametrize("seed", range(60))
def test_no_time_is_earlier_than_its_report(seed: int) -> None:
    """FLEET-31, F1382a: No time is early, whatever a relay says, and whatever was dropped.

    A time that is late says so. What is reported again after a loss counts from then on.
    """
    chance, found, now, sequence = random.Random(seed), new(), BEGIN, 0
    # When each entry was reported first since it was held without a gap.
    true: dict[int, int] = {}
    lost = 0
    for _ in range(chance.choice([3, 20, 120])):
        now += timedelta(seconds=chance.choice([0, 1, 7, 300]))
        before = sequence
        sequence = max(0, sequence + chance.choice([0, 1, 1, 2, 9, 9, -5]))
        second = int((now - BEGIN).total_seconds())
        true = {each: at for each, at in true.items() if each <= sequence}
        true |= dict.fromkeys(range(before + 1, sequence + 1), second)
        true.setdefault(sequence, second)
        heard = now - timedelta(seconds=chance.choice([0, 5, 900]))
        found = reported(found, sequence, now, seen_at=heard)
        if chance.random() < 0.03:
            # What is known of its reports is lost.
            stored = int(now.timestamp())
            found, lost = replace(found, advances=b"", stored=stored, last_seen_at=now), sequence
        assert len(found.advances) <= 8 * PAIRS_MAX
        for each, at in true.items():
            told, is_upper_bound = since(found, each)
            assert told >= at
            assert told == at or is_upper_bound or each <= lost or not each
    pairs = advances(found.advances)
    assert pairs == sorted(pairs)


def test_what_is_not_held_has_no_pairs() -> None:
    """F1383a: Without an entry, on a foreign chain, or far beyond any feed nothing is noted."""
    found = reported(new(), 5, BEGIN)
    assert [each.sequence for each in advances(found.advances)] == [5]
    assert not reported(found, None, BEGIN).advances
    assert not reported(found, 2**31, BEGIN).advances
    assert not found.with_heartbeat(Heartbeat(6), BEGIN, relay="", equivocation=True).advances
    assert advances(found.advances + b"cut") == advances(found.advances)


def test_a_report_without_news_is_no_news() -> None:
    """FLEET-4, F1384a: That it is not noted when an authorizer advanced makes no write."""
    old = replace(reported(new(), 5, BEGIN), advances=b"")
    again = reported(old, 5, BEGIN + timedelta(seconds=60))
    assert not again.says_more_than(old)
    assert [each.is_upper_bound for each in advances(again.advances)] == [True]


def test_a_curve_of_a_large_fleet() -> None:
    """FLEET-31, F1385a: A long curve has evenly chosen points, with the first and the last."""
    judged = [
        AuthorizerStatus(
            reported(new(), 9, BEGIN + timedelta(seconds=each)), EnforcementState.ENFORCED
        )
        for each in range(1000)
    ]
    found = curve(
        [*judged, AuthorizerStatus(new(), EnforcementState.UNKNOWN)],
        PublishedEntry(9, BEGIN, {}),
        BEGIN,
    )
    seconds = [each for each, _ in found.points]
    assert (len(seconds), seconds[0], seconds[-1]) == (CURVE_MAX, 0, 999)
    assert max(b - a for a, b in pairwise(seconds)) <= 6
