"""The maker of an API key (APIKEY-12)."""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final

import pytest

from shared.errors import InsufficientScope, InvalidApiKey
from shared.model.callers import Caller, Scope
from shared.model.identities import sessions
from shared.model.identities.claims import SignInRefused
from shared.model.identities.providers import ProviderUsage
from shared.model.identities.roles import Role
from shared.operations.access import api_key_rotation, api_keys
from shared.operations.identities import authentication, people, roles
from shared.ports import Ports
from tests.kit.api import Client, Tenant
from tests.kit.endpoints import audit_entries
from tests.kit.faults import Script, scripted
from tests.kit.identities import JWKS, bound, signed_in
from tests.kit.issuers import ISSUER
from tests.kit.offices import Office

PATH = "/v1/api-keys"
# The longest life of an admin key that a person makes is 90 days.
END = "2027-01-01T00:00:00Z"


# A provider of one's own, with the keys of the tests.
PROVIDER: Final[dict[str, Any]] = {
    "name": "Mine",
    "usage": "sign_in",
    "issuer": ISSUER,
    "client_id": "c",
    "jwks": JWKS,
    "role_mappings": [{"claims": {"sub": "mallory"}, "role": "admin"}],
}


def make(client: Client, *scopes: str, **more: Any) -> Client:
    """A key that the client makes."""
    body = {"name": "k", "scopes": scopes or ["admin"], "expires_at": END} | more
    answer = client.post(PATH, json=body)
    assert answer.status_code == 201, answer.text
    return Client(client.http, answer.json()["key"], answer.json()["id"])


def rotate(client: Client, key: Client, **more: Any) -> Client:
    """The key that takes the place of another, at once."""
    answer = client.post(f"{PATH}/{key.key_id}/rotate", json={"grace_seconds": 0} | more)
    assert answer.status_code == 201, answer.text
    return Client(client.http, answer.json()["key"], answer.json()["id"])


def made_by(tenant: Tenant, maker: str, **query: Any) -> list[str]:
    """What the filter of the list finds, newest first, in pages of two."""
    found: list[str] = []
    page: dict[str, Any] = {"cursor": ""}
    while (cursor := page["cursor"]) is not None:
        params = {"created_by_id": maker, "limit": 2} | ({"cursor": cursor} if cursor else {})
        page = tenant.admin.get(PATH, params=params).json()
        found += [each["id"] for each in page["api_keys"]]
    assert page["total"] == len(found)
    return found


def maker_of(tenant: Tenant, key: Client) -> str | None:
    shown = tenant.admin.get(f"{PATH}/{key.key_id}").json()
    found: str | None = shown["created_by_id"]
    return found


def test_a_key_names_its_maker(tenant: Tenant) -> None:
    """APIKEY-12, F2300a: A key names the person, account or key that made it; none of an operator.

    A rotation keeps the name.
    """
    office = Office(tenant)
    assert maker_of(tenant, tenant.admin) is None
    by_person = make(office.alice)
    by_key = make(by_person)
    provider = bound(tenant.ports, tenant.operator, ProviderUsage.WORKLOAD)
    account = tenant.admin.post("/v1/service-accounts", json={"name": "robot"}).json()["id"]
    program = tenant.holding(signed_in(tenant.ports, provider).secret)
    soon = {"expires_at": "2026-11-21T12:10:00Z"}
    assert maker_of(tenant, by_person) == office.alice.key_id
    assert maker_of(tenant, by_key) == by_person.key_id
    assert maker_of(tenant, make(program, **soon)) == account
    assert maker_of(tenant, rotate(tenant.admin, by_person)) == office.alice.key_id


def test_keys_are_listed_by_their_maker(tenant: Tenant) -> None:
    """APIKEY-12, F2300b: The filter finds what a person made, also through keys, or rotated.

    Whoever rotates a key sees the new secret. Deleted keys and unknown makers have no rows.
    """
    office = Office(tenant)
    alice, bob = office.alice.key_id, office.bob.key_id
    first = make(office.alice)
    second = make(first)
    third = make(second, "read-only")
    assert made_by(tenant, alice) == [each.key_id for each in (third, second, first)]
    assert made_by(tenant, first.key_id) == [second.key_id]
    renewed = rotate(office.bob, third)
    assert made_by(tenant, alice)[0] == made_by(tenant, bob)[0] == renewed.key_id
    again = rotate(tenant.admin, renewed)
    assert made_by(tenant, bob) == [renewed.key_id]
    # Bob has seen no secret of a key that an operator's key made, after another rotation.
    shown = rotate(office.bob, make(tenant.admin))
    assert rotate(tenant.admin, shown).key_id not in made_by(tenant, bob)
    assert tenant.admin.delete(f"{PATH}/{shown.key_id}").status_code == 204
    assert made_by(tenant, alice)[0] == again.key_id
    for each in (renewed, third):
        assert tenant.admin.delete(f"{PATH}/{each.key_id}").status_code == 204
    assert made_by(tenant, bob) == []
    assert made_by(tenant, alice) == [each.key_id for each in (again, second, first)]
    assert made_by(tenant, tenant.ports.new_id("usr")) == made_by(tenant, "#") == []
    both = {"created_by_id": alice, "service_account_id": tenant.ports.new_id("sa")}
    assert tenant.admin.get(PATH, params=both).status_code == 400


