"""What requests cost beyond the token that the gate takes (AUTH-14)."""

import re
from typing import Any

import pytest

from functions.authorizers.records import registered_address
from infra.server.routers import ROUTERS
from shared.model.callers import Scope
from shared.model.rate_limit import BURST, HALF, BucketPurpose, microseconds
from shared.ports.store import Expect, Increment
from shared.web.costs import COSTS, USUAL
from shared.web.routes import ApiRoute
from tests.kit.api import Client, Tenant
from tests.kit.processes import ROOT
from tests.kit.worlds import Clock

_IDS = [f"svc_wrt_{number}" for number in range(1000)]
_REPORTS = [{"id": f"svc_azr_{number:026d}"} for number in range(100)]
_EVENT = {"signature": "AA==", "signing_payload": "AA=="}
_STOCK = "/compat/tenuo/v1/authorizers/svc_azr_01kbm4xt3rfz8c5w7y2q9n6d1e/events"


def left(tenant: Tenant, clock: Clock, purpose: BucketPurpose = BucketPurpose.REQUESTS) -> int:
    """The tokens of the bucket, all of which are taken."""
    now = microseconds(clock())
    return tenant.ports.buckets.lease(purpose.bucket(tenant.id), BURST, now=now).granted


def spend(tenant: Tenant, clock: Clock, tokens: int) -> None:
    name, now = BucketPurpose.REQUESTS.bucket(tenant.id), microseconds(clock())
    tenant.ports.buckets.lease(name, tokens, now=now)


@pytest.mark.parametrize(
    ("method", "path", "body", "cost"),
    [
        ("GET", "/v1/revocations/check?warrant_id=svc_wrt_a", None, 0),
        ("POST", "/v1/revocations/check-batch", {"warrant_ids": _IDS[:24]}, 0),
        ("POST", "/v1/revocations/check-batch", {"warrant_ids": _IDS}, 40),
        ("POST", "/v1/authorizers/reports", {"relay": "r", "reports": _REPORTS}, 100),
        ("POST", _STOCK, [_EVENT] * 200, 20),
        ("POST", "/v1/revocations/batch", {"action": "unrevoke", "warrant_ids": _IDS}, 100),
        ("POST", "/v1/revocations/batch", {"action": "unrevoke", "revocation_ids": _IDS}, 100),
        ("GET", "/v1/revocations/counts", None, 1),
        ("GET", "/v1/revocations?limit=100", None, 5),
        ("GET", "/v1/revocations?limit=1", None, 0),
        ("GET", "/v1/revocations", None, 0),
        ("GET", "/v1/revocations?reason=lost&limit=60", None, 31),
        ("GET", "/v1/revocations?warrant_prefix=svc_wrt_a", None, 0),
        ("GET", "/v1/audit-logs?limit=100", None, 5),
        ("GET", "/v1/audit-logs/export", None, 250),
        ("GET", "/v1/audit-logs/export?actor=x&from=2017-01-01T00:00:00Z", None, 250),
        ("GET", "/v1/audit-logs", None, 0),
        ("GET", "/v1/audit-logs?warrant_id=svc_wrt_a&from=2000-01-01T00:00:00Z", None, 0),
        ("GET", "/v1/audit-logs?actor=x", None, 30),
        ("GET", "/v1/audit-logs?summary_id=x&action=key.sign&limit=100", None, 35),
        ("GET", "/v1/audit-logs?from=2024-11-21T00:00:00Z&to=2026-11-21T00:00:00Z", None, 12),
        ("GET", "/v1/audit-logs?from=0001-01-01T00:00:00Z", None, 60),
        ("GET", "/v1/audit-logs?from=2024-11-21", None, 0),
        ("GET", "/v1/audit-logs/svc_evt_01kbm4xt3rfz8c5w7y2q9n6d1e/proof", None, 5),
        ("GET", "/v1/audit-logs/tile/0/000", None, 0),
        ("DELETE", "/v1/authorizers?owner=svc_ak_01kbm4xt3rfz8c5w7y2q9n6d1e", None, 100),
        ("POST", "/v1/revocations/check-batch", {"warrant_ids": ["x" * 70_000]}, 4),
        ("GET", "/v1/revocations?limit=10000", None, 0),
        ("GET", "/v1/sessions?limit=60", None, 11),
        ("GET", "/v1/approvals?status=pending", None, 10),
        ("GET", "/v1/keys?status=active", None, 30),
        ("GET", "/v1/keys", None, 0),
    ],
    ids=str,
)
def test_what_costs_more_takes_more(
    tenant: Tenant, clock: Clock, method: str, path: str, body: Any, cost: int
) -> None:
    """AUTH-14, F563a: A request takes as many tokens as what it costs, and not one for all."""
    clock.advance(seconds=10)
    options = {} if body is None else {"json": body}
    tenant.admin.request(method, path, **options)
    purpose = (
        BucketPurpose.HEARTBEATS
        if "reports" in path or "events" in path
        else BucketPurpose.REQUESTS
    )
    # An instance leases eight tokens, or a few more, at a time.
    assert 1 + cost <= BURST - left(tenant, clock, purpose) <= 9 + cost


