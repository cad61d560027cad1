"""Where a request comes from: the peer, or what trusted proxies say of it (AUTH-9, ADR 0027)."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.requests import Request

from shared.settings import Network

# A subscriber of IPv6 has this many bits of addresses to choose from.
_IPV6_SUBSCRIBER_BITS = 64


def source_address(request: Request, trusted: Sequence[Network]) -> str:
    """The address that the request comes from, "unknown" if the server does not say.

    X-Forwarded-For is read from its right end, because each proxy appends the address of its own
    peer. It is believed only as long as the address to its right is in a `trusted` network: the
    result is the last hop that is not trusted. Text that is no address ends the walk, and the proxy
    that sent it is the result, so that no caller's text gets into a log.
    """
    peer = request.client.host if request.client else "unknown"
    current = _parsed(peer)
    if current is None:
        return peer
    hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    while hops and any(current in network for network in trusted):
        before = _parsed(hops.pop().strip())
        if before is None:
            break
        current = before
    return str(current)


def group(address: str) -> str:
    """What strangers at `address` share a rate limit by: IPv4 an address, IPv6 a /64 network."""
    parsed = _parsed(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed, _IPV6_SUBSCRIBER_BITS), strict=False))
    return address


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    # A server that listens on both kinds tells IPv4 peers in this form.
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, IPv6Address) else parsed
