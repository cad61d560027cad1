"""The arithmetic of a token bucket, at the edges of its microseconds."""

import pytest

from shared.model.rate_limit import BURST, INTERVAL, RATE_PER_SECOND, SECOND, Bucket, Figures

NOW = 1_795_262_400 * SECOND


def test_the_limit_is_the_contracts() -> None:
    """1000 requests a second, 2000 at once: a token a millisecond."""
    assert (RATE_PER_SECOND, BURST, INTERVAL) == (1000, 2000, 1000)


@pytest.mark.parametrize(
    ("wait", "tokens"),
    [
        (-10 * SECOND, BURST),
        (-1, BURST),
        (0, BURST),
        (1, BURST - 1),
        (INTERVAL, BURST - 1),
        (INTERVAL + 1, BURST - 2),
        (2 * SECOND - INTERVAL, 1),
        (2 * SECOND - INTERVAL + 1, 0),
        (2 * SECOND, 0),
        (2 * SECOND + 1, 0),
        (600 * SECOND, 0),
    ],
)
def test_a_token_counts_once_it_is_whole(wait: int, tokens: int) -> None:
    """F32: a part of a token is none; there is never more than the burst nor less than nothing."""
    assert Bucket(NOW + wait, NOW).tokens == tokens


@pytest.mark.parametrize("wait", [-SECOND, 0, 1, SECOND])
@pytest.mark.parametrize("tokens", [1, 7, 900])
def test_what_is_taken_is_gone(wait: int, tokens: int) -> None:
    """F32: taking leaves as many fewer as were taken, and the time of the bucket stands still."""
    bucket = Bucket(NOW + wait, NOW)
    taken = bucket.take(tokens)
    assert taken.tokens == bucket.tokens - tokens
    assert taken.now == NOW


def test_a_full_bucket_begins_now() -> None:
    """F32: the time for which a bucket was full is not saved up."""
    assert Bucket(NOW - 100 * SECOND, NOW).take(3) == Bucket(NOW + 3 * INTERVAL, NOW)
    assert Bucket(NOW + 5, NOW).take(3) == Bucket(NOW + 5 + 3 * INTERVAL, NOW)


@pytest.mark.parametrize(
    ("wait", "leased", "remaining"),
    [
        (0, 0, 1000),
        (SECOND, 0, 1000),
        (SECOND + 1, 0, 999),
        (SECOND + 1, 1, 1000),
        (2 * SECOND, 0, 0),
        (2 * SECOND, 9, 9),
        (600 * SECOND, 0, 0),
    ],
)
def test_remaining_is_what_is_left_up_to_the_limit(wait: int, leased: int, remaining: int) -> None:
    """The figure counts tokens in the bucket and in hand, from 0 to the limit."""
    assert Figures.of(Bucket(NOW + wait, NOW), leased=leased).remaining == remaining


@pytest.mark.parametrize(
    ("wait", "reset"), [(-SECOND, 0), (0, 0), (1, 1), (SECOND, 1), (SECOND + 1, 2)]
)
def test_reset_is_the_second_by_which_the_bucket_is_full(wait: int, reset: int) -> None:
    """The figure is a Unix second, never before the bucket is full, never in the past."""
    assert Figures.of(Bucket(NOW + wait, NOW)).reset == NOW // SECOND + reset
