"""Addresses of callers, and the network of one subscriber (AUTH-9)."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

# The prefix length of one subscriber's IPv6 network.
_IPV6_SUBSCRIBER_BITS: Final = 64


def find_subscriber(address: str, *, ipv6_bits: int = _IPV6_SUBSCRIBER_BITS) -> str:
    """Return the network of one subscriber.

    It is an IPv4 address, or the first `ipv6_bits` bits of an IPv6 address.
    """
    parsed = parse_address(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed, ipv6_bits), strict=False))
    return address


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an address, or return None. An IPv4-mapped IPv6 address becomes an IPv4 address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    # A server that listens on both families reports IPv4 peers in this form.
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
