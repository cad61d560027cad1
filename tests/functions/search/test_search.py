"""One search for all that a tenant has (FLEET-33)."""

from dataclasses import replace
from typing import Any

import pytest

from functions.search import operations as search
from shared.model.callers import Scope
from tests.functions.authorizers.fleet import register
from tests.functions.batches.calls import revoke
from tests.functions.signing import create
from tests.kit.api import Client, Tenant
from tests.kit.endpoints import audit_entries
from tests.kit.intercepted import Call, Intercepted
from tests.kit.worlds import Clock


def found(client: Client, query: str, **more: Any) -> list[tuple[str, str]]:
    answer = client.get("/v1/search", params={"q": query} | more)
    assert answer.status_code == 200, answer.text
    return [(each["kind"], each["id"]) for each in answer.json()["results"]]


def test_one_search_finds_all_kinds(tenant: Tenant, clock: Clock) -> None:
    """FLEET-33, F1386a: Each kind is found by its identifier, its beginning, and its name."""
    account = tenant.admin.post("/v1/service-accounts", json={"name": "stock-ci"}).json()["id"]
    key = create(tenant, name="The Stock Key")["id"]
    body = {"name": "stock api", "scopes": ["signer"]}
    api_key = tenant.admin.post("/v1/api-keys", json=body).json()["id"]
    gate = register(tenant.authorizer, "stock-gate")
    revocation = tenant.revoke("svc_wrt_stock-17")
    signed = tenant.admin.post(f"/v1/keys/{key}/sign", json={"payload": ""}).json()["warrant_id"]
    batch = str(revoke(tenant, "svc_wrt_b1", "svc_wrt_b2")["batch_id"])
    entry = str(audit_entries(tenant)[-1]["id"])
    kinds = {
        "service_account": account,
        "signing_key": key,
        "api_key": api_key,
        "authorizer": gate,
        "revocation": revocation,
        "batch": batch,
        "audit_entry": entry,
    }
    for kind, identifier in kinds.items():
        assert found(tenant.admin, identifier) == [(kind, identifier)]
        assert (kind, identifier) in found(tenant.admin, identifier[:-3], limit=50)
    assert found(tenant.admin, signed) == [("warrant", signed)]
    assert found(tenant.admin, "svc_wrt_sto") == [("warrant", "svc_wrt_stock-17")]
    named = {("signing_key", key), ("api_key", api_key), ("authorizer", gate)}
    assert {*found(tenant.admin, "stock")} == {
        *named,
        ("warrant", "svc_wrt_stock-17"),
        ("service_account", account),
    }
    assert found(tenant.admin, "KEY stock") == [("signing_key", key)]
    assert len(found(tenant.admin, "stock", limit=3)) == 3
    clock.advance(days=31)
    assert found(tenant.admin, gate) == []


def test_what_the_scopes_may_not_list_is_not_found(tenant: Tenant) -> None:
    """FLEET-33, F1387a: A caller finds only kinds whose lists it may read."""
    key = create(tenant, name="stock")["id"]
    gate = register(tenant.authorizer, "stock")
    revocation = tenant.revoke("svc_wrt_stock")
    entry = str(audit_entries(tenant)[-1]["id"])
    all_ = {"signing_key": key, "authorizer": gate, "revocation": revocation, "audit_entry": entry}
    may = {
        Scope.READ_ONLY: {"signing_key", "authorizer", "audit_entry"},
        Scope.REVOKER: {"revocation"},
        Scope.SIGNER: {"signing_key"},
        Scope.AUDITOR: {*all_},
    }
    for scope, kinds in may.items():
        client = tenant.client(scope)
        assert {kind for kind, each in all_.items() if found(client, each)} == kinds
        words = {kind for kind, _ in found(client, "stock")}
        assert words <= kinds | ({"warrant"} if "revocation" in kinds else set())
    assert tenant.authorizer.get("/v1/search?q=stock").status_code == 403


@pytest.mark.parametrize("query", ["", "a", "x" * 201, "q", None])
def test_a_query_has_2_to_200_characters(tenant: Tenant, query: str | None) -> None:
    """FLEET-33: Any other query is refused."""
    params = {} if query is None else {"q": query}
    assert tenant.admin.get("/v1/search", params=params).status_code == 400


@pytest.mark.parametrize(
    "query",
    [
        "svc_evt_",
        "svc_bat_0",
        "svc_evt_!!",
        "svc_rev_ILOU",
        "svc_xx_1",
        "svc_wrt_",
        "\x00\x00",
        "é~",
    ],
)
def test_what_is_no_identifier_finds_little(tenant: Tenant, query: str) -> None:
    """FLEET-33: What is too short, or of another form, is no error."""
    assert found(tenant.admin, query) == []


def test_a_search_reads_no_partition_whole(tenant: Tenant) -> None:
    """FLEET-33, F1388a: Every read of a partition has a limit, and no table is read."""
    queries: list[Call] = []

    def note(call: Call) -> Any:
        queries.append(call)
        return call()

    ports = replace(tenant.ports, store=Intercepted(tenant.ports.store, note))
    for query in ("stock", "svc_wrt_a", "svc_rev_0", "svc_bat_01m7y", "svc_evt_01m7y", "svc_key_0"):
        search.search(ports, tenant.operator, query=query, limit=8)
    reads = [each for each in queries if each.verb in {"query", "query_many", "everything"}]
    assert reads
    assert [each.verb for each in reads if each.options.get("limit") is None] == []
