"""Schedule and content of a client's reports (FLEET-2), without waits or requests.

The owner of an authorizer needs proof that revoked warrants are refused. A client therefore
registers, and then reports its feed entry: soon after each advance, and at regular intervals.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from random import SystemRandom
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

from .formats.members import NUMBER_MAX, parse_json
from .formats.proofs import SignedReport
from .policy import PollPolicy
from .view import NEVER, Snapshot

REGISTER: Final = "/v1/authorizers/register"

# Limits for the terms of the service: one day between reports, one hour of spread.
_AFTER: Final = (10.0, 86_400.0)
_SPREAD_MAX: Final = 3_600.0
_RETRY_AFTER_MAX: Final = 3_600.0

# Seconds until a failed report is repeated, initially and at most. Then seconds until a service
# that takes no reports is tried again, because it may have been upgraded.
_BACKOFF: Final = 5.0
_BACKOFF_MAX: Final = 300.0
_RETRY_UNSUPPORTED: Final = 3_600.0

# The service has lost the registration or rejects its reports, so the client registers again.
_FORGOTTEN: Final = frozenset({404, 409})
_NO_REGISTRY: Final = frozenset(range(400, 500)) - {401, 403, 408, 409, 425, 429}
_ID_LENGTH_MAX: Final = 200
_KIND: Final = "rescind-authorizer"
_FEATURES: Final = ("subject-cutoffs",)

_random: Final = SystemRandom()


class ReportingState(StrEnum):
    """Whether a client reports, as shown in its status.

    WAITING: no report was sent yet. FAILING: reports do not arrive. UNSUPPORTED: the service takes
    no reports. The client tries again after an hour.
    """

    OFF = "off"
    WAITING = "waiting"
    ON = "on"
    FAILING = "failing"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """Reporting part of a client's status. `at` is the time of the last accepted report."""

    state: ReportingState = ReportingState.OFF
    at: datetime | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ReportInterval:
    """The intervals that the service requests, in seconds.

    `after` is the time between two reports without changes. `spread` is the period within which all
    clients report an advance.
    """

    after: float = 300.0
    spread: float = 0.0

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Self:
        """Return the bounded intervals of a response. Raises `ValueError` if they are invalid."""
        after, spread = (
            _seconds(members.get(name)) for name in ("report_after_seconds", "jitter_seconds")
        )
        return cls(min(max(after, _AFTER[0]), _AFTER[1]), min(spread, _SPREAD_MAX))


@dataclass(frozen=True, slots=True)
class ReportResponse:
    """The response to a registration, with the `id`, or to a report, with the `status`.

    `last_number` is the number of the last signed report that the service has.
    """

    terms: ReportInterval
    id: str = ""
    status: str = ""
    last_number: int = 0

    @classmethod
    def parse(cls, body: bytes, *, has: str) -> Self:
        """Parse a response, which must have the member `has`. Raises `ValueError`."""
        members = parse_json(body)
        if not isinstance(members, dict):
            raise ValueError("the response is not a JSON object")  # noqa: TRY004
        value = members.get(has)
        if (
            not isinstance(value, str)
            or not 0 < len(value) <= _ID_LENGTH_MAX
            or not (value.isascii() and value.isprintable())
        ):
            raise ValueError(f"the response has no {has}")
        last = members.get("last_number")
        number = last if type(last) is int and 0 <= last < NUMBER_MAX else 0
        return cls(ReportInterval.of(members), last_number=number, **{has: value})


