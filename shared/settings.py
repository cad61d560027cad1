"""The settings in the environment. Each store is named by a URI.

| Variable    | Values                                                  |
| ----------- | ------------------------------------------------------- |
| `SVC_STORE` | `sqlite:<file>`, `dynamodb:<prefix of the table names>`  |
| `SVC_BLOBS` | `file:<folder>`, `s3:<bucket>`                           |
| `SVC_KEYS`  | `file:<key file>`, `kms:<key id, alias or ARN>`          |
| `SVC_QUEUE` | `sqs:<queue's address>`, for the schedule and the feed    |

`SVC_TRUSTED_PROXIES` has networks such as `10.0.0.0/8,2001:db8::/32`: the proxies whose
X-Forwarded-For is used. The default is none.

`SVC_BASE_PATH` is the path below which API Gateway serves the API on a custom domain, such as
`auth`; other servers ignore it. The default is the root.

`shared/wiring.py` defines the schemes. AWS regions, credentials and endpoints are in the SDK's own
variables (`AWS_DEFAULT_REGION`, …).
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
_BASE_PATHS: Final = re.compile(
    r"(?!(?:v1|compat)(?:/|$))(?:[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*)?"
)
# All functions need the first three; who asks for lists needs the last. In the order of `Settings`.
_REQUIRED: Final = ("SVC_STORE", "SVC_BLOBS", "SVC_KEYS")
_NAMES: Final = (*_REQUIRED, "SVC_QUEUE")


@dataclass(frozen=True, slots=True)
class Uri:
    """The URI of a setting: `scheme` names an adapter, `location` the place of its data."""

    scheme: str
    location: str


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a process."""

    store: Uri
    blobs: Uri
    keys: Uri
    queue: Uri | None = None

    @classmethod
    def load(
        cls, environment: Mapping[str, str], schemes: Mapping[str, Collection[str]]
    ) -> "Settings":
        """Return the settings in `environment`; `schemes` are those that each variable allows.

        Raises `InvalidSettings`, which names all problems.
        """
        problems: list[str] = []
        uris = [
            _uri(name, environment.get(name), schemes[name], problems)
            for name in _NAMES
            if name in _REQUIRED or name in environment
        ]
        _networks(environment, problems)
        if problems:
            raise InvalidSettings(*problems)
        return cls(*uris)


def _uri(name: str, value: str | None, schemes: Collection[str], problems: list[str]) -> Uri:
    scheme, _, location = (value or "").partition(":")
    if scheme not in schemes or not location:
        allowed = " or ".join(f"{scheme}:…" for scheme in schemes)
        state = "is not set" if value is None else "is not valid"
        problems.append(f"{name} {state}; set it to {allowed}")
    return Uri(scheme, location)


def trusted_proxies(environment: Mapping[str, str]) -> tuple[Network, ...]:
    """Return the networks of proxies whose X-Forwarded-For is used. Raises `InvalidSettings`."""
    problems: list[str] = []
    networks = _networks(environment, problems)
    if problems:
        raise InvalidSettings(*problems)
    return networks


def base_path(environment: Mapping[str, str]) -> str:
    """Return the path below which API Gateway serves the API: `/`, or for example `/auth`.

    Raises `InvalidSettings`. A path that begins with `v1` or `compat` is refused, because paths of
    the API do too.
    """
    value = environment.get(_BASE_PATH, "")
    if not _BASE_PATHS.fullmatch(value):
        raise InvalidSettings(
            f"{_BASE_PATH} is not valid; set it to a path such as auth or team/auth, "
            "not below v1 or compat"
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
