"""The choices of an authorizer for its client: how often it polls, how old its state may be."""

import math
from dataclasses import dataclass
from enum import StrEnum

from .formats.wire import Base

# An answer of a long poll must come well before the answer before it is too old.
_WAIT_PART = 3
_POLL_PART = 2


@dataclass(frozen=True, slots=True)
class PollPolicy:
    """How a client polls, and what it answers without news.

    `max_staleness` is how many seconds after the last answer of the service a warrant that is not
    known to be revoked still is CLEAR; after that it is STALE. `poll_seconds` is the pause between
    polls; if the service asks for a longer one, that is used, up to half of `max_staleness`.
    `wait_seconds` is the longest long poll, for services that grant them. `allow_when_stale` lets
    CLEAR stand for STALE. `allow_http` permits a service without TLS that is not on this machine:
    everybody on the way then reads the API key, and can withhold news until the head expires.

    Raises `ValueError` if a value has no meaning.
    """

    max_staleness: float = 30.0
    poll_seconds: float = 1.0
    wait_seconds: float = 25.0
    allow_when_stale: bool = False
    allow_http: bool = False

    def __post_init__(self) -> None:
        for name in ("max_staleness", "poll_seconds"):
            check_seconds(name, getattr(self, name))
        if self.wait_seconds and not _is_positive(self.wait_seconds):
            raise ValueError("wait_seconds must be a number of seconds, or 0")
        for name in ("allow_when_stale", "allow_http"):
            # A text such as "false" must not switch a protection off.
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False")  # noqa: TRY004

    @property
    def pause_max(self) -> float:
        """The longest pause that the service can ask for, and that a failure causes."""
        return self.max_staleness / _POLL_PART

    def pause(self, wait: float) -> float:
        """Return the longest pause between polls, if the service asks for `wait` seconds."""
        return max(self.poll_seconds, min(wait, self.pause_max))

    def wait(self, seconds: float) -> int:
        """Return for how many whole seconds to wait in a poll, if the service grants `seconds`."""
        return int(min(self.wait_seconds, seconds, self.max_staleness / _WAIT_PART))


def check_seconds(name: str, value: object) -> None:
    """Raise `ValueError` unless the value of `name` is a number of seconds above 0."""
    if not _is_positive(value):
        raise ValueError(f"{name} must be a number of seconds above 0")


def _is_positive(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value > 0  # type: ignore[arg-type,operator]


class RejectionReason(StrEnum):
    """Why an answer or a base was refused, in the order of the checks."""

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
    """An answer or a base that a client must not use. Its state remains in force."""

    def __init__(self, reason: RejectionReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class BaseRequired(Exception):
    """The entries do not continue what is held: `advance` needs the payload of the list `base`."""

    def __init__(self, base: Base) -> None:
        super().__init__(f"the list of version {base.version} is needed")
        self.base = base
