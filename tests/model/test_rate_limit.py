"""A token bucket, at the edges of its microseconds, and whatever is taken and the clock does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.model.rate_limit import (
    BURST,
    INTERVAL,
    RATE_PER_SECOND,
    SECOND,
    Bucket,
    RateLimitHeaders,
)

NOW = 1_795_262_400 * SECOND
MOMENTS = st.integers(NOW - 3600 * SECOND, NOW + 3600 * SECOND)
STEPS = st.lists(
    st.tuples(st.integers(0, 3 * SECOND), st.integers(1, 2500)), min_size=1, max_size=30
)


def test_the_limit_is_the_contracts() -> None:
    """1000 requests a second, 2000 at once: a token a millisecond."""
    assert (RATE_PER_SECOND, BURST, INTERVAL) == (1000, 2000, 1000)


def test_a_token_counts_once_it_is_whole() -> None:
    """F32: a part of a token is none; there is never more than the burst nor less than nothing."""
    empty = 2 * SECOND
    for wait, tokens in [
        *((-10 * SECOND, BURST), (-1, BURST), (0, BURST), (1, BURST - 1), (INTERVAL, BURST - 1)),
        *((INTERVAL + 1, BURST - 2), (empty - INTERVAL, 1), (empty - INTERVAL + 1, 0)),
        *((empty, 0), (empty + 1, 0), (600 * SECOND, 0)),
    ]:
        assert Bucket(NOW + wait, NOW).tokens == tokens, wait


def test_what_is_taken_comes_back_from_now_on() -> None:
    """F32: the time for which a bucket was full is not saved up."""
    assert Bucket(NOW - 100 * SECOND, NOW).take(3) == Bucket(NOW + 3 * INTERVAL, NOW)
    assert Bucket(NOW + 5, NOW).take(3) == Bucket(NOW + 5 + 3 * INTERVAL, NOW)


@pytest.mark.parametrize(
    ("wait", "leased", "remaining", "reset"),
    [
        (-SECOND, 0, 1000, 0),
        (0, 0, 1000, 0),
        (1, 0, 1000, 1),
        (SECOND, 0, 1000, 1),
        (SECOND + 1, 0, 999, 2),
        (SECOND + 1, 1, 1000, 2),
        (2 * SECOND, 0, 0, 2),
        (2 * SECOND, 9, 9, 2),
        (600 * SECOND, 0, 0, 600),
    ],
)
def test_the_figures(wait: int, leased: int, remaining: int, reset: int) -> None:
    """What is left, in hand too, up to the limit, and the second of a full bucket."""
    figures = RateLimitHeaders.of(Bucket(NOW + wait, NOW), lease=leased)
    assert figures == RateLimitHeaders(remaining, NOW // SECOND + reset)


@given(MOMENTS, MOMENTS)
def test_tokens_stay_within_bounds(full_at: int, now: int) -> None:
    """F09: whatever the clock does, there are 0 to 2000 tokens, and Remaining is 0 to 1000."""
    bucket = Bucket(full_at, now)
    assert 0 <= bucket.tokens <= BURST
    figures = RateLimitHeaders.of(bucket)
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