@pytest.mark.parametrize("way", ["create", "rotate"])
@pytest.mark.parametrize("maker", ["person", "key", "key of a person"])
def test_who_has_ended_makes_no_key(tenant: Tenant, maker: str, way: str) -> None:
    """APIKEY-12, F2300c: A maker who is ended while a key is made gets none, at whatever step."""
    office = Office(tenant)
    for step in range(100):
        person = office.person(f"p{step}")
        by = person if maker == "person" else make(person)
        other = make(tenant.admin)
        caller = _caller(tenant.ports, by)
        ended = by if maker == "key" else person
        end = partial(_end, tenant, ended.key_id)
        script = Script(before={step: end})
        ports = scripted(tenant.ports, script)
        made: str | None = None
        with suppress(InvalidApiKey, InsufficientScope):
            made = _made(ports, caller, way, other.key_id)
        if len(script.calls) <= step:
            assert made is not None
            return
        assert made is None, script.calls
        assert len(made_by(tenant, by.key_id)) == 0
    raise AssertionError


def _made(ports: Ports, caller: Caller, way: str, other: str) -> str:
    end = ports.now() + timedelta(days=1)
    if way == "create":
        scopes = (Scope.SIGNER,)
        return api_keys.create(ports, caller, name="k", scopes=scopes, expires_at=end).api_key.id
    rotated = api_key_rotation.rotate(ports, caller, key_id=other, grace_seconds=60, expires_at=end)
    return rotated.created.api_key.id


def _caller(ports: Ports, client: Client) -> Caller:
    secret = client.secret or ""
    if secret.startswith(sessions.PREFIX):
        return authentication.authenticate(ports, secret)
    found = api_keys.authenticate(ports, secret)
    return Caller(found.tenant_id, found.identity, found.scopes, key_id=found.key_id)


def _end(tenant: Tenant, maker: str) -> None:
    """Revoke a key, or disable a person."""
    if maker.startswith("svc_ak_"):
        api_keys.revoke(tenant.ports, tenant.operator, key_id=maker)
    else:
        people.disable(tenant.ports, tenant.operator, person_id=maker)


def disable(client: Client, person: str, made_keys: str = "end") -> Any:
    return client.post(f"/v1/people/{person}/disable", json={"made_keys": made_keys})


def is_accepted(key: Client) -> bool:
    return bool(key.get("/v1/whoami").status_code == 200)


