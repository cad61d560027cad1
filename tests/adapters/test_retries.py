"""When an adapter tries again."""

from tests.adapters.answers import FakeTime


def test_pauses_are_jittered_and_bounded(fake_time: FakeTime) -> None:
    """F24: pauses are random, grow to a second at most, and none begins that the end would cut."""
    attempts = list(fake_time.patience(deadline_seconds=60).attempts())
    assert attempts == list(range(len(attempts)))
    assert len(fake_time.slept) == len(attempts) - 1
    assert len(set(fake_time.slept)) > 50
    assert max(fake_time.slept) < 1
    assert fake_time.slept[0] < 0.025
    assert 58 < sum(fake_time.slept) < 60


def test_time_spent_on_attempts_counts(fake_time: FakeTime) -> None:
    """F22: attempts that are slow themselves use up the deadline."""
    made = 0
    for _ in fake_time.patience(deadline_seconds=4).attempts():
        made += 1
        fake_time.seconds += 1.5
    assert made == 3
