"""API keys over HTTP (APIKEY-1 to APIKEY-9)."""

import re
from collections.abc import Callable
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest

from shared.model import api_keys as model
from shared.model.callers import Scope
from shared.model.items import Partition, Table
from shared.operations.access import api_keys
from tests.functions.signing import refusal
from tests.kit.api import Client, Tenant
from tests.kit.faults import Script, scripted
from tests.kit.worlds import Clock

PATH = "/v1/api-keys"
SCOPES = ["admin", "authorizer", "read-only"]
LOSSES: dict[str, Callable[[Client, str], Any]] = {
    "revoke": lambda client, key_id: client.post(f"{PATH}/{key_id}/revoke"),
    "delete": lambda client, key_id: client.delete(f"{PATH}/{key_id}"),
}
EACH_LOSS = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


def create(tenant: Tenant, **fields: Any) -> Any:
    body = {"name": "k", "scopes": ["read-only"]} | fields
    return tenant.admin.post(PATH, json=body)


def created(tenant: Tenant, **fields: Any) -> Any:
    answer = create(tenant, **fields)
    assert answer.status_code == 201, answer.text
    return answer.json()


def get(tenant: Tenant, key_id: str) -> Any:
    answer = tenant.admin.get(f"{PATH}/{key_id}")
    assert answer.status_code == 200
    return answer.json()


# --- list ---


def test_a_key_created_while_a_page_is_read_drops_no_other(tenant: Tenant) -> None:
    """F97a: A page of API keys omits no key if another key is created while it is read."""
    rehearsal = Script()
    api_keys.page(scripted(tenant.ports, rehearsal), tenant.operator, before=None, limit=2)
    for step in range(1, len(rehearsal.calls)):
        newest = api_keys.page(tenant.ports, tenant.operator, before=None, limit=2)
        script = scripted(tenant.ports, Script(before={step: lambda: created(tenant)}))
        seen = api_keys.page(script, tenant.operator, before=None, limit=2)
        assert [key.id for key, _ in seen.entries] == [key.id for key, _ in newest.entries]


# --- create ---


def test_a_created_key(tenant: Tenant) -> None:
    """APIKEY-1: A new API key is active, works at once and has the fields of the contract."""
    answer = created(tenant, name="ci", scopes=["authorizer", "read-only"])
    assert re.fullmatch("svc_ak_[0-7][0-9a-hjkmnp-tv-z]{25}", answer["id"])
    secret = answer.pop("key")
    assert re.fullmatch("svc_[A-Za-z0-9_-]{43}", secret)
    assert answer == {
        "id": answer["id"],
        "name": "ci",
        "scopes": ["authorizer", "read-only"],
        "status": "active",
        "created_at": "2026-11-21T12:00:00Z",
        "expires_at": None,
    }
    unused = answer | {"last_used_at": None, "created_by_id": tenant.admin.key_id, "networks": []}
    assert tenant.admin.get(PATH).json()["api_keys"][0] == unused
    assert get(tenant, answer["id"]) == unused | {"request_count": 0}
    assert tenant.holding(secret).get(PATH).status_code == 200


def test_a_secret_is_stored_nowhere(tenant: Tenant) -> None:
    """APIKEY-2, F17b, S1: The service stores only the SHA-256 digest of an API key."""
    secret = created(tenant)["key"]
    places = ["#api-keys", "#usage", f"#{tenant.ports.now():%Y-%m}"]
    partitions = [
        Partition(table, pk)
        for table in Table
        for pk in [*(f"{tenant.id}{place}" for place in places), tenant.id, "tenants",
                   f"api-key#{model.digest(secret)}"]
    ]  # fmt: skip
    items = [entry for each in partitions for entry in tenant.ports.store.query(each)]
    assert any(model.digest(secret) in str(entry) for entry in items)
    assert not any(secret[4:] in str(entry) for entry in items)


@pytest.mark.parametrize(
    "scopes",
    [
        *(list(each) for count in (1, 2, 3) for each in permutations(SCOPES, count)),
        ["signer", "auditor", "revoker"],
    ],
    ids=" ".join,
)
def test_scopes_keep_their_order(standing: Tenant, scopes: list[str]) -> None:
    """APIKEY-3: The service returns the scopes of a key in the order in which they were given."""
    answer = created(standing, scopes=scopes)
    assert answer["scopes"] == scopes
    assert get(standing, answer["id"])["scopes"] == scopes
    assert standing.admin.get(PATH).json()["api_keys"][0]["scopes"] == scopes


