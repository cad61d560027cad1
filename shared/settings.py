"""The environment as settings: where things are kept, each named by a URI.

| Variable    | Values                                                  |
| ----------- | ------------------------------------------------------- |
| `SVC_STORE` | `sqlite:<file>`, `dynamodb:<prefix of the table names>`  |
| `SVC_BLOBS` | `file:<folder>`, `s3:<bucket>`                           |
| `SVC_KEYS`  | `file:<key file>`, `kms:<key id, alias or ARN>`          |
| `SVC_QUEUE` | `sqs:<queue's address>`, for the schedule alone          |

AWS regions, credentials and endpoints are the SDK's own variables (`AWS_DEFAULT_REGION`, …).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shared.errors import InvalidSettings

_SCHEMES: Final = {
    "SVC_STORE": ("sqlite", "dynamodb"),
    "SVC_BLOBS": ("file", "s3"),
    "SVC_KEYS": ("file", "kms"),
    "SVC_QUEUE": ("sqs",),
}
# What no function can do without.
_REQUIRED: Final = ("SVC_STORE", "SVC_BLOBS", "SVC_KEYS")


@dataclass(frozen=True, slots=True)
class Place:
    """A URI of a setting: which adapter, and where it keeps things."""

    scheme: str
    location: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What the process was started with."""

    store: Place
    blobs: Place
    keys: Place
    queue: Place | None = None

    @classmethod
    def load(cls, environment: Mapping[str, str]) -> "Settings":
        """The settings in `environment`. Raises `InvalidSettings`, naming every problem at once."""
        problems: list[str] = []
        places = [
            _place(name, environment.get(name), problems)
            for name in _SCHEMES
            if name in _REQUIRED or name in environment
        ]
        if problems:
            raise InvalidSettings(problems)
        return cls(*places)


def _place(name: str, value: str | None, problems: list[str]) -> Place:
    scheme, _, location = (value or "").partition(":")
    if scheme not in _SCHEMES[name] or not location:
        allowed = " or ".join(f"{scheme}:…" for scheme in _SCHEMES[name])
        state = "is not set" if value is None else "is not valid"
        problems.append(f"{name} {state}; set it to {allowed}")
    return Place(scheme, location)
