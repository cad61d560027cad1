"""The rate limit: 1000 requests a second, 2000 at once, for a tenant or an address."""

from collections import Counter

import pytest

from shared.model.callers import Scope
from tests.kit.api import Client, Tenant, serve
from tests.kit.asgi import Answer, bearer, exchange, run, send
from tests.kit.worlds import Clock, embedded

BURST, RATE = 2000, 1000

# The share of what is allowed that a limiter over several instances must admit (F32).
LEAST = 0.95

# Passes the gate at the least cost; no route is there.
PATH = "/nowhere"


def many(
    client: Client, count: int, *, peer: str | None = "203.0.113.1", **headers: str
) -> Counter[int]:
    """How often each status came back for as many requests."""
    sent = [*(bearer(client.secret) if client.secret else []), *headers.items()]

    async def burst() -> Counter[int]:
        app = client.http.app
        answers = [await exchange(app, "GET", PATH, headers=sent, peer=peer) for _ in range(count)]
        return Counter(answer.status_code for answer in answers)

    return run(burst())


def one(client: Client, *, peer: str = "203.0.113.1", **headers: str) -> Answer:
    sent = [*(bearer(client.secret) if client.secret else []), *headers.items()]
    return send(client.http.app, "GET", PATH, headers=sent, peer=peer)


def figures(answer: Answer) -> tuple[int, int, int]:
    names = ("limit", "remaining", "reset")
    limit, remaining, reset = (int(answer.headers[f"x-ratelimit-{name}"]) for name in names)
    return limit, remaining, reset


def seconds(clock: Clock) -> int:
    return int(clock().timestamp())


# --- a tenant ---


@pytest.fixture(scope="module")
def drained(tmp_path_factory: pytest.TempPathFactory) -> Tenant:
    """A tenant whose bucket is empty, at a clock that stands still; so is its address's."""
    clock = Clock()
    ports = embedded(tmp_path_factory.mktemp("drained"), clock)
    tenant = Tenant(ports, serve(ports), handle="acme")
    ports.buckets.lease(tenant.id, BURST, now=round(clock().timestamp() * 1_000_000))
    assert many(tenant.anonymous, BURST + 50) == {401: BURST, 429: 50}
    return tenant


@pytest.mark.slow
def test_a_burst_ends_in_429(tenant: Tenant) -> None:
    """AUTH-6: After a burst of 2000 requests the next one gets 429 with `Retry-After`."""
    admitted = many(tenant.admin, BURST + 50)
    assert LEAST * BURST <= admitted[404] <= BURST
    assert admitted[429] == BURST + 50 - admitted[404]
    answer = one(tenant.admin)
    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == "rate_limited"
    assert int(answer.headers["retry-after"]) >= 1
    assert figures(answer)[0] == RATE
    assert figures(answer)[1] <= (1 - LEAST) * BURST


def test_a_key_has_no_bucket_of_its_own(drained: Tenant) -> None:
    """AUTH-6: All keys of a tenant share one rate limit, and a new key does not extend it."""
    fresh = drained.client(Scope.ADMIN)
    for client in (drained.read_only, drained.authorizer, fresh):
        assert one(client).status_code == 429


def test_each_tenant_has_its_own(drained: Tenant) -> None:
    """S2: The load of one tenant takes nothing from the rate limit of another."""
    other = Tenant(drained.ports, drained.admin.http, handle="globex")
    assert one(other.admin).status_code == 404


def test_the_limit_comes_before_scope_and_route(drained: Tenant) -> None:
    """API-6: The service checks the API key, then the rate limit, then scope and route."""
    for method, path in (("GET", "/v1/api-keys"), ("PUT", "/v1/api-keys"), ("GET", PATH)):
        assert drained.authorizer.request(method, path).status_code == 429
    assert one(drained.holding("svc_" + "A" * 43), peer="198.51.100.7").status_code == 401


def test_the_figures_of_a_full_bucket(tenant: Tenant, clock: Clock) -> None:
    """AUTH-7: `Limit`, `Remaining` and `Reset` describe the bucket as the contract says."""
    assert figures(one(tenant.admin)) == (RATE, RATE, seconds(clock) + 1)
    clock.advance(seconds=10)
    assert figures(one(tenant.admin)) == (RATE, RATE, seconds(clock) + 1)


# --- anonymous callers ---


def test_anonymous_callers_are_limited_by_address(drained: Tenant) -> None:
    """AUTH-9: Requests without a valid key are limited by the address of the caller."""
    answer = one(drained.anonymous)
    assert answer.status_code == 429
    assert answer.json()["error"]["code"] == "rate_limited"
    assert "www-authenticate" not in answer.headers
    assert int(answer.headers["retry-after"]) >= 1
    assert figures(answer)[:2] == (RATE, 0)
    assert one(drained.anonymous, peer="203.0.113.2").status_code == 401


def test_a_valid_key_is_served_from_any_address(drained: Tenant) -> None:
    """A tenant behind the address of a flood is served."""
    other = Tenant(drained.ports, drained.admin.http, handle="initech")
    assert one(other.admin).status_code == 404
