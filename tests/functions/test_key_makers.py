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
