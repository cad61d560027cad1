"""Identity providers and roles over HTTP (IDENTITY-1); for people, see test_admission.py."""

from typing import Any

import pytest

from shared.errors import Conflict, InvalidRequest
from shared.model.callers import Scope
from shared.model.identities.claims import SignInRefused
from shared.model.identities.providers import IdentityProvider, providers
from shared.model.times import format_utc
from shared.operations.identities import identity_providers, sessions
from shared.operations.identities import people as operations
from tests.kit.api import Tenant
from tests.kit.endpoints import audit_entries
from tests.kit.identities import JWKS, bound, holding_role, signed_in
from tests.kit.issuers import ISSUER

PATH = "/v1/tenant/identity-providers"
ROLE_MAPPING = {"claims": {"groups": "security"}, "role": "admin"}
PEOPLE: dict[str, Any] = {
    "name": "SSO",
    "usage": "sign_in",
    "issuer": ISSUER,
    "client_id": "rescind",
    "jwks": JWKS,
    "role_mappings": [ROLE_MAPPING],
}
BUILDS = {"claims": {"repository_id": "77"}, "role": "signer", "service_account": "deploy"}
GITHUB = "https://token.actions.githubusercontent.com"
PROGRAMS: dict[str, Any] = {
    "name": "CI",
    "usage": "workload",
    "issuer": GITHUB,
    "jwks": JWKS,
    "role_mappings": [BUILDS],
}


