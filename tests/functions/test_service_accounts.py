"""Service accounts over HTTP (ACCOUNT-1 to ACCOUNT-5)."""

from typing import Any

import pytest

from shared.model.callers import Scope
from shared.ports import Ports
from tests.functions.bodies import variants
from tests.functions.signing import refusal
from tests.kit.api import Client, Tenant, serve
from tests.kit.endpoints import audit_entries

ACCOUNTS = "/v1/service-accounts"


def create(tenant: Tenant, name: str = "ci", **fields: Any) -> dict[str, Any]:
    answer = tenant.admin.post(ACCOUNTS, json={"name": name} | fields)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def owned_key(tenant: Tenant, account: dict[str, Any], *scopes: Scope) -> Client:
    return tenant.client(*(scopes or (Scope.READ_ONLY,)), service_account_id=account["id"])


def switch(tenant: Tenant, account: dict[str, Any], action: str) -> Any:
    return tenant.admin.post(f"{ACCOUNTS}/{account['id']}/{action}")


def works(client: Client) -> bool:
    status = client.get("/v1/api-keys").status_code
    assert status in {200, 401}
    return bool(status == 200)


def admin_account(tenant: Tenant) -> dict[str, Any]:
    """The account that the tenant came with."""
    return dict(tenant.admin.get(ACCOUNTS).json()["service_accounts"][-1])


# --- fields ---


def test_a_new_account(tenant: Tenant) -> None:
    """ACCOUNT-2: A new service account is active and has an identity in its tenant."""
    account = create(tenant, "ci-1", description="  builds  ")
    assert account.pop("id").startswith("svc_sa_")
    assert account == {
        "name": "ci-1",
        "email": "ci-1@acme.svc",
        "description": "builds",
        "status": "active",
        "created_at": "2026-11-21T12:00:00Z",
    }


def test_reading_accounts(tenant: Tenant) -> None:
    """API-7: Get and list return service accounts with exactly the fields of the contract."""
    made = [create(tenant, f"a{number}") for number in range(3)]
    page = tenant.read_only.get(ACCOUNTS).json()
    assert set(page) == {"service_accounts", "total", "cursor"}
    *own, admin = page["service_accounts"]
    assert own == made[::-1]
    named = {"name": "admin", "email": "admin@acme.svc", "description": None}
    assert admin == made[0] | named | {"id": admin["id"]}
    assert (page["total"], page["cursor"]) == (4, None)
    assert tenant.read_only.get(f"{ACCOUNTS}/{made[0]['id']}").json() == made[0]


@pytest.mark.parametrize("name", ["a", "0", "-", "a" * 63, "a-b-0"])
def test_names_that_are_taken(tenant: Tenant, name: str) -> None:
    """1 to 63 lower-case letters, digits or hyphens are a name."""
    assert create(tenant, name)["name"] == name


@pytest.mark.parametrize(
    "body",
    [
        *variants({}, "name", "", "A", "a_b", "a.b", " a", "a\n", "a" * 64, "é", 5, None),
        *variants({"name": "a"}, "description", "", " ", "x" * 1025, 5),
        *({}, {"name": "a", "status": "disabled"}),
    ],
)
def test_a_malformed_account(standing: Tenant, body: Any) -> None:
    """ACCOUNT-1: The service refuses a malformed service account with 400."""
    assert refusal(standing.admin.post(ACCOUNTS, json=body)) == (400, "invalid_request")
    assert standing.admin.get(ACCOUNTS).json()["total"] == 1


def test_a_name_belongs_to_one_account(tenant: Tenant, other_tenant: Tenant) -> None:
    """ACCOUNT-1: Within a tenant, a name belongs to at most one service account."""
    account = create(tenant)
    assert refusal(tenant.admin.post(ACCOUNTS, json={"name": "ci"})) == (409, "conflict")
    switch(tenant, account, "disable")
    assert refusal(tenant.admin.post(ACCOUNTS, json={"name": "ci"})) == (409, "conflict")
    assert tenant.admin.get(ACCOUNTS).json()["total"] == 2
    assert create(other_tenant)["email"] == "ci@globex.svc"