@pytest.mark.slow_on("120")
@pytest.mark.parametrize("number", [0, 1, 50, 51, 120])
def test_the_keys_of_a_person_who_leaves_end(tenant: Tenant, number: int) -> None:
    """IDENTITY-9, F2301a: `end` revokes what a person made, also through keys, 50 in a request.

    Each request says how many are left. Keys by others stay.
    """
    office = Office(tenant)
    other, made, by = make(office.bob), [], office.alice
    for each in range(number):
        made.append(make(by))
        by = made[-1] if each % 7 else office.alice
    left, answers = number, list[dict[str, Any]]()
    while not answers or answers[-1]["keys_left"]:
        answer = disable(tenant.admin, office.alice.key_id)
        assert answer.status_code == 200, answer.text
        answers.append(answer.json())
        left -= answers[-1]["keys_ended"]
        assert (answers[-1]["status"], answers[-1]["keys_left"]) == ("disabled", left)
    assert len(answers) == max(1, -(-number // 50))
    assert [each for each in made if is_accepted(each)] == []
    assert [is_accepted(each) for each in (other, office.bob, office.alice)] == [True, True, False]
    details = [
        each["details"] for each in audit_entries(tenant) if each["action"] == "api_key.revoke"
    ]
    assert [each["person_id"] for each in details if isinstance(each, dict)] == (
        [office.alice.key_id] * number
    )


@pytest.mark.slow
def test_500_keys_of_a_person_end(tenant: Tenant) -> None:
    """IDENTITY-9, F2301b: 500 keys of a person end after ten requests."""
    office = Office(tenant)
    made = [make(office.alice, "signer") for _ in range(500)]
    parts = [disable(tenant.admin, office.alice.key_id).json() for _ in range(10)]
    assert [each["keys_left"] for each in parts] == [*range(450, -1, -50)]
    assert [each for each in made if is_accepted(each)] == []


def test_the_keys_of_a_person_may_stay(tenant: Tenant) -> None:
    """IDENTITY-9, F2301c: `keep` ends no key, and says how many there are; one has to choose.

    It can be repeated with `end`.
    """
    office = Office(tenant)
    person = office.alice.key_id
    first = make(office.alice)
    ended = make(office.alice)
    tenant.admin.post(f"{PATH}/{ended.key_id}/revoke")
    assert tenant.admin.post(f"/v1/people/{person}/disable").status_code == 400
    assert disable(tenant.admin, person, "all").status_code == 400
    assert is_accepted(office.alice)
    kept = disable(tenant.admin, person, "keep").json()
    assert (kept["keys_ended"], kept["keys_left"]) == (0, 1)
    assert (is_accepted(office.alice), is_accepted(first)) == (False, True)
    assert disable(tenant.admin, person).json()["keys_ended"] == 1
    assert not is_accepted(first)


def test_a_key_does_not_enable_who_made_it(tenant: Tenant) -> None:
    """IDENTITY-9, F2301d: No key that a person made or rotated enables the person again."""
    office = Office(tenant)
    person, spare = office.alice.key_id, make(tenant.admin)
    mine = make(office.alice)
    for key in (mine, make(mine), rotate(office.alice, spare)):
        assert disable(tenant.admin, person, "keep").status_code == 200
        answer = key.post(f"/v1/people/{person}/enable")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "insufficient_scope")
        assert tenant.admin.post(f"/v1/people/{person}/enable").status_code == 200
    assert disable(tenant.admin, office.bob.key_id, "keep").status_code == 200
    assert mine.post(f"/v1/people/{office.bob.key_id}/enable").status_code == 200


def refused(answer: Any) -> str:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (403, "insufficient_scope")
    return str(error["message"])


def test_a_key_of_a_disabled_person_makes_no_key(tenant: Tenant) -> None:
    """IDENTITY-9, F2851a: A key of a disabled person makes and rotates no key, not even itself.

    This applies to keys that the person rotated, or made through keys.
    """
    office = Office(tenant)
    person, other = office.alice.key_id, make(tenant.admin, "signer")
    mine = make(office.alice)
    keys = [mine, make(mine), rotate(office.alice, make(tenant.admin))]
    assert disable(office.bob, person, "keep").json()["keys_left"] == 3
    body = {"name": "k", "scopes": ["signer"], "expires_at": END}
    for key in keys:
        assert "disabled" in refused(key.post(PATH, json=body))
        for rotated in (other, key):
            refused(key.post(f"{PATH}/{rotated.key_id}/rotate", json={"grace_seconds": 0}))
    assert tenant.admin.post(f"/v1/people/{person}/enable").status_code == 200
    assert [is_accepted(make(each)) for each in keys] == [True] * 3


def test_nobody_outruns_the_end_of_keys(tenant: Tenant) -> None:
    """IDENTITY-9, F2851b: Between two requests that end keys, those that are left make no more."""
    office = Office(tenant)
    made = [make(office.alice) for _ in range(55)]
    assert disable(office.bob, office.alice.key_id).json()["keys_left"] == 5
    left = [each for each in made if is_accepted(each)]
    for each in left:
        refused(each.post(PATH, json={"name": "k", "scopes": ["admin"], "expires_at": END}))
    assert disable(office.bob, office.alice.key_id).json()["keys_left"] == 0


def test_a_key_of_a_disabled_person_enables_nobody(tenant: Tenant) -> None:
    """IDENTITY-9, F2851c: A key of a disabled person enables no other person either."""
    office = Office(tenant)
    mine = make(office.alice)
    for each in (office.alice, office.carol):
        assert disable(office.bob, each.key_id, "keep").status_code == 200
    refused(mine.post(f"/v1/people/{office.carol.key_id}/enable"))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/tenant/identity-providers", PROVIDER),
        (
            "PATCH",
            "/v1/tenant/identity-providers/{provider}",
            {"role_mappings": PROVIDER["role_mappings"]},
        ),
        ("DELETE", "/v1/tenant/identity-providers/{provider}", None),
        ("PUT", "/v1/roles/laptops", {"scopes": ["admin"]}),
        ("PATCH", "/v1/tenant/settings", {"audit_retention_days": 366}),
        ("POST", "/v1/revocations/srl/keys/rotate", {"compromised": True}),
    ],
)
def test_a_key_of_a_disabled_person_gives_nobody_access(
    tenant: Tenant, method: str, path: str, body: Any
) -> None:
    """IDENTITY-9, F2851d: A key of a disabled person makes no write with a protected effect.

    Such a write could let the person in again. Other keys may make it.
    """
    office = Office(tenant)
    mine = make(office.alice)
    spare = bound(tenant.ports, tenant.operator)
    path = path.format(provider=spare.id)
    assert disable(office.bob, office.alice.key_id, "keep").status_code == 200
    assert "disabled" in refused(mine.request(method, path, json=body))
    assert make(office.bob).request(method, path, json=body).is_success