def bind(tenant: Tenant, body: dict[str, Any]) -> dict[str, Any]:
    answer = tenant.admin.post(PATH, json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def stored(tenant: Tenant, provider_id: str) -> IdentityProvider:
    item = tenant.ports.store.get(providers(tenant.id).address(provider_id))
    assert item is not None
    return IdentityProvider.from_item(item)


def test_a_provider_of_people(tenant: Tenant) -> None:
    """IDENTITY-1, F1149a: A provider is bound with what it was given, and defaults for the rest."""
    made = bind(tenant, PEOPLE)
    assert tenant.admin.get(f"{PATH}/{made['id']}").json() == made
    assert made.pop("id").startswith("svc_idp_")
    assert made == PEOPLE | {
        "role_mappings": [ROLE_MAPPING | {"service_account": None}],
        "cli_client_id": None,
        "has_client_secret": False,
        "email_domains": [],
        "session_seconds": 3600,
        "allow_token_reuse": False,
        "trusts_email": False,
        "step_up": "auth_time",
        "token_exchange": False,
        "token_max_seconds": None,
        "authorization_endpoint": None,
        "device_authorization_endpoint": None,
        "token_endpoint": None,
        "jwks_uri": None,
        "created_at": format_utc(tenant.ports.now()),
    }
    assert bind(tenant, PROGRAMS)["session_seconds"] == 900
    details = audit_entries(tenant)[-1]["details"]
    assert isinstance(details, dict)
    made = {name: details["changes"][name]["new"] for name in ("issuer", "role_mappings")}
    assert made == {"issuer": GITHUB, "role_mappings": [BUILDS]}


def test_a_client_secret_is_sealed(tenant: Tenant) -> None:
    """IDENTITY-3, F1149b: A client secret is stored sealed for its provider, and never shown."""
    made = bind(tenant, PEOPLE | {"client_secret": "first-s3cret"})
    path = f"{PATH}/{made['id']}"
    assert made["has_client_secret"]
    for number, secret in ((1, "first-s3cret"), (2, "second-s3cret")):
        provider = stored(tenant, made["id"])
        assert provider.sealed_client_secret is not None
        assert secret.encode() not in provider.sealed_client_secret
        opened = tenant.ports.sealer.unseal(
            provider.sealed_client_secret, context=provider.seal_context
        )
        assert (opened.decode(), provider.secret_number) == (secret, number)
        tenant.admin.request("PATCH", path, json={"client_secret": "second-s3cret"})
    answer = tenant.admin.request("PATCH", path, json={"client_secret": ""})
    assert not answer.json()["has_client_secret"]
    assert "s3cret" not in str(audit_entries(tenant))


def test_a_tenant_has_ten(tenant: Tenant) -> None:
    """IDENTITY-1, F1149c: The eleventh provider is refused until one is deleted."""
    made = [bind(tenant, PEOPLE) for _ in range(10)]
    assert tenant.admin.post(PATH, json=PEOPLE).status_code == 409
    assert tenant.admin.delete(f"{PATH}/{made[0]['id']}").status_code == 204
    bind(tenant, PEOPLE)
    assert tenant.admin.get(PATH).json()["total"] == 10


def test_a_provider_of_another_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    """IDENTITY-1, F1149d: Another tenant neither sees nor changes a provider."""
    path = f"{PATH}/{bind(tenant, PEOPLE)['id']}"
    assert other_tenant.admin.get(path).status_code == 404
    assert other_tenant.admin.request("PATCH", path, json={"name": "x"}).status_code == 404
    assert other_tenant.admin.delete(path).status_code == 404


RSA_PRIVATE = {"kty": "RSA", "kid": "k", "n": "AQAB", "e": "AQAB", "d": "AQAB"}
BAD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (PEOPLE, {"issuer": "http://sso.example.com"}, "issuer"),
    (PEOPLE, {"issuer": "https://a@sso.example.com"}, "issuer"),
    (PEOPLE, {"issuer": "https://sso.example.com/?tenant=1"}, "issuer"),
    (PEOPLE, {"issuer": "https://login.microsoftonline.com/common/v2.0"}, "issuer"),
    (PEOPLE, {"issuer": "https://login.microsoftonline.com/{tenantid}/v2.0"}, "issuer"),
    (PEOPLE, {"issuer": "https://LOGIN.microsoftonline.com/organizations/v2.0"}, "issuer"),
    (PEOPLE, {"issuer": "https://accounts.google.com"}, "email_domains"),
    (PEOPLE, {"client_id": None}, "client_id"),
    (PEOPLE, {"client_id": "two words"}, "client_id"),
    (PEOPLE, {"role_mappings": []}, "role_mappings"),
    (PEOPLE, {"role_mappings": [{"claims": {}, "role": "admin"}]}, "claims"),
    (PEOPLE, {"role_mappings": [{"claims": {"a": "b"}, "role": "root"}]}, "role"),
    (PEOPLE, {"role_mappings": [ROLE_MAPPING | {"service_account": "deploy"}]}, "role_mappings"),
    (PEOPLE, {"email_domains": ["Example.com"]}, "email_domains"),
    (PEOPLE, {"email_domains": ["acme.svc"]}, "email_domains"),
    (PEOPLE, {"session_seconds": 299}, "session_seconds"),
    (PEOPLE, {"session_seconds": 43201}, "session_seconds"),
    (PEOPLE, {"allow_token_reuse": True}, "allow_token_reuse"),
    (PEOPLE, {"jwks": {"keys": []}}, "jwks"),
    (PEOPLE, {"jwks": {"keys": [RSA_PRIVATE]}}, "jwks"),
    (PEOPLE, {"jwks": {"keys": [{"kty": "oct", "kid": "k", "k": "c2VjcmV0"}]}}, "jwks"),
    (PEOPLE, {"jwks": {"keys": [{"kty": "OKP", "x": "A"}]}}, "jwks"),
    (PEOPLE, {"jwks": {"keys": [{"kty": "OKP", "kid": 1}]}}, "jwks"),
    (PEOPLE, {"usage": "robots"}, "usage"),
    (PEOPLE, {"step_up": "acr"}, "step_up"),
    (PEOPLE, {"step_up": "acr:"}, "step_up"),
    (PEOPLE, {"step_up": "iat"}, "step_up"),
    (
        PEOPLE,
        {"role_mappings": [ROLE_MAPPING | {"claims": {"/realm~access/roles": "a"}}]},
        "claims",
    ),
    (PROGRAMS, {"step_up": "sign_in"}, "step_up"),
    (PROGRAMS, {"token_exchange": False}, "token_exchange"),
    (PROGRAMS, {"client_id": "rescind"}, "client_id"),
    (
        PROGRAMS,
        {"role_mappings": [{"claims": {"repository_id": "77"}, "role": "signer"}]},
        "role_mappings",
    ),
    (
        PROGRAMS,
        {"role_mappings": [BUILDS | {"claims": {"ref": "refs/heads/main"}}]},
        "repository_id",
    ),
    (PROGRAMS, {"role_mappings": [BUILDS | {"claims": {"sub": "*"}}]}, "repository_id"),
]


