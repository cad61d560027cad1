"""Calls with a session: who it is, and what ends it at the next request (AUTH-16)."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from shared.model.callers import Scope
from shared.model.identities.providers import ProviderUsage, RoleMapping
from shared.model.identities.roles import Role
from shared.operations.access import api_keys, service_accounts
from shared.operations.identities import identity_providers, people, roles, sessions
from shared.operations.identities.identity_providers import ProviderChange
from shared.operations.identities.sessions import StartedSession
from shared.ports import Ports
from tests.engines import worlds
from tests.kit.api import Client, Tenant, serve
from tests.kit.endpoints import ENDPOINTS, at, audit_entries
from tests.kit.identities import bound, holding_role, signed_in
from tests.kit.reads import reading
from tests.kit.worlds import Clock

WHO = "/v1/whoami"

# What changes access or undoes safety, by hand from the contract (AUTH-17).
PROTECTED = re.compile(
    "(POST|PUT|PATCH|DELETE) /v1/"
    "(api-keys|service-accounts|people|roles|approvals|revocations/srl/keys|"
    "unrevoke-manifests/.*/apply|tenant/(identity-providers|settings|protected-actions))"
    "(?!.*/check)"
)


@pytest.fixture(params=["sqlite-memory", "postgresql", "moto"])
def anywhere(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Tenant]:
    """A tenant on each kind of store."""
    monkeypatch.setattr(worlds, "ON", request.param)
    with worlds.chosen(tmp_path, Clock()) as ports:
        yield Tenant(ports, serve(ports), handle="acme")


def person_of(tenant: Tenant, role: Scope = Scope.ADMIN, **said: Any) -> StartedSession:
    return signed_in(tenant.ports, _provider(tenant), role, **said)


def program_of(tenant: Tenant, role: Scope = Scope.ADMIN, **said: Any) -> StartedSession:
    service_accounts.create(tenant.ports, tenant.operator, name="robot")
    provider = bound(tenant.ports, tenant.operator, ProviderUsage.WORKLOAD)
    return signed_in(tenant.ports, provider, role, **said)


def _provider(tenant: Tenant) -> Any:
    found = identity_providers.page(tenant.ports, tenant.operator, before=None, limit=1).entries
    return found[0] if found else bound(tenant.ports, tenant.operator)


def test_a_person_calls_under_the_own_name(tenant: Tenant) -> None:
    """AUTH-16, AUTH-13, F1140a: A session calls as its person, and the audit log says so."""
    made = person_of(tenant)
    alice = tenant.holding(made.secret)
    who = alice.get(WHO).json()
    assert (who["identity"], who["name"], who["role"]) == ("alice@example.com", "Alice", "admin")
    assert (who["person_id"], who["session_id"]) == (made.session.owner, made.session.id)
    assert (who["api_key_id"], who["api_key_name"], who["scopes"]) == (None, None, ["admin"])
    assert (who["expires_at"], who["can_create_until"]) == (
        "2026-11-21T13:00:00Z",
        "2027-11-21T12:00:00Z",
    )
    assert who["authenticated_at"] == "2026-11-21T12:00:00Z"
    body = {"warrant_id": "svc_wrt_x", "reason": "stolen"}
    assert alice.post("/v1/revocations", json=body).json()["created_by"] == "alice@example.com"
    (record,) = alice.get("/v1/revocations?include=names").json()["revocations"]
    assert record["created_by_name"] == "Alice"
    entry = audit_entries(tenant)[-1]
    assert (entry["actor"], entry["actor_name"]) == ("alice@example.com", "Alice")
    assert "actor_key_id" not in entry


@pytest.mark.slow_on("moto")
def test_the_log_is_searched_for_a_person(anywhere: Tenant) -> None:
    """AUDIT-4, F1264a: Entries are found by the person, whatever the e-mail was, on each store.

    They have the name then; those of programs and keys have no person. Exports have it too.
    """
    made = person_of(anywhere)
    renamed = person_of(anywhere, email="a.martin@example.com", name="Alice Martin")
    robot = anywhere.holding(program_of(anywhere).secret)
    clock: Any = anywhere.ports.now
    clients = anywhere.admin, robot, anywhere.holding(made.secret)
    for number, client in enumerate(clients):
        clock.advance(seconds=1)
        client.post("/v1/service-accounts", json={"name": f"n{number}"})
    assert made.session.owner == renamed.session.owner
    path, query = "/v1/audit-logs", {"actor_id": made.session.owner}
    found = anywhere.admin.get(path, params=query).json()
    assert [
        (each["action"], each["actor"], each["actor_name"]) for each in found["audit_logs"]
    ] == [
        ("service_account.create", "a.martin@example.com", "Alice Martin"),
        ("session.create", "a.martin@example.com", "Alice Martin"),
        ("session.create", "alice@example.com", "Alice"),
    ]
    assert {each["actor_id"] for each in found["audit_logs"]} == {made.session.owner}
    narrowed = anywhere.admin.get(path, params=query | {"action": "session.create"}).json()
    assert (found["total"], narrowed["total"]) == (3, 2)
    assert anywhere.admin.get(f"{path}?action=service_account.create").json()["total"] == 4
    exported = anywhere.admin.get(f"{path}/export", params=query | {"format": "csv"}).text
    assert exported.count(made.session.owner) >= 3


def test_a_program_calls_as_its_account(tenant: Tenant) -> None:
    """F1140b: A session of a program calls as its service account, with the role of its mapping."""
    who = tenant.holding(program_of(tenant, Scope.REVOKER).secret).get(WHO).json()
    assert (who["identity"], who["scopes"]) == ("robot@acme.svc", ["revoker"])
    assert (who["person_id"], who["name"]) == (None, "robot")


def _disable(tenant: Tenant, made: StartedSession) -> None:
    people.disable(tenant.ports, tenant.operator, person_id=made.session.owner)


def _enable_again(tenant: Tenant, made: StartedSession) -> None:
    _disable(tenant, made)
    people.enable(tenant.ports, tenant.operator, person_id=made.session.owner)


def _sign_out(tenant: Tenant, made: StartedSession) -> None:
    people.sign_out(tenant.ports, tenant.operator, person_id=made.session.owner)


def _end(tenant: Tenant, made: StartedSession) -> None:
    sessions.delete(tenant.ports, tenant.operator, session_id=made.session.id)


def _take_grants_away(tenant: Tenant, made: StartedSession) -> None:
    change = ProviderChange(role_mappings=(RoleMapping({"sub": "bob"}, Scope.ADMIN),))
    provider_id = made.session.provider_id
    identity_providers.update(tenant.ports, tenant.operator, provider_id=provider_id, change=change)


def _delete_provider(tenant: Tenant, made: StartedSession) -> None:
    provider_id = made.session.provider_id
    identity_providers.delete(tenant.ports, tenant.operator, provider_id=provider_id)


def _let_pass(tenant: Tenant, _made: StartedSession) -> None:
    clock: Any = tenant.ports.now
    clock.advance(seconds=3600)


def _recover(tenant: Tenant, _made: StartedSession) -> None:
    sessions.end_all(tenant.ports, tenant.id)


ENDS = [
    _disable,
    _enable_again,
    _sign_out,
    _end,
    _take_grants_away,
    _delete_provider,
    _let_pass,
    _recover,
]


@pytest.mark.slow_on("moto")
@pytest.mark.parametrize("end", ENDS)
def test_a_session_ends_at_the_next_request(
    anywhere: Tenant, end: Callable[[Tenant, StartedSession], None]
) -> None:
    """AUTH-16, F1141a: What ends a session holds at the next request, on each store.

    It does not come back if the person is enabled again. Others go on.
    """
    made = person_of(anywhere)
    alice, listed = anywhere.holding(made.secret), "/v1/sessions"
    assert alice.get(WHO).status_code == 200
    assert made.session.id in anywhere.admin.get(listed).text
    end(anywhere, made)
    answer = alice.get(WHO)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
    assert made.session.id not in anywhere.admin.get(listed).text
    assert anywhere.admin.get(WHO).status_code == 200


@pytest.mark.slow_on("moto")
def test_another_role_holds_at_the_next_request(anywhere: Tenant) -> None:
    """F1141b: If a sign-in gives a person another role, earlier sessions have it too, at once."""
    first = anywhere.holding(person_of(anywhere).secret)
    assert first.get("/v1/api-keys").status_code == 200
    person_of(anywhere, Scope.REVOKER)
    assert first.get("/v1/api-keys").status_code == 403


@pytest.mark.slow_on("moto")
def test_a_disabled_account_ends_its_sessions(anywhere: Tenant) -> None:
    """F1141c: A session of a program ends when its service account is disabled."""
    robot, ports = anywhere.holding(program_of(anywhere).secret), anywhere.ports
    assert robot.get(WHO).status_code == 200
    account = service_accounts.page(ports, anywhere.operator, before=None, limit=1).entries[0]
    service_accounts.disable(ports, anywhere.operator, account_id=account.id)
    assert robot.get(WHO).status_code == 401


def _reads(ports: Ports, secret: str) -> tuple[int, int]:
    """The status of a request with this secret, and the trips that it took to the store."""
    with reading(ports) as (watched, reads):
        app = serve(watched)
        answer = app.get("/v1/nothing", headers={"Authorization": f"Bearer {secret}"})
    return answer.status_code, reads.trips


def test_refusals_are_alike(tenant: Tenant) -> None:
    """AUTH-2, F1142a: Unknown, malformed and ended sessions cost two reads, like refused keys.

    A session or a key with a role takes two if it is accepted, and another API key still one.
    """
    made, other = person_of(tenant), person_of(tenant, sub="bob")
    _end(tenant, other)
    _sign_out(tenant, person_of(tenant, sub="carol"))
    unknown = "svc_session_" + "A" * 43
    for secret in (unknown, f"{made.secret}A", made.secret[:-1], other.secret, "svc_session_"):
        assert _reads(tenant.ports, secret) == (401, 2)
    assert _reads(tenant.ports, "svc_" + "A" * 43) == (401, 2)
    assert _reads(tenant.ports, made.secret) == (404, 2)
    assert _reads(tenant.ports, tenant.admin.secret or "") == (404, 1)
    of_role = api_keys.create(tenant.ports, tenant.operator, name="k", scopes=(), role="signer")
    assert _reads(tenant.ports, of_role.secret) == (404, 2)


@pytest.mark.slow
def test_an_api_key_loads_nothing_of_sessions() -> None:
    """F1142b: What authenticates API keys does not load what authenticates sessions."""
    code = "import sys, shared.web.gate; print([m for m in sys.modules if 'identities' in m])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert loaded == b"[]\n"


def test_a_session_sees_and_ends_its_own(tenant: Tenant) -> None:
    """IDENTITY-5, F1143a: Who is no administrator lists and ends the own sessions alone."""
    made, other = person_of(tenant, Scope.REVOKER), person_of(tenant, sub="bob")
    alice = tenant.holding(made.secret)
    listed = alice.get("/v1/sessions").json()["sessions"]
    assert [each["id"] for each in listed] == [made.session.id]
    assert alice.delete(f"/v1/sessions/{other.session.id}").status_code == 404
    assert alice.delete("/v1/sessions/current").status_code == 204
    assert alice.get(WHO).status_code == 401
    assert tenant.holding(other.secret).get(WHO).status_code == 200
    assert tenant.admin.delete("/v1/sessions/current").status_code == 404


def test_limits_leave_an_administrator_the_own_sessions(tenant: Tenant) -> None:
    """AUTH-18, F1261f: An administrator with limits lists and ends the own sessions alone."""
    role = Role("paris", (Scope.ADMIN,), warrant_prefixes=("svc_wrt_paris-",))
    roles.put_role(tenant.ports, tenant.operator, role=role)
    other, paris = person_of(tenant, sub="bob"), holding_role(tenant, "paris")
    listed = paris.get("/v1/sessions").json()["sessions"]
    assert [each["identity"] for each in listed] == ["paris@example.com"]
    assert paris.delete(f"/v1/sessions/{other.session.id}").status_code == 404
    assert paris.delete("/v1/sessions/current").status_code == 204


def test_repetitions_go_by_the_owner(tenant: Tenant) -> None:
    """API-30, F1143b: An `Idempotency-Key` holds for all sessions of a person, and no other."""
    again = person_of(tenant), person_of(tenant), person_of(tenant, sub="bob")
    body = {"name": "a"}
    answers = [
        tenant.holding(each.secret).post(
            "/v1/service-accounts", json=body, headers={"Idempotency-Key": "k"}
        )
        for each in again
    ]
    assert [each.status_code for each in answers] == [201, 201, 409]
    assert answers[0].json() == answers[1].json()


def test_a_key_ends_with_the_session_that_made_it(tenant: Tenant) -> None:
    """APIKEY-4, F1143c: A program creates no API key that outlives its session; people may."""
    robot, path = tenant.holding(program_of(tenant).secret), "/v1/api-keys"
    body: dict[str, Any] = {"name": "k", "scopes": ["admin"]}
    assert robot.post(path, json=body).status_code == 400
    late = (tenant.ports.now() + timedelta(hours=2)).isoformat()
    assert robot.post(path, json=body | {"expires_at": late}).status_code == 400
    soon = (tenant.ports.now() + timedelta(minutes=5)).isoformat()
    assert robot.post(path, json=body | {"expires_at": soon}).status_code == 201
    identity_providers.delete(tenant.ports, tenant.operator, provider_id=_provider(tenant).id)
    body["expires_at"] = (tenant.ports.now() + timedelta(days=90)).isoformat()
    assert tenant.holding(person_of(tenant).secret).post(path, json=body).status_code == 201


def _asked_again(client: Client, call: str, **body: Any) -> bool:
    """Whether a call is refused until the person signs in again."""
    method, path = call.split()
    answer = client.request(method, at(path, "x"), **body)
    is_refused = "reauthentication_required" in answer.text
    challenge = 'Bearer error="insufficient_user_authentication", max_age=900'
    refusal = (answer.status_code, answer.headers.get("WWW-Authenticate"))
    assert (refusal == (401, challenge)) is is_refused
    return is_refused


@pytest.mark.slow
def test_what_changes_access_needs_a_fresh_sign_in(tenant: Tenant, clock: Clock) -> None:
    """AUTH-17, F1260a: Each endpoint that changes access, and no other, needs a fresh sign-in.

    Fifteen minutes after it a person is asked again; API keys and programs are not.
    """
    calls = {" ".join(key) for key in ENDPOINTS}
    alice = tenant.holding(person_of(tenant).secret)
    clock.advance(seconds=900)
    assert not {each for each in calls if _asked_again(alice, each)}
    clock.advance(seconds=1)
    assert {each for each in calls if _asked_again(alice, each)} == {
        each for each in calls if PROTECTED.match(each)
    }
    robot = tenant.holding(program_of(tenant, auth_time=clock() - timedelta(hours=1)).secret)
    for client in (tenant.admin, robot):
        assert client.post("/v1/api-keys").status_code == 400


def test_a_batch_is_unrevoked_after_a_fresh_sign_in(tenant: Tenant, clock: Clock) -> None:
    """AUTH-17, F1260b: A batch that takes revocations back needs a fresh sign-in, a trial not."""
    alice, path = tenant.holding(person_of(tenant).secret), "POST /v1/revocations/batch"
    clock.advance(seconds=901)
    body = {"warrant_ids": ["svc_wrt_a"], "reason": "r"}
    assert not _asked_again(alice, path, json=body | {"action": "revoke"})
    back = body | {"action": "unrevoke"}
    assert not _asked_again(alice, path, json=back | {"dry_run": True})
    assert _asked_again(alice, path, json=back)
    again = tenant.holding(person_of(tenant).secret)
    assert not _asked_again(again, path, json=back)
