"""Listening addresses of the server on one machine."""

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

from shared.errors import InvalidSettings

# The address of a server that was started without options.
LOCAL: Final = "http://127.0.0.1:8080/"


class MetricsAddress(NamedTuple):
    """The address of the metrics, for example 127.0.0.1:9464 or [::1]:9464.

    Port 0 is any free port.
    """

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "MetricsAddress":
        """Parse an address and a port. Raises `ValueError` if `text` is invalid."""
        host, _, port = text.rpartition(":")
        try:
            return cls(str(ip(host.removeprefix("[").removesuffix("]"))), int(port))
        except ValueError:
            raise ValueError(f"{text} is not like 127.0.0.1:9464 or [::1]:9464") from None

    def __str__(self) -> str:
        return f"{url_host(ip(self.host))}:{self.port}"


def ip(text: str) -> IPv4Address | IPv6Address:
    """Parse an IP address. Raises `ValueError`."""
    try:
        return ip_address(text)
    except ValueError:
        raise ValueError(f"{text} is not an IP address such as 127.0.0.1, 0.0.0.0 or ::1") from None


def url_host(host: IPv4Address | IPv6Address) -> str:
    """Return the address in URL notation."""
    return str(host) if isinstance(host, IPv4Address) else f"[{host}]"


def browser_host(host: IPv4Address | IPv6Address) -> str:
    """Return the host by which a local browser reaches a server on `host`."""
    if host.is_unspecified:
        return "127.0.0.1" if isinstance(host, IPv4Address) else "[::1]"
    return url_host(host)


def bind(host: IPv4Address | IPv6Address, port: int) -> socket.socket:
    """Return a socket bound to this address. Raises `InvalidSettings` if binding fails."""
    bound = socket.socket(_family(host))
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if isinstance(host, IPv6Address):
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind((str(host), port))
    except (OSError, OverflowError) as error:
        bound.close()
        problem = f"address {host}, port {port}: {error}"
        raise InvalidSettings(f"{problem}. Try another: --port 8081, make run PORT=8081") from error
    return bound


def listen(address: MetricsAddress) -> socket.socket:
    """Return a listening socket. Raises `InvalidSettings` if listening fails."""
    try:
        return socket.create_server((address.host, address.port), family=_family(ip(address.host)))
    except (OSError, OverflowError) as error:
        raise InvalidSettings(f"--ops-address {address}: {error}. Try another port.") from error


def _family(host: IPv4Address | IPv6Address) -> socket.AddressFamily:
    return socket.AF_INET if isinstance(host, IPv4Address) else socket.AF_INET6
