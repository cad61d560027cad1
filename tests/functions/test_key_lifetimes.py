"""The longest life of keys that people make (APIKEY-15)."""

from datetime import timedelta
from typing import Any

import pytest

from shared.model.times import format_utc
from tests.kit.api import Client, Tenant
from tests.kit.offices import Office

PATH = "/v1/api-keys"


def make(client: Client, tenant: Tenant, days: float | None, *scopes: str, **more: Any) -> int:
    end = None if days is None else format_utc(tenant.ports.now() + timedelta(days=days))
    body = {"name": "k", "expires_at": end} | ({"scopes": scopes} if scopes else {}) | more
    return int(client.post(PATH, json=body).status_code)


@pytest.mark.parametrize(
    ("days", "scopes", "status"),
    [
        (365, ["signer"], 201),
        (365.04, ["signer"], 201),
        (365.05, ["signer"], 400),
        (None, ["signer"], 400),
        (90, ["admin"], 201),
        (90.05, ["signer", "admin"], 400),
        (None, ["admin"], 400),
    ],
)
def test_a_key_of_a_person_ends(
    tenant: Tenant, days: float | None, scopes: list[str], status: int
) -> None:
    """APIKEY-15, F2305a: A key that a person makes ends after a year, an admin key after 90 days.

    A key or an operator with a ticket may make longer ones.
    """
    office = Office(tenant)
    assert make(office.alice, tenant, days, *scopes) == status
    assert make(tenant.admin, tenant, days, *scopes) == 201


def test_the_setting_bounds_keys_of_people(tenant: Tenant) -> None:
    """APIKEY-15, F2305b: `person_key_max_days` bounds all keys of people, 90 days those with admin.

    A role that has the scope counts, and the message names the latest end.
    """
    office = Office(tenant)
    tenant.admin.request("PUT", "/v1/roles/boss", json={"scopes": ["admin"]})
    for setting, longest, of_admin in ((3650, 3650, 90), (7, 7, 7)):
        body = {"person_key_max_days": setting}
        assert tenant.admin.request("PATCH", "/v1/tenant/settings", json=body).status_code == 200
        for more, days in (({"scopes": ["signer"]}, longest), ({"role": "boss"}, of_admin)):
            assert make(office.alice, tenant, days, **more) == 201
            assert make(office.alice, tenant, days + 1, **more) == 400
    body_ = {"name": "k", "scopes": ["signer"]}
    message = office.alice.post(PATH, json=body_).json()["error"]["message"]
    assert format_utc(tenant.ports.now() + timedelta(days=7)) in message
    assert "7 days" in message


def test_a_rotation_by_a_person_bounds_the_key(tenant: Tenant) -> None:
    """APIKEY-15, F2305c: A person rotates a key that never ends to one that ends in time."""
    office = Office(tenant)
    for scopes, days in ((["signer"], 365), (["admin"], 90)):
        body: dict[str, Any] = {"name": "k", "scopes": scopes}
        made = tenant.admin.post(PATH, json=body).json()
        path = f"{PATH}/{made['id']}/rotate"
        end = format_utc(tenant.ports.now() + timedelta(days=days + 1))
        late = {"grace_seconds": 60, "expires_at": end}
        assert office.alice.post(path, json=late).status_code == 400
        rotated = office.alice.post(path, json={"grace_seconds": 60}).json()
        assert rotated["expires_at"] == format_utc(tenant.ports.now() + timedelta(days=days))
