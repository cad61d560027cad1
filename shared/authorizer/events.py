"""Events of a client that follows the feed, for metrics and logs."""

from dataclasses import dataclass
from logging import INFO, WARNING, Logger


@dataclass(frozen=True, slots=True)
class PollSucceeded:
    """The service answered after `seconds`. `changed` is False if it had nothing new."""

    seconds: float
    changed: bool


@dataclass(frozen=True, slots=True)
class StateAdvanced:
    """The client holds a newer state: entry `after` instead of `before`, `count` revoked warrants.

    `before` is None for the first state.
    """

    before: int | None
    after: int
    count: int


@dataclass(frozen=True, slots=True)
class ResponseRejected:
    """An answer of the service did not pass a check, so the state did not change.

    `reason` is the name of the check (docs/spec/feed.md).
    """

    reason: str


@dataclass(frozen=True, slots=True)
class PollFailed:
    """The service did not answer, or with an error. The next poll is after `pause` seconds."""

    message: str
    pause: float


@dataclass(frozen=True, slots=True)
class BecameStale:
    """The state is too old: warrants that are not known to be revoked are STALE from now on."""


@dataclass(frozen=True, slots=True)
class BecameFresh:
    """The state is recent: at first, and after `BecameStale`."""


@dataclass(frozen=True, slots=True)
class SignerChanged:
    """The client accepted a head by another list signer, whose raw public key is `key`."""

    key: bytes


@dataclass(frozen=True, slots=True)
class TrustChanged:
    """The client holds another trust document: its `version`, and the pin from which it follows."""

    version: int
    pin: str


@dataclass(frozen=True, slots=True)
class ReportAccepted:
    """The service accepted a report that the client holds entry `sequence`.

    `status` is `foreign` if the history up to this entry is not that of the service.
    """

    sequence: int
    status: str


@dataclass(frozen=True, slots=True)
class ReportFailed:
    """A report did not arrive, which changes no verdict. The next one is after `pause` seconds.

    `is_refused` is True if the service refuses the registration, so that somebody has to act.
    """

    message: str
    pause: float
    is_refused: bool = False


Event = (
    PollSucceeded
    | StateAdvanced
    | ResponseRejected
    | PollFailed
    | BecameStale
    | BecameFresh
    | SignerChanged
    | TrustChanged
    | ReportAccepted
    | ReportFailed
)


def log(event: Event, to: Logger) -> None:
    """Log an event that people want to know of."""
    match event:
        case ResponseRejected(reason):
            to.error("an answer of the service was refused: %s", reason)
        case PollFailed(message):
            to.warning("the feed cannot be followed: %s", message)
        case SignerChanged(key):
            to.warning("the list signer now is %s", key.hex())
        case TrustChanged(version, pin):
            to.info("the trust document now is version %d, by the root %s", version, pin)
        case ReportAccepted(status="foreign"):
            to.error("the service does not know the history that this client holds")
        case ReportFailed(message, is_refused=is_refused):
            to.log(WARNING if is_refused else INFO, "a report failed: %s", message)