def test_a_name_is_never_given_to_another(tenant: Tenant) -> None:
    """F67b: The name of a deleted service account is never given to another account."""
    old = create(tenant)
    assert tenant.admin.delete(f"{ACCOUNTS}/{old['id']}").status_code == 204
    assert refusal(tenant.admin.post(ACCOUNTS, json={"name": "ci"})) == (409, "conflict")
    assert create(tenant, "ci-2")["email"] != old["email"]


# --- disable and enable ---


def test_disabling_stops_all_keys_on_every_instance(tenant: Tenant, ports: Ports) -> None:
    """ACCOUNT-4, F13, S1: Disabling a service account stops its keys on every instance."""
    account, other = create(tenant), create(tenant, "other")
    keys = [owned_key(tenant, account, scope) for scope in (Scope.ADMIN, Scope.READ_ONLY)]
    kept = owned_key(tenant, other)
    second = serve(ports)
    elsewhere = [Client(second, key.secret) for key in keys]
    assert all(works(each) for each in [*keys, *elsewhere])
    answer = switch(tenant, account, "disable")
    assert (answer.status_code, answer.json()) == (200, account | {"status": "disabled"})
    assert not any(works(each) for each in [*keys, *elsewhere])
    assert works(kept)
    answer = switch(tenant, account, "enable")
    assert (answer.status_code, answer.json()) == (200, account)
    assert all(works(each) for each in [*keys, *elsewhere])


def test_enabling_restores_those_not_revoked(tenant: Tenant) -> None:
    """ACCOUNT-4: Enabling a service account restores its keys, except revoked ones."""
    account = create(tenant)
    before, after, good = (owned_key(tenant, account) for _ in range(3))
    tenant.admin.post(f"/v1/api-keys/{before.key_id}/revoke")
    switch(tenant, account, "disable")
    assert tenant.admin.post(f"/v1/api-keys/{after.key_id}/revoke").status_code == 200
    switch(tenant, account, "enable")
    assert [works(each) for each in (before, after, good)] == [False, False, True]


def test_a_disabled_account_gets_no_key(tenant: Tenant) -> None:
    """A key for a disabled account is 409 invalid_state; once enabled it is made."""
    account = create(tenant)
    switch(tenant, account, "disable")
    body = {"name": "k", "scopes": ["read-only"], "service_account_id": account["id"]}
    assert refusal(tenant.admin.post("/v1/api-keys", json=body)) == (409, "invalid_state")
    switch(tenant, account, "enable")
    assert tenant.admin.post("/v1/api-keys", json=body).status_code == 201


def test_the_last_admin_key_is_not_disabled(tenant: Tenant) -> None:
    """An account that holds the last admin keys cannot be disabled: 409, and its keys go on."""
    account = admin_account(tenant)
    owned_key(tenant, account, Scope.ADMIN)
    assert refusal(switch(tenant, account, "disable")) == (409, "conflict")
    assert works(tenant.admin)
    lone = tenant.client(Scope.ADMIN)
    assert switch(tenant, account, "disable").status_code == 200
    assert not works(tenant.admin)
    assert refusal(lone.post(f"/v1/api-keys/{lone.key_id}/revoke")) == (409, "conflict")


def test_an_admin_key_under_a_disabled_account_is_no_way_in(tenant: Tenant) -> None:
    """Only an admin key whose account is active counts as another one."""
    spare = create(tenant, "spare")
    owned_key(tenant, spare, Scope.ADMIN)
    assert switch(tenant, spare, "disable").status_code == 200
    assert refusal(switch(tenant, admin_account(tenant), "disable")) == (409, "conflict")
    revoke = f"/v1/api-keys/{tenant.admin.key_id}/revoke"
    assert refusal(tenant.admin.post(revoke)) == (409, "conflict")
    switch(tenant, spare, "enable")
    assert tenant.admin.post(revoke).status_code == 200


