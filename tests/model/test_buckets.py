"""What is true of a token bucket whatever is taken, and whatever the clock does."""

from hypothesis import given
from hypothesis import strategies as st

from shared.model.rate_limit import BURST, INTERVAL, RATE_PER_SECOND, SECOND, Bucket, Figures

NOW = 1_795_262_400 * SECOND
MOMENTS = st.integers(NOW - 3600 * SECOND, NOW + 3600 * SECOND)
STEPS = st.lists(
    st.tuples(st.integers(0, 3 * SECOND), st.integers(1, 2500)), min_size=1, max_size=30
)


def test_the_figures_are_those_of_the_contract() -> None:
    """A bucket gives 1000 tokens a second, and at most 2000 at once (AUTH-6)."""
    assert (RATE_PER_SECOND, BURST) == (1000, 2000)
    assert INTERVAL * RATE_PER_SECOND == SECOND


@given(MOMENTS, MOMENTS)
def test_tokens_stay_within_bounds(full_at: int, now: int) -> None:
    """F09: whatever the clock does, there are 0 to 2000 tokens, and Remaining is 0 to 1000."""
    bucket = Bucket(full_at, now)
    assert 0 <= bucket.tokens <= BURST
    figures = Figures.of(bucket)
    assert figures.remaining == min(bucket.tokens, RATE_PER_SECOND)
    assert figures.reset * SECOND >= max(full_at, now) > (figures.reset - 1) * SECOND


@given(STEPS)
def test_no_more_is_taken_than_the_rate_allows(steps: list[tuple[int, int]]) -> None:
    """F32: over any time no more is taken than rate times time and the burst, but all of that."""
    bucket, taken = Bucket(NOW, NOW), 0
    for wait, wanted in steps:
        bucket = Bucket(bucket.full_at, bucket.now + wait)
        granted = min(wanted, bucket.tokens)
        bucket = bucket.take(granted) if granted else bucket
        taken += granted
        assert taken <= (bucket.now - NOW) * RATE_PER_SECOND / SECOND + BURST
        assert granted == wanted or bucket.tokens == 0


@given(st.integers(1, BURST))
def test_a_token_comes_back_each_interval(taken: int) -> None:
    """What was taken is back after as many intervals, and not a microsecond before."""
    bucket = Bucket(NOW, NOW).take(taken)
    assert Bucket(bucket.full_at, NOW + taken * INTERVAL).tokens == BURST
    assert Bucket(bucket.full_at, NOW + taken * INTERVAL - 1).tokens == BURST - 1
    assert bucket.full_at == NOW + taken * INTERVAL
