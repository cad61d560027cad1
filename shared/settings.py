"""The environment as settings: where things are kept, each named by a URI.

| Variable    | Values                                                  |
| ----------- | ------------------------------------------------------- |
| `SVC_STORE` | `sqlite:<file>`, `dynamodb:<prefix of the table names>`  |
| `SVC_BLOBS` | `file:<folder>`, `s3:<bucket>`                           |
| `SVC_KEYS`  | `file:<key file>`, `kms:<key id, alias or ARN>`          |
| `SVC_QUEUE` | `sqs:<queue's address>`, for the schedule alone          |

`SVC_TRUSTED_PROXIES` holds networks such as `10.0.0.0/8,2001:db8::/32`: the proxies whose
X-Forwarded-For is believed. Without it none is.

`SVC_BASE_PATH` holds the path below which API Gateway serves the API on a domain of its own, such
as `auth`; no other server reads it. Without it the API is at the root.

`shared/wiring.py` has the adapters, and so the schemes that are allowed. AWS regions, credentials
and endpoints are the SDK's own variables (`AWS_DEFAULT_REGION`, …).
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, TypeAlias

from shared.errors import InvalidSettings

Network: TypeAlias = IPv4Network | IPv6Network

_TRUSTED_PROXIES: Final = "SVC_TRUSTED_PROXIES"
_BASE_PATH: Final = "SVC_BASE_PATH"
# As in template.yaml.
_BASE_PATHS: Final = re.compile(r"(?!v1(?:/|$))(?:[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*)?")
# What no function can do without, and what only the schedule needs; in the order of the fields.
_REQUIRED: Final = ("SVC_STORE", "SVC_BLOBS", "SVC_KEYS")
_NAMES: Final = (*_REQUIRED, "SVC_QUEUE")


@dataclass(frozen=True, slots=True)
class Uri:
    """A URI of a setting: which adapter, and where it keeps things."""

    scheme: str
    location: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What the process was started with."""

    store: Uri
    blobs: Uri
    keys: Uri
    queue: Uri | None = None

    @classmethod
    def load(
        cls, environment: Mapping[str, str], schemes: Mapping[str, Collection[str]]
    ) -> "Settings":
        """The settings in `environment`; `schemes` has those that each variable may name.

        Raises `InvalidSettings`, naming every problem at once.
        """
        problems: list[str] = []
        places = [
            _place(name, environment.get(name), schemes[name], problems)
            for name in _NAMES
            if name in _REQUIRED or name in environment
        ]
        _networks(environment, problems)
        if problems:
            raise InvalidSettings(problems)
        return cls(*places)


def _place(name: str, value: str | None, schemes: Collection[str], problems: list[str]) -> Uri:
    scheme, _, location = (value or "").partition(":")
    if scheme not in schemes or not location:
        allowed = " or ".join(f"{scheme}:…" for scheme in schemes)
        state = "is not set" if value is None else "is not valid"
        problems.append(f"{name} {state}; set it to {allowed}")
    return Uri(scheme, location)


def trusted_proxies(environment: Mapping[str, str]) -> tuple[Network, ...]:
    """The networks whose X-Forwarded-For is believed. Raises `InvalidSettings`."""
    problems: list[str] = []
    networks = _networks(environment, problems)
    if problems:
        raise InvalidSettings(problems)
    return networks


def base_path(environment: Mapping[str, str]) -> str:
    """The path below which API Gateway serves the API: `/`, or such as `/auth`.

    Raises `InvalidSettings`. A path that begins with `v1` is refused, since the API's own paths do.
    """
    value = environment.get(_BASE_PATH, "")
    if not _BASE_PATHS.fullmatch(value):
        raise InvalidSettings(
            [f"{_BASE_PATH} is not valid; set it to a path such as auth or team/auth, not below v1"]
        )
    return f"/{value}"


def _networks(environment: Mapping[str, str], problems: list[str]) -> tuple[Network, ...]:
    value = environment.get(_TRUSTED_PROXIES, "")
    try:
        networks = tuple(ip_network(each.strip()) for each in value.split(",")) if value else ()
    except ValueError:
        networks = ()
        problems.append(
            f"{_TRUSTED_PROXIES} is not valid; set it to networks such as 10.0.0.0/8, with commas"
            " between them"
        )
    if any(network.prefixlen == 0 for network in networks):
        problems.append(f"{_TRUSTED_PROXIES} must not trust every address; name the proxies' own")
    return networks