# --- ownership ---


def test_an_account_with_keys_is_not_deleted(tenant: Tenant) -> None:
    """ACCOUNT-5: The service refuses to delete a service account that owns keys."""
    account = create(tenant)
    path = f"{ACCOUNTS}/{account['id']}"
    keys = [owned_key(tenant, account) for _ in range(2)]
    tenant.admin.post(f"/v1/api-keys/{keys[0].key_id}/revoke")
    for key in keys:
        assert refusal(tenant.admin.delete(path)) == (409, "conflict")
        assert tenant.admin.delete(f"/v1/api-keys/{key.key_id}").status_code == 204
    answer = tenant.admin.delete(path)
    assert (answer.status_code, answer.content) == (204, b"")
    assert refusal(tenant.admin.get(path)) == (404, "not_found")
    assert refusal(tenant.admin.delete(path)) == (404, "not_found")
    assert tenant.admin.get(ACCOUNTS).json()["total"] == 1


def test_fifty_keys_and_no_more(tenant: Tenant) -> None:
    """ACCOUNT-3: A service account has at most 50 API keys."""
    account = create(tenant)
    keys = [owned_key(tenant, account) for _ in range(50)]
    body = {"name": "k", "scopes": ["read-only"], "service_account_id": account["id"]}
    assert refusal(tenant.admin.post("/v1/api-keys", json=body)) == (409, "conflict")
    tenant.admin.post(f"/v1/api-keys/{keys[0].key_id}/revoke")
    assert refusal(tenant.admin.post("/v1/api-keys", json=body)) == (409, "conflict")
    # All of them at once is one write.
    assert switch(tenant, account, "disable").status_code == 200
    assert not any(works(key) for key in keys)
    assert switch(tenant, account, "enable").status_code == 200
    assert [works(key) for key in keys] == [False] + [True] * 49
    tenant.admin.delete(f"/v1/api-keys/{keys[0].key_id}")
    assert tenant.admin.post("/v1/api-keys", json=body).status_code == 201


def test_an_account_signs_for_what_its_keys_do(tenant: Tenant) -> None:
    """ACCOUNT-2: Changes by keys of an account are recorded under `<account>@<tenant>.svc`."""
    key = owned_key(tenant, create(tenant), Scope.ADMIN)
    body = {"warrant_id": "svc_wrt_a", "reason": "stolen"}
    assert key.post("/v1/revocations", json=body).json()["created_by"] == "ci@acme.svc"
    assert audit_entries(tenant)[-1]["actor"] == "ci@acme.svc"
    lone = tenant.client(Scope.ADMIN)
    body = {"warrant_id": "svc_wrt_b", "reason": "stolen"}
    created_by = lone.post("/v1/revocations", json=body).json()["created_by"]
    assert created_by == f"{lone.key_id}@acme.svc"


def test_an_account_lists_its_keys(tenant: Tenant) -> None:
    """APIKEY-9: The keys of an account are listed by the account and by a filter of all keys."""
    account, empty = create(tenant), create(tenant, name="empty")
    keys = [owned_key(tenant, account).key_id for _ in range(3)]
    tenant.admin.post(f"/v1/api-keys/{keys[1]}/revoke")
    path = f"/v1/service-accounts/{account['id']}/api-keys"
    first = tenant.admin.get(f"{path}?limit=2").json()
    second = tenant.read_only.get(f"{path}?limit=2&cursor={first['cursor']}").json()
    assert [row["id"] for row in first["api_keys"] + second["api_keys"]] == keys[::-1]
    assert (first["total"], second["total"], second["cursor"]) == (3, 3, None)
    rows = {row["id"]: row for row in tenant.admin.get("/v1/api-keys?limit=100").json()["api_keys"]}
    assert first["api_keys"] + second["api_keys"] == [rows[each] for each in keys[::-1]]
    assert tenant.admin.get(f"/v1/service-accounts/{empty['id']}/api-keys").json() == {
        "api_keys": [],
        "total": 0,
        "cursor": None,
    }