def test_a_proof_costs_by_the_fleet(tenant: Tenant, clock: Clock) -> None:
    """AUTH-14, F563b: A proof of propagation costs by the authorizers that it reads."""
    revocation = tenant.revoke("svc_wrt_a")
    numbers = {"count": 3000, "polling": 0, "version": 1}
    tenant.ports.store.write(Increment(registered_address(tenant.id), numbers, Expect.ABSENT))
    clock.advance(seconds=10)
    answer = tenant.admin.get(f"/v1/revocations/{revocation}/propagation")
    assert answer.status_code == 200, answer.text
    assert 101 <= BURST - left(tenant, clock) <= 109


def test_a_request_that_costs_too_much_takes_nothing_more(tenant: Tenant, clock: Clock) -> None:
    """AUTH-14, F563c: Without enough tokens the answer is 429, says when, and changes nothing."""
    clock.advance(seconds=10)
    spend(tenant, clock, BURST - 60)
    body = {"action": "revoke", "reason": "r", "warrant_ids": _IDS}
    refused = tenant.admin.post("/v1/revocations/batch", json=body)
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
    assert refused.json()["error"]["code"] == "rate_limited"
    assert tenant.admin.get("/v1/revocations?limit=1").json()["total"] == 0
    clock.advance(milliseconds=100)
    assert tenant.admin.post("/v1/revocations/batch", json=body).status_code == 200


def test_a_key_has_its_share_of_costs_too(tenant: Tenant, clock: Clock) -> None:
    """AUTH-15, F563d: Higher costs count against the share of the key, and no other key's."""
    thief, honest = (tenant.client(Scope.REVOKER) for _ in range(2))
    clock.advance(seconds=10)
    spend(tenant, clock, BURST - HALF)

    def batch(client: Client) -> int:
        body = {"action": "revoke", "reason": "r", "warrant_ids": _IDS, "dry_run": True}
        return int(client.post("/v1/revocations/batch", json=body).status_code)

    statuses = [batch(thief) for _ in range(8)]
    assert statuses[:4] == [200] * 4
    assert statuses[-1] == 429
    assert batch(honest) == 200


def test_the_table_of_costs_is_that_of_the_specification() -> None:
    """AUTH-14: The specification has each endpoint that costs more, and no other."""
    every = (route for router in ROUTERS for route in router.routes)
    routes = [route for route in every if isinstance(route, ApiRoute)]
    assert {route.name for route in routes} > COSTS.keys()
    page = (ROOT / "docs" / "spec" / "access.md").read_text(encoding="utf-8")
    clause = page.partition("### AUTH-14")[2].partition("### AUTH-15")[0]
    named = set(re.findall(r"^\| `(\w+) (/\S+)` \|", clause, re.MULTILINE))
    assert named == {
        (method, route.path)
        for route in routes
        if route.cost != USUAL
        for method in route.methods or ()
    }