@pytest.mark.parametrize(
    "scopes",
    [[], ["admin", "admin"], ["read-only", "admin", "read-only"], ["root"], ["ADMIN"], [""],
     ["admin", "write"], ["read_only"], ["*"], ["admin,authorizer"]],
    ids=str,
)  # fmt: skip
def test_other_scopes_are_refused(standing: Tenant, scopes: list[str]) -> None:
    """APIKEY-3: The service refuses an API key with no, repeated or unknown scopes."""
    total = standing.admin.get(PATH).json()["total"]
    answer = create(standing, scopes=scopes)
    assert refusal(answer) == (400, "invalid_request")
    assert "scopes" in answer.json()["error"]["message"]
    assert standing.admin.get(PATH).json()["total"] == total


# --- get and list ---


def test_use_is_counted(tenant: Tenant, clock: Clock) -> None:
    """APIKEY-8: An API key shows how often and when it was last used."""
    client = tenant.client(Scope.READ_ONLY)
    for _ in range(3):
        clock.advance(seconds=5)
        assert client.get(PATH).status_code == 200
    shown = get(tenant, client.key_id)
    assert shown["request_count"] == 3
    assert shown["last_used_at"] == "2026-11-21T12:00:15Z"
    listed = tenant.admin.get(PATH).json()["api_keys"]
    assert [key["last_used_at"] for key in listed if key["id"] == client.key_id] == [
        "2026-11-21T12:00:15Z"
    ]


# --- revoke ---


def test_a_revocation_is_final(tenant: Tenant, clock: Clock) -> None:
    """APIKEY-5: A second revocation of an API key has the first one's time; none is undone."""
    clock.advance(microseconds=987_654)
    made = created(tenant)
    path = f"{PATH}/{made['id']}"
    first = tenant.admin.post(f"{path}/revoke")
    said = {"id": made["id"], "status": "revoked", "revoked_at": "2026-11-21T12:00:00Z"}
    assert (first.status_code, first.json()) == (200, said)
    clock.advance(hours=1)
    again = tenant.admin.post(f"{path}/revoke")
    assert (again.status_code, again.json()) == (200, said)
    for action in ("enable", "unrevoke", "activate"):
        assert tenant.admin.post(f"{path}/{action}").status_code == 404
    assert refusal(tenant.holding(made["key"]).get(PATH)) == (401, "invalid_api_key")


# --- delete ---


@pytest.mark.parametrize("before", ["active", "revoked", "expired"])
def test_a_key_in_any_state_can_be_deleted(tenant: Tenant, clock: Clock, before: str) -> None:
    """APIKEY-6: An API key can be deleted in any state, and is unknown from then on."""
    answer = created(tenant, expires_at="2026-11-21T13:00:00Z")
    path = f"{PATH}/{answer['id']}"
    if before == "revoked":
        tenant.admin.post(f"{path}/revoke")
    if before == "expired":
        clock.advance(hours=1)
    deletion = tenant.admin.delete(path)
    assert (deletion.status_code, deletion.content) == (204, b"")
    for method, target in (("GET", path), ("DELETE", path), ("POST", f"{path}/revoke")):
        assert refusal(tenant.admin.request(method, target)) == (404, "not_found")
    assert refusal(tenant.holding(answer["key"]).get(PATH)) == (401, "invalid_api_key")
    assert answer["id"] not in tenant.admin.get(PATH).text


# --- the last admin key ---


@EACH_LOSS
def test_the_last_admin_key_stays(
    tenant: Tenant, other_tenant: Tenant, clock: Clock, loss: Callable[[Client, str], Any]
) -> None:
    """APIKEY-7: The service refuses to revoke or delete the last usable admin key of a tenant.

    No key of another scope or tenant stands in for it, and none that was revoked or has expired.
    """
    other_tenant.client(Scope.ADMIN)
    revoked = tenant.client(Scope.ADMIN)
    assert tenant.admin.post(f"{PATH}/{revoked.key_id}/revoke").status_code == 200
    expired = tenant.client(Scope.ADMIN, expires_at=clock() + timedelta(hours=1))
    clock.advance(hours=1)
    assert refusal(loss(tenant.admin, tenant.admin.key_id)) == (409, "conflict")
    assert get(tenant, tenant.admin.key_id)["status"] == "active"
    for unprotected in (expired, tenant.read_only, tenant.authorizer):
        assert loss(tenant.admin, unprotected.key_id).status_code in {200, 204}


