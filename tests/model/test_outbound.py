"""Where the service may connect to (HOOK-6)."""

from ipaddress import ip_network

import pytest

from shared.model import outbound

PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001::200e"]
# Of the special registries of IANA, and what is known to be dangerous in clouds.
NOT_PUBLIC = [
    *["0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.255.255.254"],
    *["169.254.169.254", "169.254.170.2", "172.16.0.1", "192.0.0.1", "192.0.0.170", "192.0.0.192"],
    *["192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1"],
    *["224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16"],
    *["::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:1.1.1.1", "64:ff9b::7f00:1"],
    *["64:ff9b:1::1", "100::1", "2001::1", "2001:2::1", "2001:db8::1", "2001:10::1"],
    *["2002:7f00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1"],
    *["fe80::1%eth0", "fec0::1", "ff02::1", "4000::1"],
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_pass(address: str) -> None:
    """HOOK-6: A public unicast address may be sent to."""
    assert outbound.is_allowed(address, ())


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_other_addresses_do_not(address: str) -> None:
    """F387b: Nothing is sent to private, local, special or translated addresses."""
    assert not outbound.is_allowed(address, ())


def test_the_operator_may_allow_networks() -> None:
    """F387c: A network that the operator allows may be sent to, and its neighbours may not."""
    networks = (ip_network("10.2.0.0/16"), ip_network("fd00::/64"))
    for address, is_allowed in {
        "10.2.3.4": True,
        "10.3.0.1": False,
        "fd00::7": True,
        "fd00:1::7": False,
        # Mapped addresses are others, whatever they map to.
        "::ffff:10.2.3.4": False,
    }.items():
        assert outbound.is_allowed(address, networks) is is_allowed
