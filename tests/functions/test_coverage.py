"""All routes against all callers: nothing is forgotten when an endpoint is added."""

import re
from typing import Any

import pytest

from infra.server.routers import ROUTERS
from shared.model.callers import Scope
from shared.model.identities.roles import Role
from shared.operations.identities import roles
from shared.ports.store import at_path
from tests.kit import endpoints
from tests.kit.api import Client, Tenant
from tests.kit.endpoints import (
    ANY,
    ENDPOINTS,
    Endpoint,
    at,
    audit_entries,
    audited,
    call,
    identifier,
    shape,
)
from tests.kit.identities import holding_role

Key = tuple[str, str]

_DELETION = ("DELETE", "/v1/revocations/{id}")
_SIGNER = "/v1/revocations/srl/keys/svc_key_01m7yzmhg0ynzqw1fmh6whgvm5"
EACH = pytest.mark.parametrize("key", ENDPOINTS, ids=" ".join)
EACH_OF_A_RESOURCE = pytest.mark.parametrize(
    "key",
    [key for key in ENDPOINTS if re.search(r"\{(?!version|path|sha256|name)", key[1])],
    ids=" ".join,
)

# What differs between two answers that say the same.
OWN = {"x-request-id", "x-ratelimit-remaining", "x-ratelimit-reset"}


def headers(answer: Any) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in OWN}


def error(answer: Any) -> Any:
    body = answer.json()
    assert shape(body) == {"error": {"code": ..., "message": ...}}
    return body["error"]


def test_every_route_is_in_the_table() -> None:
    """A route that nobody wrote into the table, or a row without a route, fails here."""
    routes: list[Any] = [route for router in ROUTERS for route in router.routes]
    served = [(method, route.path_format) for route in routes for method in route.methods]
    assert sorted(served) == sorted(ENDPOINTS)


def test_the_clause_names_the_scopes_of_the_table() -> None:
    """AUTH-4: The clause lists the scopes of all endpoints; `make written` writes its table."""
    assert endpoints.PAGE.read_text(encoding="utf-8") == endpoints.page(), "run `make written`"


# --- callers ---


@pytest.fixture(scope="module")
def clients(standing: Tenant) -> dict[Scope, Client]:
    """A client with a key of each scope."""
    return {scope: standing.client(scope) for scope in Scope}


@EACH
@pytest.mark.parametrize("scope", list(Scope))
def test_each_scope_opens_what_the_table_says(
    standing: Tenant, clients: dict[Scope, Client], key: Key, scope: Scope
) -> None:
    """AUTH-4, S1: Each endpoint admits the scopes of the contract and answers 403 to others."""
    scopes = ENDPOINTS[key].scopes
    target = ENDPOINTS[key].target(standing)
    client = clients[scope]
    if key == _DELETION:
        standing.admin.request("PATCH", "/v1/tenant/settings", json={"unrevoke_policy": "any"})
    entries = audited(standing)
    if key == next(iter(ENDPOINTS)):
        # Refills the bucket for the calls of this scope; lists must not become old.
        standing.ports.now.advance(seconds=2)  # type: ignore[attr-defined]
    answer = call(key, client, target)
    if scope in scopes:
        # 404 or 409 where an earlier test of the module has been here.
        assert answer.status_code not in {401, 403, 405}
        assert answer.status_code < 500
        return
    assert answer.status_code == 403
    assert error(answer)["code"] == "insufficient_scope"
    assert error(answer)["message"].endswith(f"the scope {' or '.join(scopes)}.")
    challenge = f'Bearer error="insufficient_scope", scope="{" ".join(scopes)}"'
    assert answer.headers["www-authenticate"] == challenge
    assert audited(standing) == entries


