"""Where a request comes from: the peer, or the last hop that is not a trusted proxy."""

from collections.abc import Sequence

import pytest
from starlette.requests import Request

from shared.authorizer.formats.addresses import find_subscriber
from shared.model.outbound import Network
from shared.settings import trusted_proxies
from shared.web.gate import source_address
from tests.kit.api import Tenant
from tests.kit.asgi import send

TRUSTED = trusted_proxies({"RESCIND_TRUSTED_PROXIES": "10.0.0.0/8,192.0.2.7,2001:db8:f::/48"})
CLIENT = "198.51.100.9"


def source(peer: str | None, *forwarded: str, trusted: Sequence[Network] = TRUSTED) -> str:
    """The source address of a request from `peer` with these X-Forwarded-For headers."""
    headers = [(b"x-forwarded-for", each.encode("latin-1")) for each in forwarded]
    client = None if peer is None else (peer, 50000)
    return source_address(Request({"type": "http", "headers": headers, "client": client}), trusted)


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        # One trusted proxy, and a chain of them.
        ("10.0.0.1", [CLIENT], CLIENT),
        ("192.0.2.7", [f"{CLIENT}, 10.1.2.3,10.9.9.9"], CLIENT),
        # A gateway appends its own peer, which is the proxy.
        ("10.0.0.1", [f"{CLIENT}, 10.0.0.1"], CLIENT),
        # What the client claims stands to the left of what the proxy saw.
        ("10.0.0.1", [f"203.0.113.66, {CLIENT}"], CLIENT),
        ("10.0.0.1", [f"10.0.0.5, {CLIENT}"], CLIENT),
        ("10.0.0.1", ["203.0.113.66", CLIENT], CLIENT),
        # Nobody trusted says anything: the peer.
        ("203.0.113.1", [CLIENT], "203.0.113.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        # Proxies alone: the one farthest away.
        ("10.0.0.1", ["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        # Text that is no address: the proxy that sent it.
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", [f"{CLIENT}, <script>, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", [""], "10.0.0.1"),
        # Some proxies add a port, and brackets.
        ("10.0.0.1", [f"{CLIENT}:443"], CLIENT),
        ("10.0.0.1", [f"{CLIENT}:443, 10.1.2.3:50001"], CLIENT),
        ("10.0.0.1", ["[2001:db8:1::5]:443"], "2001:db8:1::5"),
        ("10.0.0.1", ["[2001:db8:1::5]"], "2001:db8:1::5"),
        ("10.0.0.1", [f"[::ffff:{CLIENT}]:1"], CLIENT),
        ("10.0.0.1", [f"{CLIENT}:port"], "10.0.0.1"),
        ("10.0.0.1", [f"{CLIENT}:443:1"], "10.0.0.1"),
        ("10.0.0.1", ["[2001:db8:1::5"], "10.0.0.1"),
        ("10.0.0.1", ["[nobody]:80"], "10.0.0.1"),
        ("10.0.0.1", ["010.0.0.1"], "10.0.0.1"),
        # IPv6, and IPv4 in the form that a server of both kinds tells.
        ("2001:db8:f::1", ["2001:DB8:1:0::5"], "2001:db8:1::5"),
        ("::ffff:10.0.0.1", [f"::ffff:{CLIENT}"], CLIENT),
        ("2001:db8:e::1", [CLIENT], "2001:db8:e::1"),
        # A server that does not tell addresses.
        (None, [CLIENT], "unknown"),
        ("/run/socket", [CLIENT], "/run/socket"),
    ],
)
def test_the_last_hop_that_is_not_trusted(
    peer: str | None, forwarded: list[str], expected: str
) -> None:
    """AUTH-9, F73a, F2221a: `X-Forwarded-For` is read from the right, past trusted proxies only."""
    assert source(peer, *forwarded) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("198.51.100.9", "198.51.100.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::1", "2001:db8:1:3::/64"),
        ("unknown", "unknown"),
    ],
)
def test_anonymous_callers_share_a_limit_by_network(address: str, expected: str) -> None:
    """An IPv6 subscriber has many addresses in a /64 and gets one limit for all of them."""
    assert find_subscriber(address) == expected


@pytest.mark.slow
def test_another_address_of_the_network_gives_no_second_limit(tenant: Tenant) -> None:
    """What one address takes is taken from all addresses of its /64."""
    left = [
        send(tenant.admin.http.app, "GET", "/v1/keys", peer=peer).headers["x-ratelimit-remaining"]
        for peer in ["2001:db8::1", *["2001:db8::2"] * 1001, "2001:db8::3", "2001:db8:0:1::1"]
    ]
    assert int(left[-2]) < 1000
    assert int(left[-1]) == 1000
