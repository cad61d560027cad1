"""Settings of a client: polling intervals and the staleness limit."""

import math
from dataclasses import dataclass
from enum import StrEnum

from .formats.wire import Base

# A long poll must end well before the previous response is too old.
_WAIT_PART = 3
_POLL_PART = 2


@dataclass(frozen=True, slots=True)
class PollPolicy:
    """Polling intervals of a client, and its behavior without news.

    `max_staleness` is the staleness limit in seconds after the last response of the service. Until
    then, a warrant not known to be revoked is CLEAR. Later it is STALE. `poll_seconds` is the pause
    between polls. A longer pause requested by the service is used, up to half of `max_staleness`.
    `wait_seconds` is the longest long poll, for services that offer them. `fail_open`
    returns CLEAR instead of STALE. `allow_http` permits a service without TLS on another machine.
    Anyone on the network path can then read the API key, and withhold news until the feed head
    expires.

    Raises `ValueError` for an invalid value.
    """

    max_staleness: float = 30.0
    poll_seconds: float = 1.0
    wait_seconds: float = 25.0
    fail_open: bool = False
    allow_http: bool = False

    def __post_init__(self) -> None:
        for name in ("max_staleness", "poll_seconds"):
            check_seconds(name, getattr(self, name))
        if self.wait_seconds and not _is_positive(self.wait_seconds):
            raise ValueError("wait_seconds must be a number of seconds, or 0")
        for name in ("fail_open", "allow_http"):
            # A string, for example "false", must not disable a protection.
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False")  # noqa: TRY004

    @property
    def pause_max(self) -> float:
        """The longest pause, requested by the service or caused by a failure."""
        return self.max_staleness / _POLL_PART

    def pause(self, wait: float) -> float:
        """Return the longest pause between polls if the service requests `wait` seconds."""
        return max(self.poll_seconds, min(wait, self.pause_max))

    def wait(self, seconds: float) -> int:
        """Return the duration of a long poll in whole seconds, if the service allows `seconds`."""
        return int(min(self.wait_seconds, seconds, self.max_staleness / _WAIT_PART))


def check_seconds(name: str, value: object) -> None:
    """Raise `ValueError` unless the value of `name` is a number of seconds above 0."""
    if not _is_positive(value):
        raise ValueError(f"{name} must be a number of seconds above 0")


def _is_positive(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0  # type: ignore[arg-type,operator]


class RejectionReason(StrEnum):
    """Why a response or a base was rejected, in the order of the checks."""

    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    SIGNATURE = "signature"
    TENANT = "tenant"
    LIFETIME = "lifetime"
    FUTURE = "future"
    EXPIRED = "expired"
    ROLLBACK = "rollback"
    EQUIVOCATION = "equivocation"
    REPLAY = "replay"
    CHAIN = "chain"
    BREAK = "break"
    GAP = "gap"
    FAST_FORWARD = "fast_forward"
    HASH = "hash"
    VERSION = "version"


class ResponseRejectedError(Exception):
    """A response or base that a client must not use. The client keeps its state."""

    def __init__(self, reason: RejectionReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class BaseRequired(Exception):
    """The entries do not continue the current state. `advance` needs the payload of `base`."""

    def __init__(self, base: Base) -> None:
        super().__init__(f"the list of version {base.version} is needed")
        self.base = base
