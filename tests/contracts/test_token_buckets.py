"""What all token buckets promise (`shared.ports.token_buckets.TokenBuckets`)."""

import random
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest

from shared.ports.token_buckets import Lease, TokenBuckets

BURST = 2000
SECOND = 1_000_000
INTERVAL = 1000
# In no way round: neither seconds nor milliseconds.
NOW = 1_795_262_400_123_457


def granted(buckets: TokenBuckets, tokens: int, *, now: int = NOW) -> int:
    return buckets.lease("t1", tokens, now=now).granted


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("tokens", [BURST, BURST + 1, 10 * BURST])
def test_no_lease_is_larger_than_the_burst(buckets: TokenBuckets, tokens: int, used: bool) -> None:
    """F32: a bucket that is new or full gives the whole burst, and no more, whatever is asked."""
    if used:
        granted(buckets, 1, now=NOW - SECOND)
    assert buckets.lease("t1", tokens, now=NOW) == Lease(BURST, NOW + 2 * SECOND)
    assert buckets.lease("t1", 1, now=NOW) == Lease(0, NOW + 2 * SECOND)


def test_full_at_is_right_to_the_microsecond(buckets: TokenBuckets) -> None:
    """A token puts it off by a millisecond, from where it was, or from now if it has passed."""
    steps = [
        (0, 3, 3 * INTERVAL),
        (1, 2, 5 * INTERVAL),
        (5 * INTERVAL - 1, 1, 6 * INTERVAL),
        (6 * INTERVAL, 1, 7 * INTERVAL),
        (7 * INTERVAL + 1, 1, 8 * INTERVAL + 1),
    ]
    for later, tokens, full_later in steps:
        assert buckets.lease("t1", tokens, now=NOW + later) == Lease(tokens, NOW + full_later)


def test_a_refused_lease_says_when_the_bucket_is_full(buckets: TokenBuckets) -> None:
    """A lease of nothing, or of less than was asked for, tells the same as any other."""
    granted(buckets, 1990)
    assert buckets.lease("t1", 20, now=NOW) == Lease(10, NOW + 2 * SECOND)
    assert buckets.lease("t1", 20, now=NOW + 999) == Lease(0, NOW + 2 * SECOND)
    assert buckets.lease("t1", 20, now=NOW + 1000) == Lease(1, NOW + 2 * SECOND + 1000)


def test_names_are_independent(buckets: TokenBuckets) -> None:
    """One tenant's bucket takes nothing from another's, however alike the names are."""
    granted(buckets, BURST)
    for name in ("t", "t11", "T1", "t1#", "t1#bucket"):
        assert buckets.lease(name, BURST, now=NOW).granted == BURST
    assert granted(buckets, 1) == 0


@pytest.mark.slow
@pytest.mark.parametrize("back", [1, SECOND, 600 * SECOND])
def test_a_clock_that_steps_back_grants_no_more(buckets: TokenBuckets, back: int) -> None:
    """F32: an empty bucket is empty at any earlier moment, and is not refilled by asking there."""
    granted(buckets, BURST)
    assert granted(buckets, 1, now=NOW - back) == 0
    assert granted(buckets, 1) == 0
    assert granted(buckets, 2, now=NOW + INTERVAL) == 1


@pytest.mark.parametrize("ahead", [6 * 3600 * SECOND, 365 * 24 * 3600 * SECOND])
def test_a_bucket_that_no_clock_can_have_filled_begins_anew(
    buckets: TokenBuckets, ahead: int
) -> None:
    """F81a: A rate limit bucket with a time far in the future begins anew."""
    granted(buckets, 1, now=NOW + ahead)
    assert buckets.lease("t1", 5, now=NOW) == Lease(5, NOW + 5 * INTERVAL, refilled=True)
    assert buckets.lease("t1", BURST, now=NOW) == Lease(BURST - 5, NOW + 2 * SECOND)


def test_a_reserve_stays_for_those_who_may_take_it(buckets: TokenBuckets) -> None:
    """F82: a lease that leaves a reserve takes no token of it, from a new bucket or a used one."""
    assert buckets.lease("t1", BURST, now=NOW, reserve=200).granted == 1800
    assert buckets.lease("t1", 1, now=NOW, reserve=200).granted == 0
    assert buckets.lease("t1", 10, now=NOW + 5 * INTERVAL, reserve=200).granted == 5
    assert buckets.lease("t1", 300, now=NOW + 5 * INTERVAL).granted == 200


@pytest.mark.slow_on("dynamodb")
def test_any_leases_are_those_of_a_plain_bucket(buckets: TokenBuckets) -> None:
    """F32: whatever is asked for, whenever: what a count of tokens that fills up would grant."""
    chance, now, left = random.Random(32), NOW, Fraction(BURST)
    for _ in range(300):
        later = chance.choice([0, 1, 999, 1000, 12_345, 700_000, 3_000_000])
        now, left = now + later, min(Fraction(BURST), left + Fraction(later, INTERVAL))
        tokens = chance.choice([1, 2, 50, 700, BURST, BURST + 1])
        expected = min(tokens, int(left))
        assert granted(buckets, tokens, now=now) == expected
        left -= expected


@pytest.mark.slow_on("dynamodb")
def test_clocks_that_disagree_grant_no_more(buckets: TokenBuckets) -> None:
    """F32: with moments in any order, no more is granted than up to the latest of them."""
    chance, total, latest = random.Random(9), granted(buckets, 1), NOW
    for _ in range(300):
        now = latest + chance.randint(-3 * SECOND, SECOND // 20)
        latest = max(latest, now)
        total += granted(buckets, chance.choice([1, 30, BURST]), now=now)
        assert total * INTERVAL <= BURST * INTERVAL + latest - NOW
    assert total > BURST


def test_threads_share_what_there_is(exact_buckets: TokenBuckets) -> None:
    """F32: threads that lease at once get every token once."""

    def drain(tokens: int) -> int:
        total = 0
        while leased := granted(exact_buckets, tokens):
            total += leased
        return total

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(drain, [7, 19, 23, 41] * 2)) == BURST