@pytest.mark.parametrize(("good", "change", "named"), BAD)
def test_a_provider_that_would_let_in_others(
    standing: Tenant, good: dict[str, Any], change: dict[str, Any], named: str
) -> None:
    """IDENTITY-2, F1149e: A provider that admits others' people, or is malformed, is not bound.

    The error names the field.
    """
    entries = len(audit_entries(standing))
    answer = standing.admin.post(PATH, json=good | change)
    assert answer.status_code == 400
    assert named in answer.json()["error"]["message"]
    assert len(audit_entries(standing)) == entries


def test_a_change_must_fit_what_stays(tenant: Tenant) -> None:
    """IDENTITY-2, F1149f: A change is checked together with what it leaves as it is."""
    path = f"{PATH}/{bind(tenant, PROGRAMS)['id']}"
    before = tenant.admin.get(path).json()
    for change in ({"client_id": "x"}, {"role_mappings": [BUILDS | {"claims": {"ref": "x"}}]}):
        assert tenant.admin.request("PATCH", path, json=change).status_code == 400
    assert tenant.admin.get(path).json() == before
    changed = tenant.admin.request("PATCH", path, json={"session_seconds": 300}).json()
    assert changed == before | {"session_seconds": 300}
    assert stored(tenant, before["id"]).epoch == 1


def test_keys_that_are_not_fetched(tenant: Tenant) -> None:
    """F1149g: With its keys in the provider, nothing is asked of the issuer, also by a check."""
    path = f"{PATH}/{bind(tenant, PEOPLE)['id']}/check"
    answer = tenant.admin.post(path)
    assert answer.json() == {
        "authorization_endpoint": None,
        "device_authorization_endpoint": None,
        "token_endpoint": None,
        "jwks_uri": None,
        "is_stored": True,
    }


def test_roles_are_the_scopes_and_those_of_the_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    """AUTH-18, F1261b: A role is put and deleted by its name; the scopes stay as they are."""
    body = {"scopes": ["revoker"], "warrant_prefixes": ["svc_wrt_paris-"]}
    paris = body | {"name": "paris", "signing_keys": [], "is_built_in": False}
    assert tenant.admin.request("PUT", "/v1/roles/paris", json=body).json() == paris
    entries = len(audit_entries(tenant))
    assert tenant.admin.request("PUT", "/v1/roles/paris", json=body).json() == paris
    assert len(audit_entries(tenant)) == entries
    *built_in, last = tenant.admin.get("/v1/roles").json()["roles"]
    assert [(each["name"], each["is_built_in"]) for each in built_in] == [(s, True) for s in Scope]
    assert last == paris
    bound(tenant.ports, tenant.operator)
    assert other_tenant.admin.get("/v1/roles/paris").status_code == 404
    assert other_tenant.admin.delete("/v1/roles/paris").status_code == 404
    assert tenant.admin.request("PUT", "/v1/roles/admin", json=body).status_code == 409
    assert tenant.admin.delete("/v1/roles/admin").status_code == 409
    sessions.end_all(tenant.ports, tenant.id)
    assert tenant.admin.get("/v1/roles/paris").json() == paris
    assert tenant.admin.delete("/v1/roles/paris").status_code == 204
    assert tenant.admin.get("/v1/roles/paris").status_code == 404


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        ("Paris", {}, "name"),
        ("paris", {"scopes": []}, "scopes"),
        ("paris", {"scopes": ["root"]}, "scopes"),
        ("paris", {"warrant_prefixes": []}, "warrant_prefixes"),
        ("paris", {"warrant_prefixes": ["paris-"]}, "warrant_prefixes"),
        ("paris", {"warrant_prefixes": ["svc_wrt_"]}, "warrant_prefixes"),
        ("paris", {"warrant_prefixes": ["svc_wrt_a"] * 11}, "warrant_prefixes"),
        ("paris", {"signing_keys": ["svc_key_01m7yzmhg0ynzqw1fmh6whgvm5"]}, "signing_keys"),
        ("paris", {"signing_keys": ["x"]}, "signing_keys"),
    ],
)
def test_a_role_that_means_nothing(
    standing: Tenant, name: str, change: dict[str, Any], named: str
) -> None:
    """F1261c: A role of a wrong form is not stored; an empty list is not taken for no limit."""
    body = {"scopes": ["revoker"]} | change
    answer = standing.admin.request("PUT", f"/v1/roles/{name}", json=body)
    assert (answer.status_code, named in answer.text) == (400, True)