def test_who_is_disabled_while_a_key_gives_access(tenant: Tenant) -> None:
    """IDENTITY-9, F2851e: A maker who is disabled meanwhile gives nobody access, at any step."""
    office = Office(tenant)
    for step in range(100):
        person = office.person(f"p{step}")
        script = Script(before={step: partial(_end, tenant, person.key_id)})
        ports = scripted(tenant.ports, script)
        caller, role = _caller(tenant.ports, make(person)), Role(f"role-{step}", (Scope.ADMIN,))
        with suppress(InsufficientScope):
            roles.put_role(ports, caller, role=role)
        was_put = tenant.admin.get(f"/v1/roles/{role.name}").status_code == 200
        if len(script.calls) <= step:
            assert was_put
            return
        assert not was_put, script.calls
    raise AssertionError


def test_a_key_has_few_makers(tenant: Tenant) -> None:
    """APIKEY-12, F2851f: A key is not created if more than 20 people may have its secret."""
    office = Office(tenant)
    key = make(office.person("p0"))
    for number in range(1, 20):
        key = make(rotate(office.person(f"p{number}"), key))
    answer = office.bob.post(f"{PATH}/{key.key_id}/rotate", json={"grace_seconds": 0})
    assert (answer.status_code, "20 people" in answer.text) == (409, True)
    assert is_accepted(make(key))


def test_a_disabled_account_has_no_other_provider(tenant: Tenant) -> None:
    """IDENTITY-4, F2910a: A disabled account does not sign in at another provider of its issuer.

    If it did before, the people there are disabled too, and the keys of all of them end.
    """
    office = Office(tenant)
    later, before = (bound(tenant.ports, tenant.operator) for _ in range(2))
    twin = signed_in(tenant.ports, before, sub="alice", email="a2@example.com")
    key = make(tenant.holding(twin.secret))
    answer = disable(office.bob, office.alice.key_id)
    assert (answer.status_code, answer.json()["keys_ended"]) == (200, 1)
    accepted = [is_accepted(each) for each in (tenant.holding(twin.secret), key, office.bob)]
    assert accepted == [False, False, True]
    with pytest.raises(SignInRefused, match="disabled this person"):
        signed_in(tenant.ports, later, sub="alice", email="a3@example.com")
    with pytest.raises(SignInRefused, match="disabled this person"):
        signed_in(tenant.ports, before, sub="alice", email="a2@example.com")
    assert signed_in(tenant.ports, later, sub="dan").secret


def test_an_account_that_is_disabled_while_it_signs_in_elsewhere(tenant: Tenant) -> None:
    """IDENTITY-4, F2910b: An account that is disabled during a first sign-in does not come in."""
    office = Office(tenant)
    later = bound(tenant.ports, tenant.operator)
    for step in range(100):
        person = office.person(f"p{step}")
        script = Script(before={step: partial(disable, office.bob, person.key_id)})
        ports = scripted(tenant.ports, script)
        secret = None
        with suppress(SignInRefused):
            email = f"q{step}@example.com"
            secret = signed_in(ports, later, sub=f"p{step}", email=email).secret
        if len(script.calls) <= step:
            assert secret is not None
            return
        assert secret is None or not is_accepted(tenant.holding(secret)), script.calls
    raise AssertionError


def test_the_last_admin_key_of_a_person_stays(tenant: Tenant) -> None:
    """APIKEY-7, F2301e: The last admin key does not end with its maker, who is disabled.

    After another one is made, the request is repeated.
    """
    office = Office(tenant)
    mine, signer = make(office.alice), make(office.alice, "signer")
    last = tenant.admin
    assert mine.post(f"{PATH}/{last.key_id}/revoke").status_code == 200
    answer = disable(office.bob, office.alice.key_id)
    assert answer.status_code == 409
    assert (
        "The person is disabled, and the other keys are revoked"
        in answer.json()["error"]["message"]
    )
    accepted = [is_accepted(each) for each in (office.alice, signer, mine)]
    assert accepted == [False, False, True]
    make(office.bob)
    assert disable(office.bob, office.alice.key_id).json()["keys_left"] == 0
    assert not is_accepted(mine)


def test_a_key_ends_itself_last(tenant: Tenant) -> None:
    """IDENTITY-9, F2301f: A key of the person that ends the person's keys ends as the last one."""
    office = Office(tenant)
    first = make(office.alice)
    others = [make(office.alice, "signer") for _ in range(55)]
    assert disable(first, office.alice.key_id).json()["keys_left"] == 6
    assert disable(first, office.alice.key_id).json()["keys_left"] == 0
    assert [each for each in (first, *others) if is_accepted(each)] == []
