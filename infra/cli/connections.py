"""Connections to the service and to identity providers, also through proxies."""

import os
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from infra.cli.errors import UsageError
from shared.authorizer import http1
from shared.authorizer.http1 import Connection, Pool, Request, Response

_CONNECT_SECONDS: Final = 10.0
# A request can wait 25 seconds for authorizers (FLEET), and a function ends after 29.
_HEAD_SECONDS: Final = 35.0
_SECONDS: Final = 600.0
_BYTES_MAX: Final = 1 << 30
_PROXY: Final = "http://proxy.example.com:3128"


class Connections:
    """Persistent connections to servers, through the proxies that `environment` names.

    `head_seconds` limits the time until the response head, and `seconds` the time until its end.
    `via` names the proxy of the last request, without its password, for error messages.
    """

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        *,
        head_seconds: float = _HEAD_SECONDS,
        seconds: float = _SECONDS,
    ) -> None:
        self._environment, self.via = environment, ""
        self._head_seconds, self._seconds = head_seconds, seconds
        self._pools: dict[tuple[str, str], Pool] = {}

    def exchange(self, request: Request) -> Response:
        """Return the response to a request.

        Raises `HttpError`, `OSError`, or `UsageError` if the proxy cannot be used.
        """
        url = request.url
        proxy = proxy_of(url, self._environment)
        self.via = f", through the proxy {http1.authority_of(proxy)}" if proxy is not None else ""
        if proxy is not None and url.scheme == "http":
            headers = {**request.headers, **_authorization(proxy)}
            target = urlunsplit((url.scheme, http1.authority_of(url), url.path, url.query, ""))
            request = replace(request, headers=headers, target=target)
        connect = partial(self._connect, url, proxy)
        pool = self._pools.setdefault((url.scheme, url.netloc), Pool(connect))
        now = time.monotonic()
        head_deadline = now + self._head_seconds
        return pool.exchange(
            request, now + self._seconds, limit=_BYTES_MAX, head_deadline=head_deadline
        )

    def close(self) -> None:
        """Close all connections."""
        for each in self._pools.values():
            each.close()

    def _connect(self, url: SplitResult, proxy: SplitResult | None, deadline: float) -> Connection:
        deadline = min(deadline, time.monotonic() + self._head_seconds)
        context = self._context if url.scheme == "https" else None
        if proxy is None:
            return http1.connect(url, context, deadline, seconds=_CONNECT_SECONDS)
        connection = http1.connect(proxy, None, deadline, seconds=_CONNECT_SECONDS)
        if context is None:
            return connection
        host = (url.hostname or "").partition("%")[0]
        shown = f"[{host}]" if ":" in host else host
        target = f"{shown}:{http1.port_of(url)}"
        request = Request(url, "CONNECT", _authorization(proxy), target=target)
        tunnel = connection.open_tunnel(request, deadline)
        return Connection(http1.wrap(tunnel, context, host, deadline))

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return ssl.create_default_context()


def proxy_of(url: SplitResult, environment: Mapping[str, str] = os.environ) -> SplitResult | None:
    """Return the proxy for a URL. Raises `UsageError` if the configured proxy is not usable."""
    # A proxy could read the key, which may be sent without TLS only inside this machine.
    if http1.is_here(url.hostname or ""):
        return None
    named = _variable(f"{url.scheme}_proxy", environment) or _variable("all_proxy", environment)
    if named is None or is_exempt(url, (_variable("no_proxy", environment) or ("", ""))[1]):
        return None
    variable, value = named
    try:
        proxy = urlsplit(value if "://" in value else f"http://{value}")
        http1.port_of(proxy)
    except ValueError:
        proxy = urlsplit("")
    if proxy.scheme != "http":
        # The value can contain a password.
        raise UsageError(
            f"{variable} does not name an HTTP proxy; set it to an address such as {_PROXY}."
        )
    return proxy


def is_exempt(url: SplitResult, exempt: str) -> bool:
    """Return whether `NO_PROXY` matches the host of a URL: a name, domain, address or network."""
    host, port = (url.hostname or "").rstrip("."), http1.port_of(url)
    for entry in exempt.replace(",", " ").split():
        name, _, wanted = entry.rpartition(":")
        has_port = wanted.isdecimal() and int(wanted) == port
        if _contains(entry, host) or (has_port and _contains(name, host)):
            return True
    return False


def _contains(entry: str, host: str) -> bool:
    """Return whether an entry without a port matches a host."""
    if entry == "*":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        domain, host = _in_ascii(entry.lstrip("*").strip(".").lower()), _in_ascii(host)
        return bool(domain) and f".{host}".endswith(f".{domain}")
    with suppress(ValueError):
        network = ip_network(entry.strip("[]"), strict=False)
        mapped = getattr(address, "ipv4_mapped", None) or address
        return address in network or mapped in network
    return False


def _in_ascii(name: str) -> str:
    with suppress(UnicodeError):
        return name.encode("idna").decode()
    return name


def _variable(name: str, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the name and the value of a variable. The lower-case name takes precedence."""
    variable = name if name in environment else name.upper()
    value = environment.get(variable, "").strip()
    return (variable, value) if value else None


def _authorization(proxy: SplitResult) -> dict[str, str]:
    """Return the header with the user name and password of a proxy, if it has them."""
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
