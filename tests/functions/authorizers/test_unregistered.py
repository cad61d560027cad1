"""Clients whose registration is refused: who reads of them, how many are stored (FLEET-34)."""

from typing import Any

import pytest

from functions.authorizers.unregistered import unregistered_partition
from shared.model.callers import Scope
from shared.operations.operator import doctor
from tests.functions.authorizers.fleet import STOCK, Gate, listed
from tests.functions.signing import refusal
from tests.kit.api import Client, Tenant
from tests.kit.worlds import Clock

SUMMARY = "/v1/authorizers/summary"


@pytest.fixture
def gate(tenant: Tenant) -> Gate:
    """A gate that has registered with its key, and holds the newest entry."""
    gate = Gate(tenant, tenant.authorizer).begin()
    listed(tenant)
    return gate


@pytest.fixture
def other(tenant: Tenant, gate: Gate) -> Gate:
    """A client with the same name and another key."""
    other = Gate(tenant, tenant.authorizer, key=12)
    assert refusal(other.register()) == (409, "conflict")
    return other


def names(tenant: Tenant) -> list[str]:
    return [each["name"] for each in tenant.admin.get(SUMMARY).json()["unregistered"]]


def rows(tenant: Tenant) -> int:
    return len(list(tenant.ports.store.query(unregistered_partition(tenant.id))))


def writes(tenant: Tenant, client: Client, name: str) -> dict[str, Any]:
    """What is stored after a registration without a key was refused."""
    assert client.post(f"{STOCK}/register", json={"name": name}).status_code in {409, 429}
    partition = unregistered_partition(tenant.id)
    return {row.sk: dict(row.item) for row in tenant.ports.store.query(partition)}


def test_a_refused_client_is_named(tenant: Tenant, gate: Gate, other: Gate) -> None:
    """FLEET-34, F1748a: A client that cannot register is in the summary, proofs and changes."""
    revocation = tenant.revoke("svc_wrt_a")
    for path in (
        SUMMARY,
        f"/v1/revocations/{revocation}/propagation",
        f"/v1/changes/{revocation}",
    ):
        (found,) = tenant.admin.get(path).json()["unregistered"]
        assert (found["name"], found["code"]) == ("gate", "conflict")
        assert found["owner"] == tenant.admin.get(f"/v1/authorizers/{gate.id}").json()["owner"]
    assert tenant.admin.get(SUMMARY).json()["total"] == 1


def test_a_client_that_registers_is_named_no_longer(
    tenant: Tenant, gate: Gate, other: Gate
) -> None:
    """F1748b: A client is no longer unregistered once it has registered, or is away for an hour."""
    assert names(tenant) == ["gate"]
    assert tenant.authorizer.delete(f"/v1/authorizers/{gate.id}").status_code == 204
    other.begin()
    assert names(tenant) == []
    assert refusal(gate.register()) == (409, "conflict")
    assert names(tenant) == ["gate"]


def test_a_client_that_is_gone_is_forgotten(
    tenant: Tenant, gate: Gate, other: Gate, clock: Clock
) -> None:
    """F1748c: A client counts for an hour after its last request, and its item goes later."""
    clock.advance(minutes=59)
    assert names(tenant) == ["gate"]
    clock.advance(minutes=1)
    assert names(tenant) == []
    third = Gate(tenant, tenant.authorizer, key=13)
    assert refusal(third.register()) == (409, "conflict")
    assert (names(tenant), rows(tenant)) == (["gate"], 1)


def test_repeated_requests_write_seldom(tenant: Tenant, gate: Gate, clock: Clock) -> None:
    """F1748d: A client that repeats its request is stored every 270 seconds at most."""
    first = writes(tenant, tenant.authorizer, "gate")
    clock.advance(seconds=269)
    assert writes(tenant, tenant.authorizer, "gate") == first
    clock.advance(seconds=1)
    later = writes(tenant, tenant.authorizer, "gate")
    assert later.keys() == first.keys()
    assert later != first


def test_a_stolen_key_fills_no_list(tenant: Tenant, gate: Gate) -> None:
    """FLEET-34, F1748e: An identity has 10 items at most, and takes no place of another one."""
    tenant.admin.request("PATCH", "/v1/tenant/settings", json={"max_authorizers": 1})
    thief = tenant.client(Scope.AUTHORIZER)
    assert thief.post(f"{STOCK}/register", json={"name": "first"}).status_code == 201
    for number in range(15):
        writes(tenant, thief, f"false-{number}")
    assert rows(tenant) == 10
    writes(tenant, tenant.authorizer, "gate")
    assert (rows(tenant), "gate" in names(tenant)) == (11, True)
    for each in range(6):
        more = tenant.client(Scope.AUTHORIZER)
        assert more.post(f"{STOCK}/register", json={"name": "first"}).status_code == 201
        for number in range(10):
            writes(tenant, more, f"{each}-{number}")
    assert (rows(tenant), "gate" in names(tenant)) == (50, True)


def test_the_doctor_names_a_refused_client(tenant: Tenant, gate: Gate, other: Gate) -> None:
    """FLEET-34, F1748f: `rescind doctor` reports a client whose registration is refused."""
    problems = [each.problem for each in doctor.examine(tenant.ports)]
    assert any("the client gate of " in each and "(conflict)" in each for each in problems)
