"""The networks from which an API key is accepted (APIKEY-13)."""

from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import pytest

from infra.server.routers import ROUTERS
from shared.errors import InvalidApiKey
from shared.operations.access import api_keys, service_accounts
from shared.web.app import create_app
from tests.kit.api import Client, Instance, Tenant
from tests.kit.reads import reading

PATH = "/v1/api-keys"
# The peer of the tests is the last proxy.
PROXIES = [ip_network("203.0.113.1"), ip_network("10.0.0.0/8")]


def make(client: Client, *networks: str, **more: Any) -> Any:
    body = {"name": "k", "scopes": ["admin"], "networks": networks} | more
    return client.post(PATH, json=body)


@pytest.fixture
def behind(tenant: Tenant) -> Instance:
    """The service behind proxies in `PROXIES`."""
    app = create_app(*ROUTERS, ports=lambda: tenant.ports, trusted_proxies=lambda: PROXIES)
    return Instance(app, tenant.ports)


def ask(behind: Instance, secret: str, forwarded: str) -> Any:
    headers = {"X-Forwarded-For": forwarded}
    return Client(behind, secret).get("/v1/whoami", headers=headers)


@pytest.mark.parametrize(
    ("networks", "address", "is_in"),
    [
        (["192.0.2.0/24"], "192.0.2.255", True),
        (["192.0.2.0/24"], "192.0.3.0", False),
        (["192.0.2.7"], "192.0.2.7", True),
        (["192.0.2.7"], "192.0.2.8", False),
        (["192.0.2.0/24"], "::ffff:192.0.2.9", True),
        (["2001:db8::/32"], "2001:db8:1::1", True),
        (["2001:db8::/32"], "2001:db9::1", False),
        (["::/0"], "192.0.2.7", False),
        (["198.51.100.0/24", "192.0.2.0/24"], "192.0.2.1", True),
        ([f"192.0.{each}.0/24" for each in range(10)], "192.0.9.1", True),
        ([], "203.0.113.9", True),
    ],
)
def test_a_key_is_accepted_from_its_networks(
    tenant: Tenant, behind: Instance, networks: list[str], address: str, *, is_in: bool
) -> None:
    """APIKEY-13, F2303a: A key is accepted from its networks alone, behind trusted proxies too.

    The refusal is that of AUTH-2, with the address for the holder of the whole secret.
    """
    made = make(tenant.admin, *networks).json()
    answer = ask(behind, made["key"], f"192.0.2.1, {address}, 10.1.1.1")
    assert answer.status_code == (200 if is_in else 401)
    if not is_in:
        assert answer.json()["error"] == {
            "code": "invalid_api_key",
            "message": f"The API key is not accepted from the address {address}.",
        }
    # Without its networks the same address finds it unknown.
    assert ask(behind, made["key"][:-1] + "!", address).json()["error"]["message"] == (
        "The provided API key is invalid."
    )


def test_an_untrusted_header_opens_nothing(tenant: Tenant) -> None:
    """APIKEY-13, F2303b: A caller cannot name its own address, so that no header helps a thief."""
    made = make(tenant.admin, "192.0.2.0/24").json()
    assert ask(Instance(_direct(tenant), tenant.ports), made["key"], "192.0.2.1").status_code == 401


def _direct(tenant: Tenant) -> Any:
    return create_app(*ROUTERS, ports=lambda: tenant.ports)


def test_networks_cost_no_further_read(tenant: Tenant) -> None:
    """APIKEY-13, F2303c: A key with networks is accepted with one read, and refused with two."""
    made = make(tenant.admin, "192.0.2.0/24").json()
    plain = make(tenant.admin).json()
    counts = []
    for key, address in ((plain, "192.0.2.1"), (made, "192.0.2.1"), (made, "192.0.3.1")):
        with reading(tenant.ports) as (ports, reads), suppress(InvalidApiKey):
            api_keys.authenticate(ports, key["key"], source_ip=address)
        counts.append(reads.trips)
    assert counts == [1, 1, 2]


@pytest.mark.parametrize(
    "networks",
    [
        ["192.0.2.0/0.0.0.255"],
        ["192.0.2.1/24"],
        ["192.0.2.0/33"],
        ["example.com"],
        [""],
        ["::ffff:192.0.2.0/120"],
        ["fe80::1%eth0"],
        ["192.0.2.0/24", "192.0.2.0/24"],
        [f"192.0.{each}.0/24" for each in range(11)],
    ],
)
def test_what_is_no_network_is_refused(tenant: Tenant, networks: list[str]) -> None:
    """APIKEY-13, F2303d: A key has up to ten networks in CIDR notation, each once."""
    answer = make(tenant.admin, *networks)
    assert (answer.status_code, "networks" in answer.text) == (400, True)


def test_networks_are_shown_and_kept(tenant: Tenant, behind: Instance) -> None:
    """APIKEY-13, F2303e: A key shows its networks, which a rotation keeps.

    Accounts that are disabled and enabled keep them, too.
    """
    account = service_accounts.create(tenant.ports, tenant.operator, name="robot")
    made = make(tenant.admin, "192.0.2.0/24", "2001:DB8::/32", service_account_id=account.id).json()
    shown = tenant.admin.get(f"{PATH}/{made['id']}").json()
    assert shown["networks"] == ["192.0.2.0/24", "2001:db8::/32"]
    for act in ("disable", "enable"):
        tenant.admin.post(f"/v1/service-accounts/{account.id}/{act}")
    assert ask(behind, made["key"], "192.0.3.1").status_code == 401
    assert ask(behind, made["key"], "192.0.2.1").status_code == 200
    body: dict[str, Any] = {"grace_seconds": 60}
    first = tenant.admin.post(f"{PATH}/{made['id']}/rotate", json=body).json()
    for secret in (made["key"], first["key"]):
        assert ask(behind, secret, "192.0.3.1").status_code == 401
        assert ask(behind, secret, "192.0.2.1").status_code == 200


def test_a_key_opens_no_network_that_it_has_not(tenant: Tenant, behind: Instance) -> None:
    """APIKEY-13, F2303f: A key with networks makes and rotates keys for the same alone."""
    secret = make(tenant.admin, "192.0.2.0/24", "2001:db8::/32").json()["key"]
    client = Client(replace(behind), secret)
    headers = {"X-Forwarded-For": "192.0.2.1"}

    def post(path: str, **body: Any) -> int:
        return int(client.post(path, json=body, headers=headers).status_code)

    usual: dict[str, Any] = {"name": "k", "scopes": ["admin"]}
    assert post(PATH, **usual) == 400
    for networks, status in (
        (["2001:db8::/32", "192.0.2.0/24"], 201),
        (["192.0.2.0/24"], 400),
        (["192.0.2.0/24", "203.0.113.9"], 400),
        ([], 400),
    ):
        assert post(PATH, **usual, networks=networks) == status
        path = f"{PATH}/{make(tenant.admin, *networks).json()['id']}/rotate"
        assert post(path, grace_seconds=60) == status
