"""How often a list may be published out of turn (docs/adr/06)."""

from dataclasses import replace

import pytest

from shared.errors import RateLimited, Unavailable
from shared.model.lists.head import head_address
from shared.operations.changes import srl
from shared.operations.lists import in_force, publication
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.api import Tenant, serve
from tests.kit.worlds import Clock
from tests.web.outages import down

REGENERATE = "/v1/revocations/srl/regenerate"
LONGEST = 5_000_000


def lengthen(tenant: Tenant, count: int) -> None:
    """Let the list in force say that it has so many warrants."""
    head = in_force.read_srl_head(tenant.ports, tenant.id)
    item = replace(head, count=count).to_item()
    tenant.ports.store.write(Put(head_address(tenant.id), item, Expect.PRESENT))


def taken(tenant: Tenant) -> int:
    """How many publications are allowed at this moment; they are all taken."""
    for times in range(1000):
        try:
            srl.take(tenant.ports, tenant.operator)
        except RateLimited:
            return times
    pytest.fail("there is no limit")


@pytest.mark.parametrize(
    ("count", "at_once", "a_second"),
    [(0, 50, 25), (10_000, 33, 16), (100_000, 8, 4), (1_000_000, 1, 0), (LONGEST, 1, 0)],
)
def test_a_tenant_publishes_out_of_turn_so_often(
    tenant: Tenant, clock: Clock, count: int, at_once: int, a_second: int
) -> None:
    """F124a: The allowance limits regenerations by the length of the list."""
    lengthen(tenant, count)
    assert taken(tenant) == at_once
    clock.advance(seconds=1)
    # What a publication leaves over is not lost.
    assert a_second <= taken(tenant) <= a_second + 1
    clock.advance(seconds=2)
    assert 2 * a_second <= taken(tenant) <= 2 * a_second + 1


def test_a_refusal_says_when_to_come_again(tenant: Tenant, clock: Clock) -> None:
    """SRL-14, F124b: A refused regeneration answers 429, publishes nothing and uses nothing up."""
    lengthen(tenant, LONGEST)
    srl.take(tenant.ports, tenant.operator)
    for _ in range(4):
        answer = tenant.admin.post(REGENERATE)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
        assert answer.json()["error"]["code"] == "rate_limited"
        clock.advance(seconds=0.5)
    assert tenant.admin.post(REGENERATE).json()["version"] == 2


def test_a_clock_that_was_ahead_keeps_nobody_from_publishing(tenant: Tenant, clock: Clock) -> None:
    """F124: what was taken ten minutes from now says nothing of what is left now."""
    clock.advance(seconds=600)
    assert taken(tenant)
    clock.advance(seconds=-600)
    assert tenant.admin.post(REGENERATE).status_code == 200


def test_the_allowance_is_the_tenants_own(tenant: Tenant, other_tenant: Tenant) -> None:
    """F124c: What one tenant uses up is no other's, no other request's, and not the schedule's.

    A key that may not publish takes nothing from those that may.
    """
    lengthen(tenant, LONGEST)
    for _ in range(3):
        assert tenant.authorizer.post(REGENERATE).status_code == 403
    assert taken(tenant) == 1
    assert tenant.admin.post(REGENERATE).status_code == 429
    assert other_tenant.admin.post(REGENERATE).status_code == 200
    answer = tenant.admin.get("/v1/tenant/settings")
    assert int(answer.headers["x-ratelimit-remaining"]) > 900
    tenant.revoke("svc_wrt_a")
    assert publication.publish_due(tenant.ports).published == [tenant.id]
    assert in_force.read_srl_head(tenant.ports, tenant.id).count == 1


def test_a_list_is_published_if_the_allowance_cannot_be_read(
    ports: Ports, caplog: pytest.LogCaptureFixture
) -> None:
    """F124: a fault of the buckets stops no publication, as it stops no request."""
    without = replace(ports, buckets=down(Unavailable("no table")))
    tenant = Tenant(ports, serve(without), handle="acme")
    assert tenant.admin.post(REGENERATE).status_code == 200
    assert "admitting the request without it" in caplog.text
