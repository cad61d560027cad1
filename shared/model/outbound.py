"""Outbound requests: addresses that the service may connect to (HOOK-6), and their outcomes.

A caller who chooses an address must not gain access to internal addresses through the service.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address
from typing import Final, TypeAlias
from urllib.parse import urlsplit

Network: TypeAlias = IPv4Network | IPv6Network

URL_MAX: Final = 2048
PORT: Final = 443
# The longest `Retry-After` that is followed, in seconds.
RETRY_AFTER_MAX: Final = 3600
# Maximum size of a stored response of a receiver, in bytes.
ANSWER_MAX: Final = 1024

_LABEL: Final = "[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
# A numeric last label is rejected, because resolvers treat `127.1` and `2130706433` as addresses.
_HOST: Final = re.compile(rf"(?:{_LABEL}\.)+(?!\d|0x)[a-z0-9-]{{2,63}}", re.IGNORECASE)
_URL: Final = re.compile(r"https://[!-~]+", re.IGNORECASE)

# Not public, although some versions of Python report `is_global` for them: protocol assignments,
# 6to4 relays, and the address that provides credentials to machines on Azure.
_REFUSED_V4: Final = tuple(map(IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")))
# Only this range is assigned. All others translate to IPv4 or are local.
_UNICAST_V6: Final = IPv6Network("2000::/3")
# Teredo and others, 6to4, and documentation.
_REFUSED_V6: Final = tuple(map(IPv6Network, ("2001::/23", "2002::/16", "3fff::/20")))


class DeliveryOutcome(StrEnum):
    """The outcome of an attempt to send.

    `response`: the receiver returned a status. `blocked`: the address is not allowed, and no
    request was sent. `no_response`: no connection, no valid certificate, or no well-formed response
    in time.
    """

    RESPONSE = "response"
    BLOCKED = "blocked"
    NO_RESPONSE = "no_response"


@dataclass(frozen=True, slots=True)
class EventMessage:
    """An event in its sent form: identifier, headers and body."""

    id: str
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class DeliveryResponse:
    """The outcome of one attempt. `body` has the first bytes of the response, as text.

    `status` is None unless `outcome` is `RESPONSE`. `retry_after` is in seconds.
    """

    outcome: DeliveryOutcome
    duration_ms: int
    status: int | None = None
    retry_after: int | None = None
    body: str = ""


def checked_url(url: str, *, any_port: bool = False) -> str:
    """Return `url` if it is allowed. Raises `ValueError` with a message for the caller."""
    if len(url) > URL_MAX:
        raise ValueError(f"must have at most {URL_MAX} characters")
    if not _URL.fullmatch(url) or "\\" in url:
        raise ValueError("must be an https address of printable ASCII characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError("must be a valid https address") from None
    if "@" in parts.netloc or "#" in url:
        raise ValueError("must have neither a user nor a fragment")
    if port not in (None, PORT) and not any_port:
        raise ValueError(f"must use port {PORT}")
    if not _HOST.fullmatch(parts.hostname or ""):
        raise ValueError("must name its host by a DNS name with a dot, not by an IP address")
    return url


def is_allowed(address: str, networks: Sequence[Network], port: int = PORT) -> bool:
    """Return whether the service may connect to a port of an IP address.

    The address must be in one of the operator's `networks`. Otherwise it must be a public unicast
    address, and the port must be 443.
    """
    ip = ip_address(address)
    if any(ip.version == each.version and ip in each for each in networks):
        return True
    if port != PORT:
        return False
    if isinstance(ip, IPv4Address):
        return ip.is_global and not ip.is_multicast and not any(ip in each for each in _REFUSED_V4)
    if ip.scope_id is not None or ip not in _UNICAST_V6:
        return False
    return ip.is_global and not any(ip in each for each in _REFUSED_V6)
