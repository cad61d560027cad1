"""The buckets of callers without a valid key, in the memory of one instance."""

from itertools import count

import pytest

from shared.errors import RateLimited
from shared.model.rate_limit import RateLimitHeaders
from shared.web.strangers import AnonymousLimiter
from tests.kit.worlds import Clock

RATE, BURST = 1000, 2000
ADDRESS = "203.0.113.1"


@pytest.fixture
def limiter(clock: Clock) -> AnonymousLimiter:
    return AnonymousLimiter(clock)


def drain(limiter: AnonymousLimiter) -> int:
    """How many requests an address may make at once."""
    for admitted in count():
        if limiter.look(ADDRESS).remaining:
            limiter.take(ADDRESS)
            continue
        with pytest.raises(RateLimited) as caught:
            limiter.take(ADDRESS)
        assert caught.value.retry_after == 1
        return admitted
    raise AssertionError


def test_an_address_has_a_burst_and_then_a_rate(limiter: AnonymousLimiter, clock: Clock) -> None:
    """F32: 2000 at once, then one a millisecond, and never more than 2000 saved up."""
    admitted = [drain(limiter)]
    for milliseconds in (0.999, 0.001, 500, 2000, 10_000_000):
        clock.advance(milliseconds=milliseconds)
        admitted.append(drain(limiter))
    assert admitted == [BURST, 0, 1, 500, BURST, BURST]


def test_a_refused_request_takes_nothing(limiter: AnonymousLimiter, clock: Clock) -> None:
    """F32: to go on asking does not put off the moment at which there are tokens again."""
    drain(limiter)
    for _ in range(100):
        assert drain(limiter) == 0
    assert limiter.look(ADDRESS) == RateLimitHeaders(0, int(clock().timestamp()) + 2)
    clock.advance(milliseconds=1)
    assert drain(limiter) == 1


@pytest.mark.parametrize("taken", [1, BURST])
def test_a_clock_that_steps_back_shuts_nobody_out(
    limiter: AnonymousLimiter, clock: Clock, taken: int
) -> None:
    """F09: after the clock stepped back an address has its rate again, and no more than that."""
    for _ in range(taken):
        limiter.take(ADDRESS)
    clock.advance(minutes=-10)
    assert drain(limiter) == 0
    clock.advance(seconds=1)
    assert drain(limiter) == RATE


def test_the_address_longest_unused_is_forgotten(limiter: AnonymousLimiter) -> None:
    """S6: The addresses of anonymous callers take bounded memory, and the last stays known."""
    drain(limiter)
    for number in range(25_000):
        limiter.take(f"2001:db8::{number:x}")
        if number % 5000 == 0:
            assert drain(limiter) == 0
    assert len(limiter._full_at) <= 10_000
    for _ in range(BURST):
        limiter.take("2001:db8::1:0")
    with pytest.raises(RateLimited):
        limiter.take("2001:db8::1:0")