@EACH_LOSS
@pytest.mark.parametrize("scopes", [[Scope.ADMIN], [Scope.READ_ONLY, Scope.ADMIN]], ids=str)
def test_another_admin_key_frees_it(
    tenant: Tenant, loss: Callable[[Client, str], Any], scopes: list[Scope]
) -> None:
    """Where another key has the admin scope, the first may go; then the other is the last."""
    other = tenant.client(*scopes)
    assert loss(other, tenant.admin.key_id).status_code in {200, 204}
    assert refusal(loss(other, other.key_id)) == (409, "conflict")


def test_no_key_creates_one_that_outlives_it(tenant: Tenant) -> None:
    """APIKEY-4, F83b: An API key that expires cannot create a key that expires later or never."""
    body = {"name": "n", "scopes": ["admin"], "expires_at": "2027-01-01T00:00:00Z"}
    expiring = tenant.holding(tenant.admin.post(PATH, json=body).json()["key"])
    for later in ({}, {"expires_at": None}, {"expires_at": "2027-01-01T00:00:01Z"}):
        answer = expiring.post(PATH, json={"name": "n", "scopes": ["read-only"]} | later)
        assert refusal(answer) == (400, "invalid_request")
        assert answer.json()["error"]["message"].startswith("expires_at: ")
    assert expiring.post(PATH, json=body).status_code == 201


def test_a_key_with_a_role(tenant: Tenant) -> None:
    """AUTH-18, F1263a: A key may have a role instead of scopes, which then holds at each request.

    Its successor has it too. It is no admin key that lets the last other one go (APIKEY-7).
    """
    role, body = "/v1/roles/boss", {"scopes": ["admin", "auditor"]}
    tenant.admin.request("PUT", role, json=body)
    answer = created(tenant, scopes=None, role="boss")
    assert (answer["scopes"], answer["role"]) == ([], "boss")
    rotated = tenant.admin.post(f"{PATH}/{answer['id']}/rotate", json={"grace_seconds": 60}).json()
    for each in (answer, rotated):
        who = tenant.holding(each["key"]).get("/v1/whoami").json()
        assert (who["role"], who["scopes"]) == ("boss", ["admin", "auditor"])
    client = tenant.holding(rotated["key"])
    assert client.post(f"{PATH}/{tenant.admin.key_id}/revoke").status_code == 409
    tenant.admin.request("PUT", role, json=body | {"warrant_prefixes": ["svc_wrt_paris-"]})
    assert client.get(PATH).status_code == 403
    tenant.admin.delete(role)
    assert client.get("/v1/whoami").status_code == 403
    for scopes, name in ((None, "boss"), (None, None), (["admin"], "admin")):
        assert create(tenant, scopes=scopes, role=name).status_code == 400


# --- service accounts ---


def test_a_key_may_belong_to_an_account(tenant: Tenant) -> None:
    """APIKEY-9: An API key can belong to a service account and acts under its name."""
    (account,) = tenant.admin.get("/v1/service-accounts").json()["service_accounts"]
    answer = created(tenant, scopes=["admin"], service_account_id=account["id"])
    rows = [answer, get(tenant, answer["id"]), tenant.admin.get(PATH).json()["api_keys"][0]]
    assert all("service_account_id" not in row for row in rows)
    order = ["id", "name", "key", "scopes", "status", "created_at", "expires_at"]
    assert list(answer) == order
    body = {"warrant_id": "svc_wrt_a", "reason": "r"}
    record = tenant.holding(answer["key"]).post("/v1/revocations", json=body).json()
    assert record["created_by"] == "admin@acme.svc"


@pytest.mark.parametrize(
    "account_id",
    ["svc_sa_01m7yzmhg0ynzqw1fmh6whgvm5", "", " ", "svc_ak_01m7yzmhg0ynzqw1fmh6whgvm5",
     "svc_sa_01M7YZMHG0YNZQW1FMH6WHGVM5", "settings", "svc_sa_01m7yzmhg0ynzqw1fmh6whgvm5\n"],
    ids=repr,
)  # fmt: skip
def test_an_unknown_account_is_refused(standing: Tenant, account_id: str) -> None:
    """A service account that the tenant has not, or that is no identifier, is 400, and no key."""
    total = standing.admin.get(PATH).json()["total"]
    answer = create(standing, service_account_id=account_id)
    assert refusal(answer) == (400, "invalid_request")
    assert "service_account_id" in answer.json()["error"]["message"]
    assert standing.admin.get(PATH).json()["total"] == total
