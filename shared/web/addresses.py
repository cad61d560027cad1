"""The source address of a request: the peer, or the client of trusted proxies (AUTH-9)."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.requests import Request

from shared.settings import Network

# The prefix length of one subscriber's IPv6 network.
_IPV6_SUBSCRIBER_BITS = 64


def source_address(request: Request, trusted: Sequence[Network]) -> str:
    """Return the address that the request comes from, or "unknown" if the server has none.

    X-Forwarded-For is read from its right end, because each proxy appends the address of its peer.
    An entry is used only if the address to its right is in a `trusted` network: the result is the
    last address that is not trusted. Text that is not an address ends the search, and the proxy
    that sent it is the result, so that no caller's text is logged.
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
    """Return what unauthenticated callers share a rate limit by: an IPv4 address, an IPv6 /64."""
    parsed = _parsed(address)
    if isinstance(parsed, IPv6Address):
        return str(ip_network((parsed, _IPV6_SUBSCRIBER_BITS), strict=False))
    return address


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    try:
        parsed = ip_address(text)
    except ValueError:
        return None
    # A server that listens on both kinds reports IPv4 peers in this form.
    return (parsed.ipv4_mapped or parsed) if isinstance(parsed, IPv6Address) else parsed
