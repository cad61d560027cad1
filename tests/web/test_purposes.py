"""From which of a tenant's buckets a request takes its token (AUTH-6, AUTH-11)."""

from dataclasses import dataclass, field, replace
from typing import Final

import pytest
from fastapi import Response

from infra.server.routers import ROUTERS
from shared.model.rate_limit import BURST, BucketPurpose, microseconds
from shared.operations.changes import srl
from shared.ports.token_buckets import Lease, TokenBuckets
from shared.web.app import create_app
from shared.web.routes import ApiRequest, router, serves
from tests.kit.api import Tenant
from tests.kit.asgi import bearer, send

FEED, CHECK = "/v1/revocations/feed", "/v1/revocations/check"
BASE: Final = f"{FEED}/base/1"

routes = router("Feed")


@routes.get(FEED)
@routes.get(f"{FEED}/base/{{version}}")
@serves(srl.current, purpose=BucketPurpose.FEED)
async def polled(here: ApiRequest, after: str = "") -> Response:
    """Any endpoint with the bucket of the feed."""
    here.run(srl.current)
    return Response(headers={"served-by": "feed", "after": after})


@routes.get(CHECK)
@serves(srl.current)
async def checked(here: ApiRequest, after: str = "") -> Response:
    """Any other endpoint."""
    here.run(srl.current)
    return Response(headers={"served-by": "check", "after": after})


@dataclass
class Asked:
    """`TokenBuckets` that keep which buckets were asked for tokens."""

    buckets: TokenBuckets
    names: list[str] = field(default_factory=list)

    def lease(self, name: str, tokens: int, *, now: int, reserve: int = 0, least: int = 1) -> Lease:
        self.names.append(name)
        return self.buckets.lease(name, tokens, now=now, reserve=reserve, least=least)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize(
    "target",
    [
        *(FEED, BASE, CHECK, f"{FEED}?after=1", f"{FEED}?after={CHECK}"),
        *("/v1/revocations/%66eed", "/v1/%72evocations/feed", f"{CHECK}?after={FEED}", "/feed"),
        *(f"/{FEED}", f"//x{FEED}", f"{FEED}/", f"{FEED}//", "/v1//revocations/feed", FEED.upper()),
        *(f"{FEED}%0a", f"{FEED}%2f", "/v1/revocations%2ffeed", f"{FEED}%00", f"{FEED}%3fafter=1"),
        *(f"{CHECK}/../feed", f"{FEED}/../check", f"{FEED};a=1", f"{FEED}/base/", f"{BASE}/1"),
        *(f"{FEED}/base/%2f", f"{FEED}/base%2f1", f"/stage{FEED}", f"{FEED}%20", "/v1/revocations"),
    ],
)
def test_who_is_served_by_the_feed_pays_there(tenant: Tenant, method: str, target: str) -> None:
    """AUTH-11, F211a: A request draws on the bucket of the feed only if the feed serves it."""
    asked = Asked(tenant.ports.buckets)
    ports = replace(tenant.ports, buckets=asked)
    app = create_app(routes, ports=lambda: ports)
    answer = send(app, method, target, headers=bearer(tenant.authorizer.secret))
    is_served = answer.headers.get("served-by") == "feed"
    assert asked.names == [f"{tenant.id}#feed" if is_served else tenant.id]
    assert answer.status_code in {200, 404, 405}


def test_the_endpoints_of_the_feed(tenant: Tenant) -> None:
    """AUTH-11, F211d: Polls and bases draw on the bucket of the feed, lists and checks do not."""
    asked = Asked(tenant.ports.buckets)
    ports = replace(tenant.ports, buckets=asked)
    app = create_app(*ROUTERS, ports=lambda: ports)
    for target in (FEED, BASE, "/v1/revocations/srl", f"{CHECK}?warrant_id=svc_wrt_a"):
        answer = send(app, "GET", target, headers=bearer(tenant.authorizer.secret))
        assert answer.status_code == 200
    # The second of each pair finds the token that its instance leased, or leases one.
    assert asked.names[0] == f"{tenant.id}#feed"
    assert asked.names[-1] == tenant.id
    assert set(asked.names) == {f"{tenant.id}#feed", tenant.id}
    assert asked.names == sorted(asked.names, reverse=True)


@pytest.mark.parametrize(("drained", "empty", "full"), [("#feed", FEED, CHECK), ("", CHECK, FEED)])
def test_neither_starves_the_other(tenant: Tenant, drained: str, empty: str, full: str) -> None:
    """AUTH-11, F211b: Polls of the feed and other requests cannot use up each other's tokens."""
    app = create_app(routes, ports=lambda: tenant.ports)
    now = microseconds(tenant.ports.now())
    tenant.ports.buckets.lease(f"{tenant.id}{drained}", BURST, now=now)
    key = bearer(tenant.authorizer.secret)
    refused, served = send(app, "GET", empty, headers=key), send(app, "GET", full, headers=key)
    assert (refused.status_code, served.status_code) == (429, 200)
    assert refused.headers["retry-after"] == "1"
    # The headers are those of the bucket of the request.
    assert refused.headers["x-ratelimit-remaining"] == "0"
    assert served.headers["x-ratelimit-remaining"] == "1000"
    assert int(refused.headers["x-ratelimit-reset"]) > int(served.headers["x-ratelimit-reset"])


def test_polls_are_bounded(tenant: Tenant) -> None:
    """AUTH-11, F211c: A key without the scope admin gets 1,800 polls at once, and then 429."""
    app = create_app(routes, ports=lambda: tenant.ports)
    key = bearer(tenant.authorizer.secret)
    # Another instance has admitted all but two of them.
    name, now = f"{tenant.id}#feed", microseconds(tenant.ports.now())
    assert tenant.ports.buckets.lease(name, 1798, now=now, reserve=200).granted == 1798
    statuses = [send(app, "GET", FEED, headers=key).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    assert send(app, "GET", FEED, headers=bearer(tenant.admin.secret)).status_code == 200
