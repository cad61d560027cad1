"""The settings of a process, read from environment variables.

Every process needs a store, blobs and a key wrapper. Each is named by a URI.

| Variable              | Values                                                   |
| --------------------- | -------------------------------------------------------- |
| `RESCIND_STORE`       | `sqlite:<file>`, `dynamodb:<prefix of the table names>`, |
|                       | `postgresql://<user>@<host>/<database>?…`                |
| `RESCIND_BLOBS`       | `file:<folder>`, `s3:<bucket>`, `postgresql:`,           |
|                       | `azure:<account>/<container>`                            |
| `RESCIND_KEY_WRAPPER` | `file:<key file>`, `kms:<key id, alias or ARN>`,         |
|                       | `vault:<mount>/<key>`                                    |

These variables are optional.

| Variable                            | Value                                                      |
| ----------------------------------- | ---------------------------------------------------------- |
| `RESCIND_ROOT`                      | the root key that signs trust documents: `file:<key        |
|                                     | file>`, `kms:<key id, alias or ARN>`, `pkcs11:<URI of RFC  |
|                                     | 7512>` or `offline`. Default: `root.key` beside the file   |
|                                     | of `RESCIND_KEY_WRAPPER` if it exists, else `offline`      |
| `RESCIND_ROOT_PASSPHRASE_FILE`      | a file with the passphrase of that key file                |
| `RESCIND_QUEUE`                     | `sqs:<address of the queue>`, for the schedule and feed    |
| `RESCIND_AUDIT_SINK`                | the write-once copy of the audit log: `file:<folder>`, or  |
|                                     | `s3:<bucket>` with Object Lock. Default: no copy           |
| `RESCIND_WITNESSES`                 | the number of witnesses that must sign a checkpoint, then  |
|                                     | the verifier key and URL of each, separated by spaces.     |
|                                     | Default: no witnesses                                      |
| `RESCIND_TRUSTED_PROXIES`           | networks, such as `10.0.0.0/8,2001:db8::/32`, of proxies   |
|                                     | with a trusted X-Forwarded-For. Default: none              |
| `RESCIND_OUTBOUND_ALLOWED_NETWORKS` | private networks, such as `10.2.0.0/16`, that webhooks and |
|                                     | identity providers may be in. Default: none                |
| `RESCIND_MODE`                      | `open` (default). `read-only` serves checks and SRLs and   |
|                                     | writes nothing. `standby` is read-only unless the store    |
|                                     | names the AWS region of the process as the write region    |
| `RESCIND_LEADER_ELIGIBLE`           | `on` (default). With `off`, a server only answers          |
|                                     | requests; other servers publish, append and deliver        |
| `RESCIND_BASE_PATH`                 | the path of the API on a custom domain of API Gateway,     |
|                                     | such as `auth`. Other hosts ignore it. Default: the root   |

`shared/wiring.py` defines the schemes. The SDKs read AWS regions, credentials and endpoints from
their own variables (`AWS_DEFAULT_REGION`, …), as do Azure (`AZURE_STORAGE_ACCOUNT_KEY`, …) and
Vault or OpenBao (`VAULT_ADDR`, …).
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_network
from typing import Final, TypeVar

from shared.errors import InvalidSettings
from shared.model.audit.witness_policy import WitnessPolicy
from shared.model.outbound import Network

_Choice = TypeVar("_Choice", bound=StrEnum)

_TRUSTED_PROXIES: Final = "RESCIND_TRUSTED_PROXIES"
_MODE: Final = "RESCIND_MODE"
_DUTIES: Final = "RESCIND_LEADER_ELIGIBLE"
_AUDIT_SINK: Final = "RESCIND_AUDIT_SINK"
_WITNESSES: Final = "RESCIND_WITNESSES"
_OUTBOUND_NETWORKS: Final = "RESCIND_OUTBOUND_ALLOWED_NETWORKS"
_BASE_PATH: Final = "RESCIND_BASE_PATH"
# The same pattern as in template.yaml.
_BASE_PATHS: Final = re.compile(
    r"(?!(?:v1|compat)(?:/|$))(?:[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*)?"
)
# All functions need these.
_REQUIRED: Final = ("RESCIND_STORE", "RESCIND_BLOBS", "RESCIND_KEY_WRAPPER")
_OPTIONAL: Final = ("RESCIND_QUEUE", "RESCIND_ROOT")
_ROOT_OPENED_BY: Final = "RESCIND_ROOT_PASSPHRASE_FILE"
# Values without a location: the blobs are in the database of the store, or the root key is offline.
_WHOLE: Final = frozenset({"RESCIND_BLOBS=postgresql:", "RESCIND_ROOT=offline:"})
_CONNECTIONS: Final = "RESCIND_POSTGRESQL_POOL_SIZE"
_CONNECTIONS_DEFAULT: Final = 8
_CONNECTIONS_MAX: Final = 200
_PREPARE: Final = "RESCIND_POSTGRESQL_PREPARE"


class Mode(StrEnum):
    """The access of a process to the data."""

    OPEN = "open"
    READ_ONLY = "read-only"
    STANDBY = "standby"


class Switch(StrEnum):
    """Whether a feature is used."""

    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Uri:
    """The URI of a setting. `scheme` names an adapter, `location` the location of its data."""

    scheme: str
    location: str


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a process. `region` is its AWS region, or empty outside AWS.

    `root_passphrase` is the path of a passphrase file, or empty.
    """

    store: Uri
    blobs: Uri
    key_wrapper: Uri
    queue: Uri | None = None
    mode: Mode = Mode.OPEN
    region: str = ""
    root: Uri | None = None
    root_passphrase: str = ""

    @classmethod
    def load(
        cls, environment: Mapping[str, str], schemes: Mapping[str, Collection[str]]
    ) -> "Settings":
        """Return the settings in `environment`. `schemes` has the allowed schemes by variable.

        Raises `InvalidSettings`, which names all problems.
        """
        problems: list[str] = []
        uris: dict[str, Uri] = {}
        for name in (*_REQUIRED, *(each for each in _OPTIONAL if each in environment)):
            try:
                uris[name] = _uri(name, environment.get(name), schemes[name])
            except InvalidSettings as error:
                problems += error.problems
        for check in (trusted_proxies, outbound_networks, witnesses, mode, duties):
            try:
                check(environment)
            except InvalidSettings as error:
                problems += error.problems
        if problems:
            raise InvalidSettings(*problems)
        return cls(
            store=uris["RESCIND_STORE"],
            blobs=uris["RESCIND_BLOBS"],
            key_wrapper=uris["RESCIND_KEY_WRAPPER"],
            queue=uris.get("RESCIND_QUEUE"),
            mode=mode(environment),
            region=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION", ""),
            root=uris.get("RESCIND_ROOT"),
            root_passphrase=environment.get(_ROOT_OPENED_BY, ""),
        )