@EACH
def test_an_invalid_key_is_refused(standing: Tenant, key: Key) -> None:
    """AUTH-1: Every endpoint answers a request without a valid API key with 401."""
    target = ENDPOINTS[key].target(standing)
    entries = audited(standing)
    invalid = [standing.holding(secret) for secret in ("svc_" + "A" * 43, "nonsense")]
    for client in (standing.anonymous, *invalid):
        answer = call(key, client, target)
        assert answer.status_code == 401
        code = "unauthorized" if client is standing.anonymous else "invalid_api_key"
        assert error(answer)["code"] == code
        assert answer.headers["www-authenticate"] == "Bearer"
    assert audited(standing) == entries


def test_scopes_add_up(tenant: Tenant) -> None:
    """A key with two scopes opens what either of them opens, and no more."""
    both = tenant.client(Scope.READ_ONLY, Scope.AUTHORIZER)
    assert both.get("/v1/api-keys").status_code == 200
    assert both.get("/v1/revocations/srl").status_code == 200
    assert both.get("/v1/revocations").status_code == 403


def test_a_scope_for_one_job_changes_nothing_else() -> None:
    """F376a, S1: A `revoker`, `signer` or `auditor` key makes no other change than its job has."""
    served: list[Any] = [route for router in ROUTERS for route in router.routes]
    opened: dict[Scope, set[str]] = {scope: set() for scope in Scope}
    for route in served:
        action = ENDPOINTS[next(iter(route.methods)), route.path_format].action
        for scope in route.serving.operation.scopes if action else ():
            opened[scope].add(str(action))
    # A key owns no session that it could end.
    for actions in opened.values():
        actions.discard("session.delete")
    changes = {"revocation.create", "revocation.create_batch"}
    changes |= {"revocation.delete", "revocation.delete_batch"}
    assert opened[Scope.REVOKER] == changes
    assert opened[Scope.SIGNER] == {"key.sign"}
    assert opened[Scope.AUDITOR] == opened[Scope.READ_ONLY] == set()


def test_limits_close_what_does_not_check_them(tenant: Tenant) -> None:
    """AUTH-18, F1261a: A caller whose role has limits is refused by each endpoint but the listed.

    The table says which endpoints check them; another one stays closed whatever its scopes are.
    """
    role = Role("limited", tuple(Scope), warrant_prefixes=("svc_wrt_paris-",))
    roles.put_role(tenant.ports, tenant.operator, role=role)
    client = holding_role(tenant, "limited")
    for (method, path), endpoint in ENDPOINTS.items():
        answer = client.request(method, at(path, "x"))
        is_closed = answer.status_code == 403 and "does not allow this endpoint" in answer.text
        assert is_closed is not endpoint.limited, path


@pytest.mark.parametrize(
    "key",
    [key for key, each in ENDPOINTS.items() if each.limited and each.scopes != ANY],
    ids=" ".join,
)
def test_a_role_reaches_what_it_names(tenant: Tenant, key: Key) -> None:
    """AUTH-18, F1262a: An endpoint that checks limits refuses what the role does not reach.

    It changes nothing then. It answers a role that reaches it as one without limits.
    """
    target = ENDPOINTS[key].target(tenant)
    tenant.admin.request("PATCH", "/v1/tenant/settings", json={"unrevoke_policy": "any"})
    keys = tuple(each["id"] for each in tenant.admin.get("/v1/keys").json()["keys"])
    outside = Role("paris", tuple(Scope), warrant_prefixes=("svc_wrt_paris-",))
    roles.put_role(tenant.ports, tenant.operator, role=outside)
    client, entries = holding_role(tenant, "paris"), audited(tenant)
    answer = call(key, client, target)
    assert answer.status_code == 403 or answer.json()["counts"]["failed"] == 1
    assert "Your role does not include" in answer.text
    assert audited(tenant) == entries
    inside = Role("paris", tuple(Scope), ("svc_wrt_",) if "keys" not in target else (), keys)
    roles.put_role(tenant.ports, tenant.operator, role=inside)
    assert call(key, client, target).status_code == ENDPOINTS[key].status


