"""Approvers over HTTP: who may approve, when, and how many of them there are (APPROVAL-5)."""

from dataclasses import replace
from typing import Any

import pytest

from functions.transparency_log import sealing
from shared.errors import InvalidState
from shared.model.callers import Scope
from shared.model.identities.providers import RoleMapping
from shared.model.identities.roles import Role
from shared.operations.identities import approvals, identity_providers, people, roles
from shared.operations.identities.identity_providers import ProviderChange
from shared.ports.store import Put, VersionIs
from tests.kit.api import Client, Tenant
from tests.kit.endpoints import audited
from tests.kit.identities import JWKS, bound, signed_in
from tests.kit.log_lines import lines, metrics
from tests.kit.offices import ACTS, ASKING, Office, asked
from tests.kit.worlds import Clock

PROVIDERS = "/v1/tenant/identity-providers"
FORGED: dict[str, Any] = {"keys": [JWKS["keys"][0] | {"x": "B" * 42 + "A"}]}
TOO_FEW = (409, "too_few_approvers")


@pytest.fixture
def office(tenant: Tenant) -> Office:
    made = Office(tenant)
    made.protects("revocations.unrevoke_others")
    return made


def answered(answer: Any) -> tuple[int, str]:
    """The status and the code of an answer; no code if it is no error."""
    return answer.status_code, answer.json()["error"]["code"] if answer.is_error else ""


def delete(who: Client, revocation: str, headers: Any) -> Any:
    return who.delete(f"/v1/revocations/{revocation}", headers=headers)


def disable(office: Office, who: Client) -> Any:
    return office.alice.post(f"/v1/people/{who.key_id}/disable", json={"made_keys": "keep"})


def _disabled(office: Office) -> None:
    office.person("dora")
    assert disable(office, office.bob).is_success


def test_nobody_brings_an_approver_back_alone(office: Office) -> None:
    """APPROVAL-1, F2853a: While anything is protected, to enable a person needs an approval."""
    dora = office.person("dora")
    assert disable(office, dora).is_success
    path = f"/v1/people/{dora.key_id}/enable"
    for who in (office.alice, office.tenant.admin):
        assert answered(who.post(path)) == (403, "approval_required")
    use = office.approved(office.alice.post(path, headers=ASKING))
    assert office.alice.post(path, headers=use).is_success
    assert answered(office.alice.post(path, headers=ASKING)) == (409, "invalid_state")


def at_another_provider(office: Office, name: str) -> Client:
    """The same subject of the same issuer, at another provider of the tenant."""
    provider = bound(office.tenant.ports, office.tenant.operator)
    email = f"{name}@example.org"
    made = signed_in(office.tenant.ports, provider, sub=name, email=email)
    return Client(office.tenant.admin.http, made.secret, made.session.owner)


def test_the_same_subject_is_no_other_person(tenant: Tenant) -> None:
    """APPROVAL-3, F2854a: One subject of an issuer at two providers does not approve alone."""
    office = Office(tenant)
    twin = at_another_provider(office, "alice")
    office.protects("revocations.unrevoke_others")
    (revocation,) = office.revoked(1)
    approval = asked(delete(office.alice, revocation, ASKING))["approval_id"]
    answer = twin.post(f"/v1/approvals/{approval}/approve")
    assert answered(answer) == (403, "insufficient_scope")
    assert twin.key_id != office.alice.key_id
    assert office.bob.post(f"/v1/approvals/{approval}/approve").is_success