def test_a_tenant_has_twenty_roles(tenant: Tenant) -> None:
    """F1261d: A tenant has at most twenty roles, and an old one is still replaced."""
    paths, body = [f"/v1/roles/r{number}" for number in range(21)], {"scopes": ["signer"]}
    assert [tenant.admin.request("PUT", each, json=body).status_code for each in paths] == [
        *[200] * 20,
        409,
    ]
    body = {"scopes": ["revoker"]}
    assert tenant.admin.request("PUT", paths[0], json=body).status_code == 200


def test_a_role_holds_at_the_next_request(tenant: Tenant) -> None:
    """AUTH-18, F1261e: Another role under the name, or none, holds at the next request."""
    body = {"scopes": ["revoker", "signer"]}
    tenant.admin.request("PUT", "/v1/roles/paris", json=body)
    client = holding_role(tenant, "paris")
    who = client.get("/v1/whoami").json()
    assert (who["role"], who["scopes"]) == ("paris", ["revoker", "signer"])
    assert client.get("/v1/revocations").status_code == 200
    tenant.admin.request("PUT", "/v1/roles/paris", json={"scopes": ["signer"]})
    assert client.get("/v1/revocations").status_code == 403
    assert client.get("/v1/keys").status_code == 200
    tenant.admin.delete("/v1/roles/paris")
    assert client.get("/v1/keys").status_code == 403
    (provider,) = identity_providers.page(
        tenant.ports, tenant.operator, before=None, limit=9
    ).entries
    said = {"groups": "paris", "email_verified": True}
    with pytest.raises(SignInRefused, match="does not exist"):
        signed_in(tenant.ports, provider, sub="bob", members=said)
    with pytest.raises(InvalidRequest, match="each role"):
        holding_role(tenant, "paris")


def test_a_second_provider_of_an_issuer_gives_other_people(tenant: Tenant) -> None:
    """IDENTITY-4, F2121a: A provider gives none of the people of another provider of its issuer."""
    first, second = (bound(tenant.ports, tenant.operator) for _ in range(2))
    alice = signed_in(tenant.ports, first, sub="alice").session.owner
    with pytest.raises(SignInRefused, match="e-mail"):
        signed_in(tenant.ports, second, sub="alice")
    other = signed_in(tenant.ports, second, sub="alice", email="other@example.com").session.owner
    assert other != alice
    found = tenant.admin.get("/v1/people").json()["people"]
    assert [(each["id"], each["provider_id"]) for each in found] == [
        (other, second.id),
        (alice, first.id),
    ]
    created = tenant.admin.get("/v1/audit-logs?action=identity_provider.create").json()
    warned, silent = created["audit_logs"]
    assert warned["details"]["same_issuer"] == [first.id]
    assert "same_issuer" not in silent["details"]


def test_a_provider_that_is_bound_again_makes_new_people(tenant: Tenant) -> None:
    """IDENTITY-4, F2121b: The people of a deleted provider leave their e-mails to new people."""
    first = bound(tenant.ports, tenant.operator)
    people = [signed_in(tenant.ports, first, sub=name).session.owner for name in ("ann", "bob")]
    identity_providers.delete(tenant.ports, tenant.operator, provider_id=first.id)
    second = bound(tenant.ports, tenant.operator)
    ann = signed_in(tenant.ports, second, sub="ann").session.owner
    assert ann not in people
    # Another person of the new provider gets the e-mail later.
    carl = signed_in(tenant.ports, second, sub="carl").session.owner
    renamed = signed_in(tenant.ports, second, sub="carl", email="bob@example.com")
    assert renamed.session.owner == carl
    found = {each["id"]: each for each in tenant.admin.get("/v1/people").json()["people"]}
    assert [found[each]["status"] for each in people] == ["disabled"] * 2
    assert found[carl]["email"] == "bob@example.com"
    entries = tenant.admin.get("/v1/audit-logs?action=session.create").json()["audit_logs"]
    left = [people[1], None, people[0], None, None]
    assert [each["details"].get("disabled") for each in entries] == left
    with pytest.raises(Conflict):
        operations.enable(tenant.ports, tenant.operator, person_id=people[0])