def test_an_auditor_reads_what_others_read() -> None:
    """F376b: An `auditor` key opens every read below `/v1` that a key of another scope opens."""
    reads = {
        key: endpoint.scopes
        for key, endpoint in ENDPOINTS.items()
        if key[0] == "GET" and key[1].startswith("/v1/") and len(endpoint.scopes) > 1
    }
    assert [key for key, scopes in reads.items() if Scope.AUDITOR not in scopes] == []


# --- answers, and the audit log ---


@EACH
def test_an_answer_and_what_it_leaves(tenant: Tenant, key: Key) -> None:
    """API-7, AUDIT-1, S7: Every endpoint answers with its status and with exactly its fields.

    A change leaves one audit entry, which says what, who and from where; a read leaves none.
    """
    endpoint = ENDPOINTS[key]
    target = endpoint.target(tenant)
    before = audit_entries(tenant)
    answer = call(key, tenant.admin, target)
    assert answer.status_code == endpoint.status
    if endpoint.status == 204:
        assert answer.content == b""
    else:
        assert answer.headers["content-type"] == endpoint.media_type
    if endpoint.status != 204 and endpoint.media_type == "application/json":
        assert shape(answer.json()) == endpoint.fields
    after = audit_entries(tenant)
    if endpoint.action is None:
        assert after == before
    else:
        leaves_one(tenant, endpoint, target, answer, before, after)


def leaves_one(
    tenant: Tenant, endpoint: Endpoint, target: str, answer: Any, before: Any, after: Any
) -> None:
    *earlier, entry = after
    summed_up_by = at_path(entry, "details.summary_id")
    assert earlier == before + [each for each in earlier if each["id"] == summed_up_by]
    assert endpoint.resource is not None
    assert entry["action"] == endpoint.action
    assert entry["resource_id"] == endpoint.resource(target, answer)
    by_key = (f"admin@{tenant.handle}.svc", tenant.admin.key_id)
    by = ("like-admin@example.com", None) if endpoint.is_of_people else by_key
    assert (entry["actor"], entry.get("actor_key_id")) == by
    assert entry["source_ip"] == "203.0.113.1"
    assert entry["request_id"] == answer.headers["x-request-id"]
    assert entry["result"] == "success"


def test_what_changes_nothing_leaves_no_entry(tenant: Tenant) -> None:
    """API-13: An action whose target state holds already writes nothing, no entry either."""
    key_path = ENDPOINTS["POST", "/v1/api-keys/{id}/revoke"].target(tenant)
    tenant.admin.post(key_path)
    tenant.revoke("svc_wrt_a")
    before = audited(tenant)
    assert tenant.admin.post(key_path).status_code == 200
    body = {"warrant_id": "svc_wrt_a", "reason": "again"}
    assert tenant.admin.post("/v1/revocations", json=body).status_code == 200
    assert audited(tenant) == before


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/api-keys", {"name": "", "scopes": ["admin"]}, 400),
        ("POST", "/v1/revocations", {"warrant_id": "x", "reason": "r"}, 400),
        ("POST", "/v1/revocations/srl/regenerate", {"x": 1}, 400),
        ("POST", "/v1/revocations/srl/keys", {"x": 1}, 400),
        ("POST", "/v1/revocations/srl/keys/rotate", {"x": 1}, 400),
        ("POST", f"{_SIGNER}/activate", None, 404),
        ("POST", f"{_SIGNER}/revoke", None, 404),
        ("DELETE", "/v1/revocations/svc_rev_01m7yzmhg0ynzqw1fmh6whgvm5", None, 404),
        ("POST", "/v1/api-keys/svc_ak_01m7yzmhg0ynzqw1fmh6whgvm5/revoke", None, 404),
        ("DELETE", "/v1/api-keys/svc_ak_01m7yzmhg0ynzqw1fmh6whgvm5", None, 404),
        ("POST", "/v1/api-keys/{admin}/revoke", None, 409),
        ("DELETE", "/v1/api-keys/{admin}", None, 409),
    ],
)
def test_what_is_refused_leaves_no_entry(
    tenant: Tenant, method: str, path: str, body: Any, status: int
) -> None:
    """A refused mutation leaves no audit entry, whatever it was refused for."""
    before = audited(tenant)
    path = path.format(admin=tenant.admin.key_id)
    answer = tenant.admin.request(method, path, **({"json": body} if body else {}))
    assert answer.status_code == status
    assert audited(tenant) == before