class ReportSchedule:
    """Decides when one client reports. All times are seconds of a monotonic clock.

    Each period of `ReportInterval.spread` has one slot for the client, at a random offset that is
    drawn once. The client reports an advance in its next slot. The clients of a fleet therefore
    report an advance evenly over one period. Each client reports at most one advance per period,
    however often the feed advances. `uniform` draws random numbers.
    """

    def __init__(self, uniform: Callable[[float, float], float] = _random.uniform) -> None:
        self.id: str | None = None
        self.state = ReportingState.WAITING
        self._uniform = uniform
        self._slot_offset = uniform(0, 1)
        self._terms = ReportInterval()
        self._next_at = -math.inf
        self._slot: float | None = None
        self._reported_sequence: int | None = None
        self._failures = 0

    def due(self, sequence: int, now: float) -> float:
        """Return the time of the next report or registration of a client with entry `sequence`."""
        if self.id is None or self._failures or sequence == self._reported_sequence:
            return self._next_at
        if self._slot is None:
            spread = self._terms.spread
            self._slot = now + (self._slot_offset * spread - now) % spread if spread else now
        return self._slot

    def record_registration(self, answer: ReportResponse, now: float) -> None:
        """Store the identifier. A report is due in the next slot."""
        # Failures are kept until a report arrives, because reports may keep failing.
        self.id, self._terms = answer.id, answer.terms
        self._reported_sequence, self._slot, self._next_at = None, None, now

    def record_success(self, answer: ReportResponse, sequence: int, now: float) -> None:
        """Record that the service has the report of entry `sequence`."""
        self.state, self._terms = ReportingState.ON, answer.terms
        self._reported_sequence, self._slot, self._failures = sequence, None, 0
        # Spreads reports that coincided after an advance.
        self._next_at = now + answer.terms.after * self._uniform(1, 1.25)

    def record_failure(self, status: int | None, retry_after: float, now: float) -> float:
        """Record the failed `status`, or None without a response. Return the seconds to pause."""
        is_forgotten = status in _FORGOTTEN and self.id is not None
        if status in _NO_REGISTRY and not is_forgotten:
            self.state, pause = ReportingState.UNSUPPORTED, _RETRY_UNSUPPORTED
        else:
            self.state = ReportingState.FAILING
            pause = min(_BACKOFF * 2.0 ** min(self._failures, 10), _BACKOFF_MAX)
        if is_forgotten:
            self.id = None
        self._failures += 1
        # Clients that were rejected together must not return together.
        pause = min(retry_after, _RETRY_AFTER_MAX) + pause * self._uniform(0.5, 1)
        self._next_at, self._slot = now + pause, None
        return pause


def registration(name: str, version: str, proof: Mapping[str, str]) -> bytes:
    """Return the body of a registration. Only the name and the key identify the client's owner."""
    members = {"name": name, "type": _KIND, "version": version, "features": _FEATURES}
    return json.dumps(members | {"proof": proof}).encode()


def report_path(identifier: str) -> str:
    """Return the report path of the client with this identifier."""
    return f"/v1/authorizers/{quote(identifier, safe='')}/heartbeat"


class ReporterIdentity(NamedTuple):
    """The authorizer that reports, identified within a tenant.

    `number` is larger than in all its earlier reports. `trust` is the version of its trust
    document, or 0 without one.
    """

    tenant: str
    id: str
    number: int
    trust: int = 0


def statement(
    view: Snapshot, policy: PollPolicy, refusals: Mapping[str, int], by: ReporterIdentity
) -> SignedReport:
    """Return an authorizer's report about `view`, which must have a state.

    `refusals` counts the responses rejected since the last report, by reason.
    """
    if view.state is None:
        raise ValueError("cannot report before the first state")
    is_confirmed = view.confirmed != NEVER
    return SignedReport(
        tenant_id=by.tenant,
        authorizer_id=by.id,
        number=by.number,
        trust=by.trust,
        sequence=view.state.sequence,
        chain=view.state.head.chain,
        verified_at=datetime.fromtimestamp(view.confirmed.wall, UTC) if is_confirmed else None,
        max_staleness=math.ceil(policy.max_staleness),
        fail_open=policy.fail_open,
        refused=refusals,
    )


def _seconds(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:  # type: ignore[operator]
        raise ValueError("the response has no valid report interval")
    # An integer with a thousand digits cannot become a float.
    return float(min(value, _AFTER[1]))  # type: ignore[call-overload]
