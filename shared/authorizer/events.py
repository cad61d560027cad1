"""Events of a client that follows the feed, for metrics and logs."""

from dataclasses import dataclass
from logging import INFO, WARNING, Logger


@dataclass(frozen=True, slots=True)
class PollSucceeded:
    """The service responded after `seconds`. `changed` is False if it had no news."""

    seconds: float
    changed: bool


@dataclass(frozen=True, slots=True)
class StateAdvanced:
    """The state advanced from entry `before` to entry `after`, with `count` revoked warrants.

    `before` is None for the first state.
    """

    before: int | None
    after: int
    count: int


@dataclass(frozen=True, slots=True)
class ResponseRejected:
    """A response of the service failed a check, and the state did not change.

    `reason` is the name of the check (docs/spec/feed.md).
    """

    reason: str


@dataclass(frozen=True, slots=True)
class PollFailed:
    """The service did not respond, or returned an error. The next poll is after `pause` seconds."""

    message: str
    pause: float


@dataclass(frozen=True, slots=True)
class BecameStale:
    """The state is stale: warrants not known to be revoked are STALE from now on."""


@dataclass(frozen=True, slots=True)
class BecameFresh:
    """The state is recent, for the first time or after `BecameStale`."""


@dataclass(frozen=True, slots=True)
class SignerChanged:
    """The client accepted a feed head of a new SRL signer with the raw public key `key`."""

    key: bytes


@dataclass(frozen=True, slots=True)
class TrustChanged:
    """The client accepted another trust document, of this `version`, verified from `pin`."""

    version: int
    pin: str


@dataclass(frozen=True, slots=True)
class ReportAccepted:
    """The service accepted a report that the client has entry `sequence`.

    `status` is `equivocation` if the client's history up to this entry differs from the service's.
    """

    sequence: int
    status: str


@dataclass(frozen=True, slots=True)
class ReportFailed:
    """A report failed, which affects no verdict. The next one is after `pause` seconds.

    `is_refused` is True if the service rejects the registration and an operator has to act.
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
    """Log an event that operators need."""
    match event:
        case ResponseRejected(reason):
            to.error("rejected a response of the service: %s", reason)
        case PollFailed(message):
            to.warning("cannot poll the feed: %s", message)
        case SignerChanged(key):
            to.warning("the SRL signer is now %s", key.hex())
        case TrustChanged(version, pin):
            to.info("accepted version %d of the trust document, with the pin %s", version, pin)
        case ReportAccepted(status="equivocation"):
            to.error("the feed of this client differs from the feed of the service")
        case ReportFailed(message, is_refused=is_refused):
            to.log(WARNING if is_refused else INFO, "cannot send a report: %s", message)
