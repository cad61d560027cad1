"""The source address of a request: the peer, or the client of trusted proxies (AUTH-9)."""

from collections.abc import Sequence

from starlette.requests import Request

from shared.settings import Network
from shared.web.strangers import parsed


def source_address(request: Request, trusted: Sequence[Network]) -> str:
    """Return the address that the request comes from, or "unknown" if the server has none.

    X-Forwarded-For is read from its right end, because each proxy appends the address of its peer.
    An entry is used only if the address to its right is in a `trusted` network: the result is the
    last address that is not trusted. Text that is not an address ends the search, and the proxy
    that sent it is the result, so that no caller's text is logged.
    """
    peer = request.client.host if request.client else "unknown"
    current = parsed(peer)
    if current is None:
        return peer
    hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    while hops and any(current in network for network in trusted):
        before = parsed(hops.pop().strip())
        if before is None:
            break
        current = before
    return str(current)