# --- other tenants ---


@EACH_OF_A_RESOURCE
def test_the_resource_of_another_is_unknown(tenant: Tenant, other_tenant: Tenant, key: Key) -> None:
    """API-12, F12a, S2: Another tenant's resource is answered exactly as an unknown one."""
    foreign = ENDPOINTS[key].target(other_tenant)
    held = identifier(foreign)
    unknown = foreign.replace(held, tenant.ports.new_id(held.split("_")[1]))
    answers = [call(key, tenant.admin, target) for target in (foreign, unknown)]
    assert answers[0].status_code == answers[1].status_code == ENDPOINTS[key].unknown
    assert answers[0].content == answers[1].content
    assert headers(answers[0]) == headers(answers[1])
    # It is still there, and its owner may still do this to it.
    assert call(key, other_tenant.admin, foreign).status_code == ENDPOINTS[key].status


@pytest.mark.parametrize(
    ("of", "path", "member", "body"),
    [
        ("/v1/service-accounts", "/v1/api-keys", "service_account_id", {"scopes": ["admin"]}),
        ("/v1/keys", "/v1/keys", "parent_id", {"type": "issuer"}),
    ],
)
def test_what_a_body_names_of_another_is_unknown(
    tenant: Tenant, other_tenant: Tenant, of: str, path: str, member: str, body: dict[str, Any]
) -> None:
    """F12: another tenant's resource in a body is answered like an unknown one, byte for byte."""
    foreign = call(("POST", of), other_tenant.admin, of).json()["id"]
    unknown = tenant.ports.new_id(foreign.split("_")[1])
    answers = [
        tenant.admin.post(path, json=body | {"name": "n", member: each})
        for each in (foreign, unknown)
    ]
    assert answers[0].status_code == answers[1].status_code == 400
    assert answers[0].content == answers[1].content
    assert headers(answers[0]) == headers(answers[1])
    assert member in answers[0].json()["error"]["message"]


def test_the_revocations_of_another_are_unknown(tenant: Tenant, other_tenant: Tenant) -> None:
    """F12: what another tenant revoked is not revoked here, and can be revoked here too."""
    other_tenant.revoke("svc_wrt_a")
    check = tenant.admin.get("/v1/revocations/check?warrant_id=svc_wrt_a")
    assert check.json() == {"warrant_id": "svc_wrt_a", "revoked": False}
    batch = tenant.admin.post("/v1/revocations/check-batch", json={"warrant_ids": ["svc_wrt_a"]})
    assert batch.json() == {"results": {"svc_wrt_a": {"revoked": False}}}
    assert tenant.admin.get("/v1/revocations").json()["total"] == 0
    tenant.revoke("svc_wrt_a")


@pytest.mark.parametrize("name", ["X-Tenant", "X-Tenant-Id", "Tenant", "X-Amzn-Tenant"])
def test_no_header_names_the_tenant(tenant: Tenant, other_tenant: Tenant, name: str) -> None:
    """F15c, S2: The tenant comes from the API key alone, whatever a header says."""
    other_tenant.revoke("svc_wrt_a")
    for claim in (other_tenant.id, other_tenant.handle):
        answer = tenant.admin.get("/v1/revocations", headers={name: claim})
        assert answer.json() == {"revocations": [], "total": 0, "cursor": None}
