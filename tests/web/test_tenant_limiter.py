"""The tenants' limiter in one instance: what it leases, remembers, tells and survives."""

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pytest

from shared.errors import RateLimited, Unavailable
from shared.model.rate_limit import BucketPurpose, BucketUser
from shared.ports import Ports
from shared.ports.token_buckets import Lease, TokenBuckets
from shared.web.rate_limit import TenantLimiter
from shared.web.work import result_of
from tests.kit.api import Tenant
from tests.kit.worlds import Clock

RATE, BURST = 1000, 2000
ADMIN = BucketUser("acme", BucketPurpose.REQUESTS, None)
SECOND = 1_000_000
LOGGER = "shared.web.rate_limit"


@dataclass
class Watched:
    """`TokenBuckets` that keep what they are asked for, and fail while `error` is set."""

    buckets: TokenBuckets
    error: Unavailable | None = None
    asked: list[int] = field(default_factory=list)

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0, least: int = 1) -> Lease:
        self.asked.append(tokens)
        if self.error:
            raise self.error
        return self.buckets.lease(name, tokens, now=now, reserve=reserve, least=least)


@pytest.fixture
def buckets(ports: Ports) -> Watched:
    return Watched(ports.buckets)


@pytest.fixture
def limiter(ports: Ports, buckets: Watched) -> TenantLimiter:
    watched = replace(ports, buckets=buckets)
    return TenantLimiter(lambda: watched)


def microseconds(clock: Clock) -> int:
    return round(clock().timestamp() * SECOND)


def seconds(clock: Clock) -> int:
    return int(clock().timestamp())


def empty(ports: Ports, clock: Clock, name: str = "acme") -> None:
    """Another instance takes all that there is."""
    ports.buckets.lease(name, BURST, now=microseconds(clock))


def take(limiter: TenantLimiter, times: int = 1, holder: BucketUser = ADMIN) -> int:
    """How many of as many requests of the holder were admitted."""
    admitted = 0
    for _ in range(times):
        with suppress(RateLimited):
            result_of(limiter.take(holder))
            admitted += 1
    return admitted


# --- leases ---


def test_leases_follow_the_rate_of_the_instance(limiter: TenantLimiter, buckets: Watched) -> None:
    """F32: an instance begins with one token, and asks for more at a time as it is used more."""
    assert take(limiter, 300) == 300
    assert buckets.asked[:6] == [1, 2, 4, 8, 16, 32]
    assert len(buckets.asked) < 15


def test_a_quiet_instance_leases_what_it_uses(
    limiter: TenantLimiter, buckets: Watched, clock: Clock
) -> None:
    """F32: an instance that fell silent for a while begins with one token again."""
    take(limiter, 300)
    clock.advance(seconds=2)
    buckets.asked.clear()
    for _ in range(5):
        take(limiter)
        clock.advance(seconds=1)
    assert buckets.asked == [1] * 5


def test_a_token_is_used_within_a_second_or_lapses(
    limiter: TenantLimiter, buckets: Watched, clock: Clock
) -> None:
    """F32: tokens that were leased and not used are good for a second, and then for nothing."""
    take(limiter, 100)
    held = sum(buckets.asked) - 100
    assert held > 2
    writes = len(buckets.asked)
    clock.advance(microseconds=SECOND - 1)
    take(limiter)
    assert len(buckets.asked) == writes
    clock.advance(microseconds=1)
    take(limiter)
    assert len(buckets.asked) == writes + 1


# --- refusals ---


