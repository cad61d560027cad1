"""The maker of an API key (APIKEY-12)."""

from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from shared.errors import InvalidApiKey
from shared.model.callers import Caller, Scope
from shared.model.identities import sessions
from shared.model.identities.providers import ProviderKind
from shared.operations.access import api_key_rotation, api_keys
from shared.operations.identities import authentication, people
from shared.ports import Ports
from tests.kit.api import Client, Tenant
from tests.kit.endpoints import audit_entries
from tests.kit.faults import Script, scripted
from tests.kit.identities import bound, signed_in
from tests.kit.offices import Office

PATH = "/v1/api-keys"
# The longest life of an admin key that a person makes is 90 days.
END = "2027-01-01T00:00:00Z"


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
    provider = bound(tenant.ports, tenant.operator, ProviderKind.PROGRAMS)
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
    assert made_by(tenant, alice)[0] == again.key_id
    for each in (renewed, third):
        assert tenant.admin.delete(f"{PATH}/{each.key_id}").status_code == 204
    assert made_by(tenant, bob) == []
    assert made_by(tenant, alice) == [each.key_id for each in (again, second, first)]
    assert made_by(tenant, tenant.ports.new_id("usr")) == made_by(tenant, "#") == []
    both = {"created_by_id": alice, "service_account_id": tenant.ports.new_id("sa")}
    assert tenant.admin.get(PATH, params=both).status_code == 400


@pytest.mark.parametrize("way", ["create", "rotate"])
@pytest.mark.parametrize("maker", ["person", "key"])
def test_who_has_ended_makes_no_key(tenant: Tenant, maker: str, way: str) -> None:
    """APIKEY-12, F2300c: A maker who is ended while a key is made gets none, at whatever step."""
    office = Office(tenant)
    for step in range(100):
        by = office.person(f"p{step}")
        by = by if maker == "person" else make(by)
        other = make(tenant.admin)
        caller = _caller(tenant.ports, by)
        end = partial(_end, tenant, by.key_id)
        script = Script(before={step: end})
        ports = scripted(tenant.ports, script)
        made: str | None = None
        with suppress(InvalidApiKey):
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