def _uri(name: str, value: str | None, schemes: Collection[str]) -> Uri:
    scheme, _, location = (value or "").partition(":")
    is_whole = bool(location) or f"{name}={scheme}:" in _WHOLE
    if scheme not in schemes or not is_whole:
        allowed = " or ".join(
            f"{each}:" if f"{name}={each}:" in _WHOLE else f"{each}:…" for each in schemes
        )
        state = "is not set" if value is None else "is not valid"
        raise InvalidSettings(f"{name} {state}; set it to {allowed}")
    return Uri(scheme, location)


def trusted_proxies(environment: Mapping[str, str]) -> tuple[Network, ...]:
    """Return the networks of proxies with a trusted X-Forwarded-For header.

    Raises `InvalidSettings`.
    """
    networks = _networks(_TRUSTED_PROXIES, environment)
    if any(network.prefixlen == 0 for network in networks):
        raise InvalidSettings(
            f"{_TRUSTED_PROXIES} must not trust every address; name the proxies' own"
        )
    return networks


def outbound_networks(environment: Mapping[str, str]) -> tuple[Network, ...]:
    """Return the allowed networks in addition to public ones. Raises `InvalidSettings`."""
    return _networks(_OUTBOUND_NETWORKS, environment)


def audit_sink(environment: Mapping[str, str], schemes: Collection[str]) -> Uri | None:
    """Return the destination for copies of audit entries, or None. Raises `InvalidSettings`."""
    value = environment.get(_AUDIT_SINK)
    return _uri(_AUDIT_SINK, value, schemes) if value else None


def witnesses(environment: Mapping[str, str]) -> WitnessPolicy | None:
    """Return the witnesses of the transparency log, or None. Raises `InvalidSettings`."""
    value = environment.get(_WITNESSES, "").strip()
    try:
        return WitnessPolicy.parse(value) if value else None
    except ValueError as error:
        raise InvalidSettings(
            f"{_WITNESSES} is not valid: {error}. Set it to a value such as 1 "
            "witness.example+1a2b3c4d+BAbc…= https://witness.example"
        ) from error


def mode(environment: Mapping[str, str]) -> Mode:
    """Return the access mode of this process. Raises `InvalidSettings`."""
    return _read_choice(_MODE, Mode.OPEN, environment)


def duties(environment: Mapping[str, str]) -> Switch:
    """Return whether this process may lead. Raises `InvalidSettings`."""
    return _read_choice(_DUTIES, Switch.ON, environment)


def _read_choice(name: str, default: _Choice, environment: Mapping[str, str]) -> _Choice:
    choices = type(default)
    try:
        return choices(environment.get(name, default))
    except ValueError:
        problem = f"{name} is not valid; set it to {' or '.join(choices)}"
        raise InvalidSettings(problem) from None


def pool_size(environment: Mapping[str, str]) -> int:
    """Return the number of PostgreSQL connections per process. Raises `InvalidSettings`."""
    value = environment.get(_CONNECTIONS, str(_CONNECTIONS_DEFAULT))
    if not (value.isascii() and value.isdigit() and 0 < int(value) <= _CONNECTIONS_MAX):
        raise InvalidSettings(f"{_CONNECTIONS} is not valid; set it to 1 to {_CONNECTIONS_MAX}")
    return int(value)


def uses_prepared_statements(environment: Mapping[str, str]) -> bool:
    """Return whether PostgreSQL statements are prepared. Raises `InvalidSettings`."""
    return _read_choice(_PREPARE, Switch.ON, environment) is Switch.ON


def base_path(environment: Mapping[str, str]) -> str:
    """Return the path below which API Gateway serves the API, for example `/auth`, or `/`.

    Raises `InvalidSettings`. A path that begins with `v1` or `compat` is invalid, because the paths
    of the API begin with them.
    """
    value = environment.get(_BASE_PATH, "")
    if not _BASE_PATHS.fullmatch(value):
        raise InvalidSettings(
            f"{_BASE_PATH} is not valid; set it to a path such as auth or team/auth, "
            "not below v1 or compat"
        )
    return f"/{value}"


def _networks(name: str, environment: Mapping[str, str]) -> tuple[Network, ...]:
    value = environment.get(name, "")
    try:
        return tuple(ip_network(each.strip()) for each in value.split(",")) if value else ()
    except ValueError:
        raise InvalidSettings(
            f"{name} is not valid; set it to networks such as 10.0.0.0/8, with commas between them"
        ) from None