def test_the_same_subject_is_one_approver(
    tenant: Tenant, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """APPROVAL-5, F2854b: One subject of an issuer at two providers counts as one approver."""
    office = Office(tenant)
    twin = at_another_provider(office, "alice")
    office.protects("tenant.remove")
    assert answered(disable(office, office.bob)) == TOO_FEW
    # This would disable Alice at both providers.
    assert answered(disable(office, twin)) == TOO_FEW
    office.person("bob", Scope.REVOKER)
    assert lines(caplog, "fewer than two people can approve protected actions")
    office.protects_nothing()
    body = {"actions": ["tenant.remove"], "unrevoke_threshold": None}
    assert answered(office.alice.request("PUT", ACTS, json=body)) == TOO_FEW


def test_a_person_is_of_the_present_issuer(tenant: Tenant) -> None:
    """APPROVAL-3, F2854c: After a provider got another issuer, its people are of that one."""
    office = Office(tenant)
    moved = replace(office.provider, issuer="https://new.example.com", version=2)
    tenant.ports.store.write(Put(moved.address, moved.to_item(), VersionIs(1)))
    office.sign_in()
    who = people.get(tenant.ports, tenant.operator, person_id=office.alice.key_id)
    assert who.account == ("https://new.example.com", "alice")


def _disabled_and_enabled(office: Office) -> None:
    ports, operator = office.tenant.ports, office.tenant.operator
    people.disable(ports, operator, person_id=office.carol.key_id)
    people.enable(ports, operator, person_id=office.carol.key_id)


def _signed_out_everywhere(office: Office) -> None:
    assert office.bob.post(f"/v1/people/{office.carol.key_id}/sign-out").is_success


@pytest.mark.parametrize("end", [_disabled_and_enabled, _signed_out_everywhere])
def test_requests_end_with_the_requester(office: Office, end: Any) -> None:
    """APPROVAL-3, F2855a: Requests of a person end when the person is disabled or signed out.

    They are not listed as waiting, approved or used, and do not count.
    """
    first, second = office.revoked(2, by=office.bob)
    waits = [asked(delete(office.carol, first, ASKING))["approval_id"] for _ in range(19)]
    use = office.approved(delete(office.carol, second, ASKING))
    end(office)
    office.sign_in()
    assert office.alice.get("/v1/approvals?status=pending").json()["approvals"] == []
    assert answered(office.bob.post(f"/v1/approvals/{waits[0]}/approve")) == (409, "invalid_state")
    ports, operator = office.tenant.ports, office.tenant.operator
    with pytest.raises(InvalidState):
        approvals.override(ports, operator, approval_id=waits[0], reason="r")
    answer = delete(office.carol, second, use)
    assert answered(answer) == (403, "approval_required")
    for _ in range(2):
        assert delete(office.carol, first, ASKING).status_code == 202


def test_a_disabled_requester(office: Office) -> None:
    """APPROVAL-3, F2855b: What a disabled person asked for is not approved."""
    (revocation,) = office.revoked(1, by=office.bob)
    waits = asked(delete(office.carol, revocation, ASKING))["approval_id"]
    assert disable(office, office.carol).is_success
    assert answered(office.bob.post(f"/v1/approvals/{waits}/approve")) == (409, "invalid_state")


def _signed_out(office: Office) -> None:
    assert office.alice.post(f"/v1/people/{office.bob.key_id}/sign-out").is_success


def _lowered(office: Office) -> None:
    office.person("bob", Scope.READ_ONLY)


@pytest.mark.parametrize("change", [_disabled, _signed_out, _lowered])
def test_who_approved_may_still_approve(office: Office, change: Any) -> None:
    """APPROVAL-5, F2130a: An approval ends with the right of the person who approved."""
    first, second = office.revoked(2)
    use = office.approved(delete(office.alice, first, ASKING))
    unused = office.approved(delete(office.alice, second, ASKING))
    assert delete(office.alice, first, use).status_code == 204
    change(office)
    answer = delete(office.alice, second, unused)
    assert answered(answer) == (403, "approval_required")
    assert "can no longer approve" in answer.text


def test_two_approvers_remain(office: Office) -> None:
    """APPROVAL-5, F2131a: While something is protected, a person is kept whom two need."""
    entries = audited(office.tenant)
    for who in (office.alice, office.tenant.admin):
        answer = who.post(f"/v1/people/{office.bob.key_id}/disable", json={"made_keys": "keep"})
        assert answered(answer) == TOO_FEW
    assert audited(office.tenant) == entries
    # Carol is no approver, and of three approvers one may go.
    assert disable(office, office.carol).is_success
    dora = office.person("dora")
    assert disable(office, office.bob).is_success
    assert answered(disable(office, dora)) == TOO_FEW


def test_two_approvers_remain_of_providers(office: Office, clock: Clock) -> None:
    """APPROVAL-5, F2131b: A provider is kept whose people are needed as approvers."""
    ports, operator = office.tenant.ports, office.tenant.operator
    path = f"{PROVIDERS}/{office.provider.id}"
    use = office.approved(office.alice.delete(path, headers=ASKING))
    assert answered(office.alice.delete(path, headers=use)) == TOO_FEW
    other = bound(ports, operator)
    for name in ("dora", "emil"):
        signed_in(ports, other, sub=name)
    # The change of a trust anchor by the operator ended the approval, and begins a period.
    assert office.alice.delete(path, headers=use).status_code == 403
    clock.advance(seconds=1)
    asked_again = asked(office.alice.delete(path, headers=ASKING))["approval_id"]
    approvals.override(ports, operator, approval_id=asked_again, reason="moved")
    assert office.alice.delete(path, headers={"Rescind-Approval": asked_again}).status_code == 204


def test_two_approvers_remain_of_roles(office: Office, clock: Clock) -> None:
    """APPROVAL-5, F2131c: A role is kept that gives approvers their right."""
    ports, operator = office.tenant.ports, office.tenant.operator
    roles.put_role(ports, operator, role=Role("chief", (Scope.ADMIN,)))
    granted = (RoleMapping({"groups": "chief"}, "chief"), *office.provider.role_mapping_list)
    change = ProviderChange(role_mappings=granted)
    identity_providers.update(ports, operator, provider_id=office.provider.id, change=change)
    clock.advance(seconds=1)
    for name in ("alice", "bob"):
        office.person(name, members={"groups": "chief", "email_verified": True})
    key = office.tenant.admin
    for answer in (
        key.request("PUT", "/v1/roles/chief", json={"scopes": ["revoker"]}),
        key.delete("/v1/roles/chief"),
    ):
        assert answered(answer) == (403, "approval_required")
    alice = office.person("alice")
    body = {"scopes": ["admin"], "warrant_prefixes": ["svc_wrt_a"]}
    answer = alice.request("PUT", "/v1/roles/chief", json=body, headers=ASKING)
    approvals.override(ports, operator, approval_id=asked(answer)["approval_id"], reason="r")
    use = {"Rescind-Approval": asked(answer)["approval_id"]}
    answer = alice.request("PUT", "/v1/roles/chief", json=body, headers=use)
    assert answered(answer) == TOO_FEW


def test_a_sign_in_that_lowers_a_role(office: Office, caplog: pytest.LogCaptureFixture) -> None:
    """APPROVAL-5, F2131d: An alarm fires if a sign-in leaves fewer than two approvers."""
    words = "fewer than two people can approve protected actions"
    office.person("dora")
    office.person("dora", Scope.REVOKER)
    assert not lines(caplog, words)
    office.person("bob", Scope.REVOKER)
    (line,) = lines(caplog, words)
    assert metrics(line)["ApproversTooFew"] == (1, "Count")


def changed_keys(office: Office) -> dict[str, str]:
    """Alice has an approval for other keys of the provider, and uses it."""
    path = f"{PROVIDERS}/{office.provider.id}"
    body = {"jwks": FORGED}
    use = office.approved(office.alice.request("PATCH", path, json=body, headers=ASKING))
    assert office.alice.request("PATCH", path, json=body, headers=use).is_success
    return use


def test_a_forged_approver(office: Office, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """APPROVAL-6, F2132a: Sessions since a change of a provider's keys approve nothing for a day.

    Whoever has the new private key signs in as each of its people.
    """
    (revocation,) = office.revoked(1)
    pending = asked(delete(office.alice, revocation, ASKING))["approval_id"]
    changed_keys(office)
    office.sign_in()
    assert office.bob.post(f"/v1/approvals/{pending}/approve").status_code == 409
    clock.advance(seconds=1)
    made = asked(delete(office.alice, revocation, ASKING))["approval_id"]
    # This session began in the second of the change.
    answer = office.bob.post(f"/v1/approvals/{made}/approve")
    assert answered(answer) == (403, "insufficient_scope")
    clock.advance(hours=23, minutes=59)
    office.sign_in()
    assert office.bob.post(f"/v1/approvals/{made}/approve").status_code == 403
    clock.advance(seconds=59)
    office.sign_in()
    use = office.approved(delete(office.alice, revocation, ASKING))
    assert delete(office.alice, revocation, use).status_code == 204
    with caplog.at_level("WARNING"):
        sealing.extend(office.tenant.ports, office.tenant.id)
    (line,) = lines(caplog, "the people who can sign in and approve changed")
    assert metrics(line)["TrustAnchorChanged"] == (1, "Count")


def test_an_older_session_approves(office: Office, clock: Clock) -> None:
    """APPROVAL-6, F2132b: A session from before another provider was bound still approves."""
    ports, operator = office.tenant.ports, office.tenant.operator
    clock.advance(minutes=1)
    second = bound(ports, operator)
    made = signed_in(ports, second, sub="mallory")
    mallory = Client(office.tenant.admin.http, made.secret, made.session.owner)
    clock.advance(seconds=1)
    (revocation,) = office.revoked(1)
    request = asked(delete(office.alice, revocation, ASKING))["approval_id"]
    assert mallory.post(f"/v1/approvals/{request}/approve").status_code == 403
    assert mallory.post(f"/v1/approvals/{request}/reject").is_success
    assert office.approved(delete(office.alice, revocation, ASKING))


def test_the_operator_does_not_wait(office: Office, clock: Clock) -> None:
    """APPROVAL-4, APPROVAL-6, F2132c: The operator's override needs no cooling-off period."""
    (revocation,) = office.revoked(1)
    changed_keys(office)
    clock.advance(seconds=1)
    office.sign_in()
    made = asked(delete(office.alice, revocation, ASKING))["approval_id"]
    approvals.override(office.tenant.ports, office.tenant.operator, approval_id=made, reason="r")
    assert delete(office.alice, revocation, {"Rescind-Approval": made}).status_code == 204


def test_a_new_tenant_does_not_wait(tenant: Tenant) -> None:
    """APPROVAL-6, F2132d: While nothing is protected, a provider begins no cooling-off period."""
    office = Office(tenant)
    change = ProviderChange(jwks=FORGED)
    provider_id = office.provider.id
    identity_providers.update(tenant.ports, tenant.operator, provider_id=provider_id, change=change)
    office.sign_in()
    office.protects("revocations.unrevoke_others")
    (revocation,) = office.revoked(1)
    assert office.approved(delete(office.alice, revocation, ASKING))


def test_a_name_is_no_trust_anchor(office: Office) -> None:
    """APPROVAL-6, F2132e: A change that lets nobody else in begins no cooling-off period."""
    (revocation,) = office.revoked(1)
    path, body = f"{PROVIDERS}/{office.provider.id}", {"name": "other", "session_seconds": 43_100}
    use = office.approved(office.alice.request("PATCH", path, json=body, headers=ASKING))
    pending = delete(office.alice, revocation, ASKING)
    assert office.alice.request("PATCH", path, json=body, headers=use).is_success
    assert office.approved(pending)


def test_the_number_of_requests(office: Office, clock: Clock, monkeypatch: Any) -> None:
    """APPROVAL-2, F2133a: At most 20 requests of a person, and 100 of a tenant, wait."""
    monkeypatch.setattr("shared.model.identities.approvals.PENDING_OF_TENANT_MAX", 21)
    (revocation,) = office.revoked(1)
    made = [asked(delete(office.alice, revocation, ASKING)) for _ in range(20)]
    assert answered(delete(office.alice, revocation, ASKING)) == (409, "conflict")
    assert delete(office.bob, revocation, ASKING).status_code == 202
    assert answered(delete(office.person("dora"), revocation, ASKING)) == (409, "conflict")
    assert office.bob.post(f"/v1/approvals/{made[0]['approval_id']}/reject").is_success
    assert delete(office.alice, revocation, ASKING).status_code == 202
    assert answered(delete(office.alice, revocation, ASKING)) == (409, "conflict")
    clock.advance(hours=24)
    office.sign_in()
    assert delete(office.alice, revocation, ASKING).status_code == 202


def test_the_policy_needs_two(tenant: Tenant) -> None:
    """APPROVAL-5, F2131e: Nothing is protected while a provider of two approvers is deleted."""
    office = Office(tenant)
    identity_providers.delete(tenant.ports, tenant.operator, provider_id=office.provider.id)
    body = {"actions": ["tenant.remove"], "unrevoke_threshold": None}
    assert answered(tenant.admin.request("PUT", ACTS, json=body)) == TOO_FEW
    # The operator may disable people of a tenant that is locked out.
    people.disable(tenant.ports, tenant.operator, person_id=office.alice.key_id or "")
