"""Approvals by two people over HTTP: what one person, or one stolen secret, cannot do alone."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from shared.errors import InvalidState
from shared.model.callers import Scope
from shared.model.identities.approvals import ProtectedAction
from shared.model.identities.providers import ProviderUsage, RoleMapping
from shared.model.identities.roles import Role
from shared.operations.identities import approvals as operations
from shared.operations.identities import identity_providers, people, protected_acts, roles, sessions
from shared.operations.identities.identity_providers import ProviderChange
from tests.kit.api import Client, Tenant
from tests.kit.endpoints import audit_entries, audited
from tests.kit.identities import JWKS, bound, signed_in
from tests.kit.issuers import ISSUER
from tests.kit.offices import ACTS, ASKING, WHY, Office, asked
from tests.kit.worlds import Clock

SOON = "2026-11-21T12:30:00Z"

_KEEP = {"made_keys": "keep"}


@pytest.fixture
def office(tenant: Tenant) -> Office:
    return Office(tenant)


def refused(answer: Any) -> str:
    """The message of an answer that the action needs an approval."""
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (403, "approval_required"), answer.text
    return str(error["message"])


def outcomes(answer: Any) -> dict[str, int]:
    assert answer.status_code == 200, answer.text
    found = [each["outcome"] for each in answer.json()["results"]]
    return {each: found.count(each) for each in found}


def delete(who: Client, revocation: str, headers: Any = None) -> Any:
    return who.delete(f"/v1/revocations/{revocation}", headers=headers or {})


def test_what_is_protected_is_read_and_set(office: Office) -> None:
    """APPROVAL-1, F1280a: A tenant has no protected action until one is set, which is audited."""
    assert office.alice.get(ACTS).json() == {"actions": [], "unrevoke_threshold": None}
    office.protects("tenant.remove", unrevoke_threshold=20)
    shown = {"actions": ["tenant.remove"], "unrevoke_threshold": 20}
    assert office.tenant.read_only.get(ACTS).json() == shown
    entry = audit_entries(office.tenant)[-1]
    assert (entry["action"], entry["resource_id"]) == (
        "tenant.update_protected_actions",
        office.tenant.id,
    )
    assert entry["details"]["changes"] == {
        "actions": {"old": [], "new": ["tenant.remove"]},
        "unrevoke_threshold": {"old": None, "new": 20},
    }


def test_a_tenant_does_not_lock_itself(tenant: Tenant) -> None:
    """APPROVAL-1, F1280b: Without two administrators who signed in, no action can be protected."""
    provider = bound(tenant.ports, tenant.operator)
    body = {"actions": ["tenant.remove"], "unrevoke_threshold": None}
    signed_in(tenant.ports, provider, sub="alice")
    assert tenant.admin.request("PUT", ACTS, json=body).status_code == 409
    made = signed_in(tenant.ports, provider, sub="bob")
    people.disable(tenant.ports, tenant.operator, person_id=made.session.owner)
    assert tenant.admin.request("PUT", ACTS, json=body).status_code == 409
    people.enable(tenant.ports, tenant.operator, person_id=made.session.owner)
    assert tenant.admin.request("PUT", ACTS, json=body).status_code == 200


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"actions": ["access.change"], "unrevoke_threshold": None}, "actions"),
        ({"actions": ["revocations.unrevoke"], "unrevoke_threshold": 1}, "actions"),
        ({"actions": ["keys.rotate"], "unrevoke_threshold": None}, "actions"),
        ({"actions": [], "unrevoke_threshold": -1}, "unrevoke_threshold"),
        ({"actions": []}, "unrevoke_threshold"),
    ],
)
def test_acts_that_there_are_not(tenant: Tenant, body: Any, named: str) -> None:
    """APPROVAL-1, F1280c: An action that cannot be protected by its name is refused."""
    answer = tenant.admin.request("PUT", ACTS, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(named)


def test_an_act_that_is_protected_otherwise(tenant: Tenant) -> None:
    """APPROVAL-1, F2856a: The error says how an action without a name in the list is protected."""
    for action, said in (
        ("access.change", "is implied"),
        ("revocations.unrevoke", "unrevoke_threshold"),
    ):
        answer = tenant.admin.request(
            "PUT", ACTS, json={"actions": [action], "unrevoke_threshold": None}
        )
        assert (answer.status_code, said in answer.json()["error"]["message"]) == (400, True)


def test_one_asks_another_approves(office: Office) -> None:
    """APPROVAL-2, APPROVAL-3, F1281a: A person asks, another approves, and then it is done."""
    office.protects("revocations.unrevoke_others")
    (revocation,) = office.revoked(1)
    before = audited(office.tenant)
    said = asked(delete(office.alice, revocation, ASKING))
    assert audited(office.tenant) == before + 1
    found = office.seen(said["approval_id"])
    assert said == {
        "approval_id": found["id"],
        "action": "revocations.unrevoke_others",
        "subject": revocation,
        "count": 1,
        "expires_at": "2026-11-22T12:00:00Z",
    }
    assert (found["status"], found["reason"]) == ("pending", WHY)
    assert (found["requested_by"], found["decided_by"]) == ("alice@example.com", None)
    (group,) = found["details"]["groups"]
    assert (group["created_by"], group["count"]) == ("carol@example.com", 1)
    assert found["details"]["warrant_id"].startswith("svc_wrt_")
    use = {"Rescind-Approval": said["approval_id"]}
    assert "pending" in refused(delete(office.alice, revocation, use))
    decided = office.bob.post(f"/v1/approvals/{said['approval_id']}/approve").json()
    assert (decided["status"], decided["decided_by"]) == ("approved", "bob@example.com")
    assert (decided["decided_by_id"], decided["expires_at"]) == (
        office.bob.key_id,
        "2026-11-21T13:00:00Z",
    )
    assert delete(office.alice, revocation, use).status_code == 204
    assert office.seen(said["approval_id"])["remaining"] == 0
    actions = [each["action"] for each in audit_entries(office.tenant)[-4:]]
    assert actions[:2] == ["approval.request", "approval.approve"]
    assert sorted(map(str, actions[2:])) == ["approval.consume", "revocation.delete"]


def test_the_own_is_unrevoked_alone(office: Office) -> None:
    """APPROVAL-1, F1281b: With `unrevoke_others`, who revoked takes back without an approval."""
    office.protects("revocations.unrevoke_others")
    own, theirs = office.revoked(3), office.revoked(1, by=office.bob)
    assert delete(office.carol, own[0]).status_code == 204
    assert outcomes(office.unrevoke(office.carol, own[1:])) == {"unrevoked": 2}
    refused(delete(office.carol, theirs[0]))
    refused(office.unrevoke(office.carol, theirs))
    refused(delete(office.tenant.admin, theirs[0]))


def test_another_key_of_an_account_is_another(office: Office) -> None:
    """APPROVAL-1, F1281c: An administrator takes nothing back by a key of the account.

    Such a key needs no approval, and the identity of its calls is that of the account.
    """
    office.protects("revocations.unrevoke_others")
    account = office.alice.post("/v1/service-accounts", json={"name": "soc"}).json()["id"]
    body = {"name": "k", "scopes": ["revoker"], "expires_at": "2026-12-24T00:00:00Z"}
    body |= {"service_account_id": account}
    tool, other = (office.alice.post("/v1/api-keys", json=body).json() for _ in range(2))
    path = f"/v1/api-keys/{tool['id']}/rotate"
    successor = office.alice.post(path, json={"grace_seconds": 600}).json()
    owner = office.tenant.holding(tool["key"])
    first, second = office.revoked(2, by=owner)
    for key in (other, successor):
        refused(delete(office.tenant.holding(key["key"]), first))
        refused(office.unrevoke(office.tenant.holding(key["key"]), [first, second]))
    assert delete(owner, first).status_code == 204
    assert outcomes(office.unrevoke(owner, [second])) == {"unrevoked": 1}


def test_a_reused_email_owns_nothing(office: Office) -> None:
    """APPROVAL-1, F2120a: A new person with the e-mail of another owns none of the revocations."""
    office.protects("revocations.unrevoke_others")
    first, second = office.revoked(2)
    shown = office.alice.get(f"/v1/revocations/{first}").json()
    assert shown["created_by_id"] == office.carol.key_id
    assert office.alice.post(f"/v1/people/{office.carol.key_id}/disable", json=_KEEP).is_success
    heir = office.person("carol-2", Scope.REVOKER, email="carol@example.com")
    refused(delete(heir, first))
    refused(office.unrevoke(heir, [first, second]))
    own = office.revoked(1, by=heir)
    assert delete(heir, own[0]).status_code == 204


def test_a_reused_email_takes_nothing_back(office: Office) -> None:
    """REVOKE-9, F2120b: With `unrevoke_policy` `own`, the heir of an e-mail unrevokes nothing."""
    office.alice.request("PATCH", "/v1/tenant/settings", json={"unrevoke_policy": "own"})
    (revocation,) = office.revoked(1)
    office.alice.post(f"/v1/people/{office.carol.key_id}/disable", json=_KEEP)
    heir = office.person("carol-2", Scope.REVOKER, email="carol@example.com")
    assert delete(heir, revocation).status_code == 403
    assert outcomes(office.unrevoke(heir, [revocation])) == {"failed": 1}


def test_a_salami_of_small_ones(office: Office, clock: Clock) -> None:
    """APPROVAL-1, F1282a: In any hour, singles and batches take back no more than the limit."""
    office.protects(unrevoke_threshold=5)
    made = office.revoked(14)
    assert delete(office.carol, made.pop()).status_code == 204
    clock.advance(minutes=30)
    office.sign_in()
    assert outcomes(office.unrevoke(office.alice, [made.pop(), made.pop()])) == {"unrevoked": 2}
    key = office.tenant.client(Scope.REVOKER)
    assert outcomes(office.unrevoke(key, [made.pop(), made.pop()])) == {"unrevoked": 2}
    clock.advance(minutes=30)
    office.sign_in()
    for who in (office.carol, office.alice, key, office.tenant.admin):
        refused(delete(who, made[0]))
        refused(office.unrevoke(who, made[:2]))
    clock.advance(minutes=1)
    office.sign_in()
    assert delete(office.carol, made.pop()).status_code == 204
    refused(delete(office.carol, made[0]))
    clock.advance(minutes=61)
    office.sign_in()
    refused(office.unrevoke(office.alice, made[:6]))
    assert outcomes(office.unrevoke(office.alice, made[:5])) == {"unrevoked": 5}


def test_approved_ones_do_not_count(office: Office) -> None:
    """APPROVAL-1, F1282b: What was approved takes nothing from the number of an hour."""
    office.protects(unrevoke_threshold=2)
    made = office.revoked(6)
    assert delete(office.alice, made[4]).status_code == 204
    assert delete(office.alice, made[3]).status_code == 204
    for each in made[:3]:
        use = office.approved(delete(office.alice, each, ASKING))
        assert delete(office.alice, each, use).status_code == 204
    refused(delete(office.alice, made[5]))


def test_an_approval_for_an_own_revocation_covers_no_other(office: Office) -> None:
    """APPROVAL-2, F2911a: An approval for an own revocation is void once another person repeats it.

    The deletion is another action then.
    """
    office.protects("revocations.unrevoke_others", unrevoke_threshold=0)
    (own,) = office.revoked(1, office.alice)
    use = office.approved(delete(office.alice, own, ASKING))
    listed = office.alice.get("/v1/revocations").json()["revocations"]
    (warrant_id,) = (each["warrant_id"] for each in listed if each["id"] == own)
    body = {"warrant_id": warrant_id, "reason": "stolen, too"}
    assert office.bob.post("/v1/revocations", json=body).is_success
    assert "another action" in refused(delete(office.alice, own, use))


def test_the_requester_does_not_approve(office: Office) -> None:
    """APPROVAL-3, F1283a: Neither the requester, nor a key, nor who is no administrator approves.

    Nor does a key reject, or who is no administrator.
    """
    office.protects("revocations.unrevoke_others")
    (revocation,) = office.revoked(1)
    approval = asked(delete(office.alice, revocation, ASKING))["approval_id"]
    program = office.tenant.client(Scope.ADMIN)
    for verb in ("approve", "reject"):
        for who in (program, office.carol, *([office.alice] if verb == "approve" else [])):
            answer = who.post(f"/v1/approvals/{approval}/{verb}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (
                403,
                "insufficient_scope",
            )
    assert office.seen(approval)["status"] == "pending"
    refused(delete(office.alice, revocation, {"Rescind-Approval": approval}))


@pytest.mark.parametrize("is_approved", [False, True])
def test_the_requester_withdraws(office: Office, is_approved: bool) -> None:
    """APPROVAL-3, F2843a: The requester, if an administrator, rejects an own request.

    It is then neither used nor approved, and other requests stay.
    """
    office.protects("revocations.unrevoke_others")
    first, second = office.revoked(2)
    alice = office.alice
    approval, other = (
        asked(delete(alice, each, ASKING))["approval_id"] for each in (first, second)
    )
    if is_approved:
        assert office.bob.post(f"/v1/approvals/{approval}/approve").is_success
    made = alice.post(f"/v1/approvals/{approval}/reject")
    assert (made.status_code, made.json().get("status")) == (200, "rejected"), made.text
    assert made.json()["decided_by_id"] == alice.key_id
    assert audit_entries(office.tenant)[-1]["action"] == "approval.reject"
    assert "rejected" in refused(delete(alice, first, {"Rescind-Approval": approval}))
    assert office.bob.post(f"/v1/approvals/{approval}/approve").status_code == 409
    assert office.seen(other)["status"] == "pending"


def test_a_new_session_is_the_same_person(office: Office) -> None:
    """APPROVAL-3, F1283b: A requester who signs in again, under a new e-mail, does not approve."""
    office.protects("revocations.unrevoke_others")
    (revocation,) = office.revoked(1)
    approval = asked(delete(office.alice, revocation, ASKING))["approval_id"]
    again = office.person("alice", email="other@example.com")
    assert again.post(f"/v1/approvals/{approval}/approve").status_code == 403


def _another_act(office: Office, use: dict[str, str]) -> Any:
    return _send(office.alice, _create_key(office), use)


def _another_subject(office: Office, use: dict[str, str]) -> Any:
    return delete(office.alice, office.revoked(1)[0], use)


def _a_manifest(office: Office, use: dict[str, str]) -> Any:
    path = office.manifest(office.alice, office.revoked(1))
    return office.alice.post(path, json={"reason": "r"}, headers=use)


MISUSES: list[Callable[[Office, dict[str, str]], Any]] = [
    _another_act,
    _another_subject,
    _a_manifest,
]


@pytest.mark.parametrize("misuse", MISUSES)
def test_an_approval_for_something_else(
    office: Office, misuse: Callable[[Office, dict[str, str]], Any]
) -> None:
    """APPROVAL-2, F1284a: An approval is for its action and its subject alone."""
    office.protects("revocations.unrevoke_others", "admin_keys.create")
    (revocation,) = office.revoked(1)
    use = office.approved(delete(office.alice, revocation, ASKING))
    refused(misuse(office, use))
    assert office.seen(use["Rescind-Approval"])["remaining"] == 1
    assert delete(office.alice, revocation, use).status_code == 204


def test_an_approval_of_another(office: Office, other_tenant: Tenant) -> None:
    """APPROVAL-2, F1284b: Neither another person, nor a key, nor another tenant uses it."""
    office.protects("revocations.unrevoke_others")
    (revocation,) = office.revoked(1)
    use = office.approved(delete(office.alice, revocation, ASKING))
    assert "Another person" in refused(delete(office.bob, revocation, use))
    assert "person" in refused(delete(office.tenant.admin, revocation, use))
    stranger = Office(other_tenant)
    stranger.protects("revocations.unrevoke_others")
    (theirs,) = stranger.revoked(1)
    assert "no such" in refused(delete(stranger.alice, theirs, use))
    path = f"/v1/approvals/{use['Rescind-Approval']}"
    assert stranger.bob.get(path).status_code == 404
    assert stranger.bob.post(f"{path}/reject").status_code == 404


def test_an_approval_is_used_once(office: Office) -> None:
    """APPROVAL-2, F1284c: An approval of one action is used once."""
    office.protects("admin_keys.create")
    call = _create_key(office)
    use = office.approved(_send(office.alice, call, ASKING))
    assert _send(office.alice, call, use).status_code == 201
    assert "was used already" in refused(_send(office.alice, call, use))


def test_the_time_of_an_approval(office: Office, clock: Clock) -> None:
    """APPROVAL-3, F1284d: A request waits 24 hours, and an approval is used within one.

    Then both are shown as expired.
    """
    office.protects("revocations.unrevoke_others")
    first, second = office.revoked(2)
    pending = asked(delete(office.alice, first, ASKING))["approval_id"]
    use = office.approved(delete(office.alice, second, ASKING))
    clock.advance(hours=1)
    assert "expired" in refused(delete(office.alice, second, use))
    clock.advance(hours=22, minutes=59)
    bob = office.person("bob")
    assert bob.get("/v1/approvals?status=pending").json()["approvals"][0]["id"] == pending
    clock.advance(minutes=1)
    assert bob.get("/v1/approvals?status=pending").json()["approvals"] == []
    ended = bob.get("/v1/approvals?status=expired").json()["approvals"]
    assert [each["id"] for each in ended] == [use["Rescind-Approval"], pending]
    assert bob.get(f"/v1/approvals/{pending}").json()["status"] == "expired"
    answer = bob.post(f"/v1/approvals/{pending}/approve")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "invalid_state")


def test_what_was_rejected(office: Office) -> None:
    """APPROVAL-3, F1284e: What was rejected is not used, nor approved later; an approval ends."""
    office.protects("revocations.unrevoke_others")
    first, second = office.revoked(2)
    approval = asked(delete(office.alice, first, ASKING))["approval_id"]
    assert office.bob.post(f"/v1/approvals/{approval}/reject").json()["status"] == "rejected"
    assert office.bob.post(f"/v1/approvals/{approval}/approve").status_code == 409
    assert "rejected" in refused(delete(office.alice, first, {"Rescind-Approval": approval}))
    use = office.approved(delete(office.alice, second, ASKING))
    office.bob.post(f"/v1/approvals/{use['Rescind-Approval']}/reject")
    assert "rejected" in refused(delete(office.alice, second, use))


def test_a_restore_drops_approvals(office: Office, clock: Clock) -> None:
    """APPROVAL-3, F1284f: After a recovery, no approval of before is decided on or used."""
    office.protects("revocations.unrevoke_others")
    first, second = office.revoked(2)
    pending = asked(delete(office.alice, first, ASKING))["approval_id"]
    use = office.approved(delete(office.alice, second, ASKING))
    sessions.end_all(office.tenant.ports, office.tenant.id)
    clock.advance(seconds=1)
    office.sign_in()
    assert office.bob.post(f"/v1/approvals/{pending}/approve").status_code == 409
    assert "expired" in refused(delete(office.alice, second, use))


def _create_key(office: Office) -> tuple[str, str, Any]:
    body = {"name": "k", "scopes": ["read-only", "admin"], "expires_at": SOON}
    return "POST", "/v1/api-keys", body


def _key_of_a_role(office: Office) -> tuple[str, str, Any]:
    return "POST", "/v1/api-keys", {"name": "k", "role": "admin", "expires_at": SOON}


def _rotate_key(office: Office) -> tuple[str, str, Any]:
    key_id = office.tenant.client(Scope.ADMIN).key_id
    return "POST", f"/v1/api-keys/{key_id}/rotate", {"grace_seconds": 60, "expires_at": SOON}


def _enable_account(office: Office) -> tuple[str, str, Any]:
    return _enable(office, scopes=["read-only", "admin"])


def _enable_a_role(office: Office) -> tuple[str, str, Any]:
    return _enable(office, role="admin")


def _enable_a_grant(office: Office) -> tuple[str, str, Any]:
    mapping = RoleMapping({"sub": "repo:acme/app"}, "admin", "soc")
    ports, operator = office.tenant.ports, office.tenant.operator
    bound(ports, operator, ProviderUsage.WORKLOAD, role_mappings=(mapping,))
    return _enable(office)


def _enable(office: Office, **gives: Any) -> tuple[str, str, Any]:
    """What enables a disabled account, with a key that gives this if anything."""
    admin = office.tenant.admin
    account = admin.post("/v1/service-accounts", json={"name": "soc"}).json()["id"]
    if gives:
        body = {"name": "k", "service_account_id": account, **gives}
        assert admin.post("/v1/api-keys", json=body).is_success
    assert admin.post(f"/v1/service-accounts/{account}/disable").is_success
    return "POST", f"/v1/service-accounts/{account}/enable", None


def _force(office: Office) -> tuple[str, str, Any]:
    made = office.alice.post("/v1/revocations/srl/keys").json()
    return "POST", f"/v1/revocations/srl/keys/{made['key_id']}/activate", {"force": True}


def _bind(office: Office) -> tuple[str, str, Any]:
    body: dict[str, Any] = {"name": "SSO", "usage": "sign_in", "issuer": ISSUER, "client_id": "x"}
    body["jwks"] = JWKS
    body["role_mappings"] = [{"claims": {"groups": "all"}, "role": "admin"}]
    return "POST", "/v1/tenant/identity-providers", body


def _rename(office: Office) -> tuple[str, str, Any]:
    return "PATCH", f"/v1/tenant/identity-providers/{office.provider.id}", {"name": "new"}


def _unbind(office: Office) -> tuple[str, str, Any]:
    provider = bound(office.tenant.ports, office.tenant.operator)
    return "DELETE", f"/v1/tenant/identity-providers/{provider.id}", None


def _widen(office: Office) -> tuple[str, str, Any]:
    return "PUT", "/v1/roles/paris", {"scopes": ["admin"]}


def _drop_role(office: Office) -> tuple[str, str, Any]:
    role = Role("paris", (Scope.REVOKER,))
    roles.put_role(office.tenant.ports, office.tenant.operator, role=role)
    return "DELETE", "/v1/roles/paris", None


def _enable_person(office: Office) -> tuple[str, str, Any]:
    person = office.carol.key_id or ""
    people.disable(office.tenant.ports, office.tenant.operator, person_id=person)
    return "POST", f"/v1/people/{person}/enable", None


def _unprotect(office: Office) -> tuple[str, str, Any]:
    return "PUT", ACTS, {"actions": [], "unrevoke_threshold": None}


def _rotate_signer(office: Office) -> tuple[str, str, Any]:
    return "POST", "/v1/revocations/srl/keys/rotate", {}


def _stolen_signer(office: Office) -> tuple[str, str, Any]:
    return "POST", "/v1/revocations/srl/keys/rotate", {"compromised": True}


def _revoke_signer(office: Office) -> tuple[str, str, Any]:
    active = office.alice.get("/v1/revocations/srl/keys").json()["keys"][0]
    return "POST", f"/v1/revocations/srl/keys/{active['key_id']}/revoke", None


def _lengthen_lists(office: Office) -> tuple[str, str, Any]:
    return "PATCH", "/v1/tenant/settings", {"srl_ttl_seconds": 3601}


def _shorten_audit(office: Office) -> tuple[str, str, Any]:
    return "PATCH", "/v1/tenant/settings", {"audit_retention_days": 399, "name": "new"}


def _let_anyone_unrevoke(office: Office) -> tuple[str, str, Any]:
    made = office.alice.request("PATCH", "/v1/tenant/settings", json={"unrevoke_policy": "own"})
    assert made.is_success
    return "PATCH", "/v1/tenant/settings", {"unrevoke_policy": "any"}


def _shorten_grace(office: Office) -> tuple[str, str, Any]:
    return "PATCH", "/v1/tenant/settings", {"rotation_grace_seconds": 0}


def _delay_feed(office: Office) -> tuple[str, str, Any]:
    return "PATCH", "/v1/tenant/settings", {"feed_window_ms": 60_000}


def _keep_unused(office: Office) -> tuple[str, str, Any]:
    made = office.alice.request("PATCH", "/v1/tenant/settings", json={"unused_key_days": 30})
    assert made.is_success
    return "PATCH", "/v1/tenant/settings", {"unused_key_days": 0}


def _revoke_root(office: Office) -> tuple[str, str, Any]:
    made = office.alice.post("/v1/keys", json={"type": "root", "name": "root"}).json()
    return "POST", f"/v1/keys/{made['id']}/revoke", {"reason": "stolen", "cascade": True}


def _rotate_status(office: Office) -> tuple[str, str, Any]:
    office.alice.post("/v1/status-lists", json={"name": "l", "url": "https://a.example.com"})
    return "POST", "/v1/status-lists/keys/rotate", None


ACTS_ONCE: list[tuple[str, Callable[[Office], tuple[str, str, Any]]]] = [
    ("admin_keys.create", _create_key),
    ("admin_keys.create", _key_of_a_role),
    ("admin_keys.create", _rotate_key),
    ("admin_keys.create", _enable_account),
    ("admin_keys.create", _enable_a_role),
    ("admin_keys.create", _enable_a_grant),
    ("srl_signers.force_activate", _force),
    ("srl_signers.force_activate", _rotate_signer),
    ("srl_signers.force_activate", _stolen_signer),
    ("srl_signers.force_activate", _revoke_signer),
    ("settings.weaken", _lengthen_lists),
    ("settings.weaken", _shorten_audit),
    ("settings.weaken", _let_anyone_unrevoke),
    ("settings.weaken", _shorten_grace),
    ("settings.weaken", _delay_feed),
    ("settings.weaken", _keep_unused),
    ("signing_keys.revoke_root", _revoke_root),
    ("status_signer.rotate", _rotate_status),
    ("access.change", _bind),
    ("access.change", _rename),
    ("access.change", _unbind),
    ("access.change", _widen),
    ("access.change", _drop_role),
    ("access.change", _enable_person),
    ("access.change", _unprotect),
]


def _send(who: Client, call: tuple[str, str, Any], headers: dict[str, str]) -> Any:
    method, path, body = call
    options = {} if body is None else {"content": json.dumps(body).encode()}
    return who.request(
        method, path, headers={"Content-Type": "application/json", **headers}, **options
    )


@pytest.mark.parametrize(("action", "make"), ACTS_ONCE)
def test_acts_that_are_done_once(
    office: Office, action: str, make: Callable[[Office], tuple[str, str, Any]]
) -> None:
    """APPROVAL-1, APPROVAL-2, F1285a: Each action is refused alone, and done with its approval.

    The approval holds for that request alone, with its method, path and body.
    """
    call = make(office)
    office.protects("tenant.remove", *([] if action == "access.change" else [action]))
    entries = audited(office.tenant)
    for who in (office.tenant.admin, office.alice):
        refused(_send(who, call, {}))
    refused(_send(office.tenant.admin, call, ASKING))
    assert audited(office.tenant) == entries
    answer = _send(office.alice, call, ASKING)
    assert asked(answer)["action"] == action
    assert audited(office.tenant) == entries + 1
    use = office.approved(answer)
    method, path, body = call
    if body is not None:
        other = json.dumps(body).encode() + b" "
        refused(
            office.alice.request(
                method, path, content=other, headers={"Content-Type": "application/json", **use}
            )
        )
    answer = _send(office.alice, call, use)
    assert answer.status_code in (200, 201, 204), answer.text
    assert office.seen(use["Rescind-Approval"])["remaining"] == 0


# The actions whose approval has a difference of a record.
DESCRIBED = ("admin_keys.create", "access.change", "settings.weaken")


@pytest.mark.parametrize(("action", "make"), [each for each in ACTS_ONCE if each[0] in DESCRIBED])
def test_the_audit_log_has_what_was_approved(
    office: Office, action: str, make: Callable[[Office], tuple[str, str, Any]]
) -> None:
    """APPROVAL-2, F2101a: The approval and the audit entry have the same difference."""
    call = make(office)
    office.protects("tenant.remove", *([] if action == "access.change" else [action]))
    use = office.approved(_send(office.alice, call, ASKING))
    approved = office.seen(use["Rescind-Approval"])["details"]
    assert approved["changes"]
    assert _send(office.alice, call, use).is_success
    written = [each["details"] for each in audit_entries(office.tenant)[-2:]]
    assert approved["changes"] in [each.get("changes") for each in written]


def test_the_approver_sees_the_keys_of_a_provider(office: Office) -> None:
    """APPROVAL-2, F2101b: An approval of other keys of a provider shows both thumbprints.

    Whoever has the private keys of a provider signs in as each of its people.
    """
    office.protects("tenant.remove")
    forged = {"keys": [JWKS["keys"][0] | {"x": "B" * 42 + "A"}]}
    path = f"/v1/tenant/identity-providers/{office.provider.id}"
    body = {"name": "shorter sessions", "jwks": forged, "client_secret": "s" * 20}
    answer = office.alice.request("PATCH", path, json=body, headers=ASKING)
    changes = office.seen(asked(answer)["approval_id"])["details"]["changes"]
    prints = {each: changes["jwks"][each][0]["thumbprint"] for each in ("old", "new")}
    assert prints["old"] != prints["new"]
    assert changes["name"] == {"old": "SSO", "new": "shorter sessions"}
    assert changes["client_secret_sha256"]["new"] == hashlib.sha256(b"s" * 20).hexdigest()
    assert "epoch" in changes


def _changed_otherwise(office: Office, call: tuple[str, str, Any]) -> None:
    """What the operator changes about what a request is for."""
    ports, operator, path = office.tenant.ports, office.tenant.operator, call[1]
    if path.startswith("/v1/roles"):
        roles.put_role(ports, operator, role=Role("rome", (Scope.REVOKER,)))
    elif path == ACTS:
        protected_acts.update(
            ports, operator, actions=(ProtectedAction.REMOVE_TENANT,), unrevoke_threshold=9
        )
    else:
        change = ProviderChange(name="renamed")
        identity_providers.update(ports, operator, provider_id=path.split("/")[4], change=change)


@pytest.mark.parametrize("name", ["_rename", "_unbind", "_widen", "_drop_role", "_unprotect"])
def test_an_approval_is_for_the_record_that_was_compared(office: Office, name: str) -> None:
    """APPROVAL-2, F2101c: An approval is refused if the record has changed since it was asked."""
    call = globals()[name](office)
    office.protects("tenant.remove")
    use = office.approved(_send(office.alice, call, ASKING))
    _changed_otherwise(office, call)
    assert "has changed after the request" in refused(_send(office.alice, call, use))
    use = office.approved(_send(office.alice, call, ASKING))
    assert _send(office.alice, call, use).is_success


@pytest.mark.parametrize(("action", "make"), ACTS_ONCE)
def test_asking_changes_nothing(
    office: Office, action: str, make: Callable[[Office], tuple[str, str, Any]]
) -> None:
    """APPROVAL-2, F1285b: A request that asks in vain, for what is not protected, is not made."""
    call, entries = make(office), audited(office.tenant)
    answer = _send(office.alice, call, ASKING)
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "invalid_state"), action
    assert audited(office.tenant) == entries


def test_asking_in_vain_takes_nothing_back(office: Office) -> None:
    """APPROVAL-2, F1285c: A take-back that needs no approval, and asks for one, is not made."""
    (revocation,) = office.revoked(1)
    entries = audited(office.tenant)
    for limit in (None, 1):
        if limit is not None:
            office.protects(unrevoke_threshold=limit)
            entries = audited(office.tenant)
        assert delete(office.alice, revocation, ASKING).status_code == 409
        assert audited(office.tenant) == entries


def test_an_account_that_gives_no_admin(office: Office, clock: Clock) -> None:
    """APPROVAL-1, F2852a: An account is enabled freely if nothing of it gives `admin`."""
    admin, (_, enable, _) = office.tenant.admin, _enable(office, scopes=["revoker"])
    office.protects("admin_keys.create")
    assert office.tenant.admin.post(enable).is_success
    assert office.alice.post(enable, headers=ASKING).status_code == 409
    office.protects_nothing()
    body = {"name": "k", "service_account_id": enable.split("/")[3], "scopes": ["admin"]}
    revoked = admin.post("/v1/api-keys", json=body).json()["id"]
    assert admin.post(f"/v1/api-keys/{revoked}/revoke").is_success
    assert admin.post("/v1/api-keys", json=body | {"expires_at": SOON}).is_success
    assert admin.post(enable.replace("enable", "disable")).is_success
    office.protects("admin_keys.create")
    refused(admin.post(enable))
    clock.advance(hours=1)
    assert admin.post(enable).is_success


def test_nobody_shortens_the_grace_alone(office: Office) -> None:
    """APPROVAL-1, F2850d: Nobody alone activates a list signer early by another grace."""
    office.protects("srl_signers.force_activate", "settings.weaken")
    made = office.alice.post("/v1/revocations/srl/keys").json()
    for who in (office.alice, office.tenant.admin):
        for body in ({"rotation_grace_seconds": 0}, {"srl_ttl_seconds": 300}):
            refused(who.request("PATCH", "/v1/tenant/settings", json=body))
    answer = office.alice.post(f"/v1/revocations/srl/keys/{made['key_id']}/activate", json={})
    assert answer.status_code == 409


def test_a_key_rotates_itself(office: Office) -> None:
    """APPROVAL-1, F1285d: An admin key may rotate itself; a key of another scope is made freely."""
    office.protects("admin_keys.create")
    admin = office.tenant.admin
    path = f"/v1/api-keys/{admin.key_id}/rotate"
    refused(office.alice.post(path, json={"grace_seconds": 60, "expires_at": SOON}))
    body = {"name": "k", "scopes": ["revoker"]}
    assert admin.post("/v1/api-keys", json=body).status_code == 201
    assert admin.post(path, json={"grace_seconds": 60}).status_code == 201


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"Rescind-Approval": "yes"}, "Rescind-Approval:"),
        ({"Rescind-Approval": "svc_apr_1"}, "Rescind-Approval:"),
        ({"Rescind-Approval": "request"}, "Rescind-Approval-Reason:"),
        (ASKING | {"Rescind-Approval-Reason": "%20"}, "Rescind-Approval-Reason:"),
        (ASKING | {"Rescind-Approval-Reason": "%ff"}, "Rescind-Approval-Reason:"),
        ({"Rescind-Approval-Reason": "why"}, "Rescind-Approval-Reason:"),
    ],
)
def test_headers_that_are_malformed(office: Office, headers: dict[str, str], named: str) -> None:
    """APPROVAL-2, F1286a: A malformed header about an approval is refused, and nothing is done."""
    (revocation,) = office.revoked(1)
    answer = delete(office.alice, revocation, headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(named)


def test_an_endpoint_without_approvals(office: Office) -> None:
    """APPROVAL-2, F1286b: A request to an endpoint that needs no approval is not made with one."""
    body = {"warrant_id": "svc_wrt_a", "reason": "r"}
    answer = office.alice.post("/v1/revocations", json=body, headers=ASKING)
    assert answer.status_code == 400
    assert office.alice.get("/v1/revocations").json()["total"] == 0


def test_others_see_their_own(office: Office) -> None:
    """APPROVAL-3, F1286c: Who cannot read the settings sees the own approvals alone."""
    office.protects(unrevoke_threshold=0)
    first, second = office.revoked(2)
    own = asked(delete(office.carol, first, ASKING))["approval_id"]
    other = asked(delete(office.alice, second, ASKING))["approval_id"]
    listed = office.carol.get("/v1/approvals").json()["approvals"]
    assert [each["id"] for each in listed] == [own]
    assert office.carol.get(f"/v1/approvals/{other}").status_code == 404
    assert office.tenant.client(Scope.REVOKER).get("/v1/approvals").json()["approvals"] == []
    listed = office.tenant.read_only.get("/v1/approvals").json()["approvals"]
    assert [each["id"] for each in listed] == [other, own]
    use = office.approved(delete(office.carol, first, ASKING))
    assert delete(office.carol, first, use).status_code == 204


def test_the_operator_overrides(office: Office) -> None:
    """APPROVAL-4, F1287a: The operator approves in place of a person, and the audit log says so.

    A used approval cannot be approved again.
    """
    office.protects("revocations.unrevoke_others")
    (revocation,) = office.revoked(1)
    approval = asked(delete(office.alice, revocation, ASKING))["approval_id"]
    ports, operator = office.tenant.ports, office.tenant.operator
    for _ in range(2):
        done = operations.override(ports, operator, approval_id=approval, reason="Bob is ill")
        assert (done.decided_by, done.decided_by_id) == (operator.identity, None)
    entry = audit_entries(office.tenant)[-1]
    assert (entry["action"], entry["resource_id"]) == ("approval.override", approval)
    assert entry["actor"] == operator.identity
    use = {"Rescind-Approval": approval}
    assert delete(office.alice, revocation, use).status_code == 204
    assert office.seen(approval)["status"] == "used"
    with pytest.raises(InvalidState, match="is used; request another"):
        operations.override(ports, operator, approval_id=approval, reason="Bob is ill")