def test_a_refusal_is_remembered_without_writing(
    limiter: TenantLimiter, buckets: Watched, ports: Ports, clock: Clock
) -> None:
    """F32: for a tenth of a second after a refusal nobody is admitted and nothing is asked."""
    empty(ports, clock)
    assert take(limiter) == 0
    clock.advance(microseconds=SECOND // 10 - 1)
    assert take(limiter, 1000) == 0
    assert len(buckets.asked) == 1
    clock.advance(microseconds=SECOND * 3 // 10 + 1)
    assert take(limiter) == 1


# --- figures ---


def test_the_figures_of_one_instance_are_exact(limiter: TenantLimiter, clock: Clock) -> None:
    """Remaining counts leased tokens too, up to the limit; Reset is when all are back."""
    seen = []
    for _ in range(BURST):
        result_of(limiter.take(ADMIN))
        seen.append(limiter.look(ADMIN))
    assert [each.remaining for each in seen] == [*[RATE] * RATE, *range(RATE - 1, -1, -1)]
    assert (seen[0].reset, seen[-1].reset) == (seconds(clock) + 1, seconds(clock) + 2)


# --- failures ---


def test_buckets_that_fail_are_asked_once_a_second(
    limiter: TenantLimiter, buckets: Watched, clock: Clock
) -> None:
    """F22: an outage does not cost every request the time that it takes to notice it."""
    buckets.error = Unavailable("throttled")
    for _ in range(30):
        take(limiter, 10)
        clock.advance(milliseconds=100)
    assert len(buckets.asked) == 3
    buckets.error = None
    assert take(limiter, BURST + 50) == BURST


def test_a_clock_that_steps_back_forgets_refusals(
    limiter: TenantLimiter, ports: Ports, clock: Clock
) -> None:
    """F09: what was refused at a later moment is asked again at an earlier one."""
    clock.advance(minutes=10)
    empty(ports, clock, "globex")
    with pytest.raises(RateLimited):
        result_of(limiter.take(ADMIN._replace(tenant_id="globex")))
    clock.advance(minutes=-10)
    result_of(limiter.take(ADMIN._replace(tenant_id="globex")))


def test_a_bucket_ahead_of_the_clock_refuses_nobody(
    limiter: TenantLimiter, ports: Ports, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """F09: a bucket that was written by a clock far ahead says nothing; that is logged."""
    clock.advance(minutes=10)
    empty(ports, clock)
    clock.advance(minutes=-10)
    assert take(limiter, 100) == 100
    assert len([record for record in caplog.records if record.name == LOGGER]) == 1


@pytest.mark.parametrize("ahead", [{"hours": 6}, {"days": 365}], ids=str)
def test_one_request_under_a_fast_clock_does_not_end_the_limit(
    limiter: TenantLimiter,
    ports: Ports,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    ahead: dict[str, float],
) -> None:
    """F81b: Once a clock that was ahead is right again, the rate limit applies."""
    clock.advance(**ahead)
    assert take(limiter, 3) == 3
    clock.advance(**{unit: -by for unit, by in ahead.items()})
    # It may use up what it leased, and then begins the bucket anew.
    assert BURST <= take(limiter, 2 * BURST) <= BURST + 4
    assert take(TenantLimiter(lambda: ports), 100) == 0
    records = [record for record in caplog.records if record.name == LOGGER]
    assert [record.levelno for record in records] == [logging.ERROR]


@pytest.mark.parametrize("ahead", [0.001, 1, 8])
def test_a_bucket_a_little_ahead_of_the_clock_counts(
    limiter: TenantLimiter, ports: Ports, clock: Clock, ahead: float
) -> None:
    """F32: clocks that disagree by seconds let nobody through an empty bucket."""
    clock.advance(seconds=ahead)
    empty(ports, clock)
    clock.advance(seconds=-ahead)
    assert take(limiter, 100) == 0


@pytest.mark.slow
def test_tenants_take_bounded_memory(
    limiter: TenantLimiter, buckets: Watched, ports: Ports, clock: Clock
) -> None:
    """However many tenants come, the one longest unseen is forgotten, and none is let in by it."""
    empty(ports, clock)
    for number in range(10_500):
        result_of(limiter.take(ADMIN._replace(tenant_id=f"t{number}")))
    assert len(limiter._buckets) <= 10_000
    seen = {tenant_id for tenant_id, _, _ in limiter._buckets}
    assert {"t10499", "t500"} <= seen
    assert "t499" not in seen
    assert take(limiter) == 0


# --- at the gate ---


@pytest.mark.slow
def test_a_flood_by_another_key_leaves_the_admin_able_to_act(tenant: Tenant, clock: Clock) -> None:
    """AUTH-8, F82a: A flood by another key does not stop the administrator from revoking.

    Each request of the flood comes to an instance that was just started.
    """
    empty(tenant.ports, clock, tenant.id)
    clock.advance(milliseconds=300)
    admitted, flood = 0, BucketUser(tenant.id, BucketPurpose.REQUESTS, "k")
    for step in range(300):
        for _ in range(3):
            with suppress(RateLimited):
                result_of(TenantLimiter(lambda: tenant.ports).take(flood))
                admitted += 1
        revoked = tenant.admin.post(
            "/v1/revocations", json={"warrant_id": f"svc_wrt_{step}", "reason": "leaked"}
        )
        assert revoked.status_code == 201
        clock.advance(milliseconds=2)
    assert 300 < admitted < 900


# --- the share of a key (AUTH-15) ---

THIEF, HONEST = (ADMIN._replace(key_id=each) for each in ("thief", "honest"))


def test_a_key_takes_no_more_than_its_share_at_once(limiter: TenantLimiter) -> None:
    """AUTH-15, F562a: One key takes half of a full bucket and half of the rest; others go on."""
    assert 1450 <= take(limiter, 5 * BURST, THIEF) <= 1500
    assert take(limiter, 250, HONEST) == 250
    assert take(limiter, 1, ADMIN) == 1


@pytest.mark.slow
@pytest.mark.parametrize("instances", [1, 4])
def test_one_key_does_not_lock_out_the_others(ports: Ports, clock: Clock, instances: int) -> None:
    """AUTH-15, F562b: While one key floods each instance, another has half of the rate."""
    limiters = [TenantLimiter(lambda: ports) for _ in range(instances)]
    for limiter in limiters:
        take(limiter, 3000, THIEF)
    taken = {THIEF: 0, HONEST: 0}
    for step in range(500):
        clock.advance(milliseconds=10)
        for limiter in limiters:
            taken[THIEF] += take(limiter, 20, THIEF)
        taken[HONEST] += take(limiters[step % instances], 3, HONEST)
    # In five seconds the bucket gains 5,000 tokens; the other key asks for 1,500 of them.
    assert taken[HONEST] >= 1450
    assert sum(taken.values()) <= 5000 + BURST


def test_a_key_that_is_alone_has_the_whole_rate(limiter: TenantLimiter, clock: Clock) -> None:
    """AUTH-15, F562c: A fleet that shares one key has the whole rate, if nobody else asks."""
    take(limiter, 3000, THIEF)
    clock.advance(seconds=1)
    admitted = 0
    for _ in range(500):
        clock.advance(milliseconds=10)
        admitted += take(limiter, 9, THIEF)
    assert admitted >= 0.95 * 500 * 9


def test_the_share_of_a_key_is_open_if_its_clock_is_wrong(
    limiter: TenantLimiter, ports: Ports, clock: Clock
) -> None:
    """AUTH-10: A bucket of a key that a clock ahead has written refuses nobody."""
    ahead = microseconds(clock) + 60 * SECOND
    ports.buckets.lease(THIEF.own_bucket, 5, now=ahead)
    ports.buckets.lease(THIEF.bucket, 1200, now=microseconds(clock))
    assert take(limiter, 100, THIEF) == 100
