"""When a client reports what it holds, and what it says (FLEET-2). Nothing here waits or sends.

The owner of an authorizer wants to know that it refuses a warrant. So a client registers, and then
reports which entry of the feed it holds: soon after each advance, and from time to time.
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

# The wishes of the service are bounded: a day between reports, an hour to spread them over.
_AFTER: Final = (10.0, 86_400.0)
_SPREAD_MAX: Final = 3_600.0
_RETRY_AFTER_MAX: Final = 3_600.0

# Seconds until a report that failed is repeated, at first and at most; then seconds until a
# service that takes no reports is asked again, in case that it was upgraded.
_BACKOFF: Final = 5.0
_BACKOFF_MAX: Final = 300.0
_ASK_AGAIN: Final = 3_600.0

# The service does not know the registration, or does not take its reports: it needs another one.
_FORGOTTEN: Final = frozenset({404, 409})
_NO_REGISTRY: Final = frozenset(range(400, 500)) - {401, 403, 408, 409, 425, 429}
_ID_LENGTH_MAX: Final = 200
_KIND: Final = "rescind-authorizer"
_FEATURES: Final = ("subject-cutoffs",)

_random: Final = SystemRandom()


class ReportingState(StrEnum):
    """Whether a client reports: the word in its status.

    WAITING is before the first report, FAILING while reports do not arrive. UNSUPPORTED says that
    the service takes none; it is asked again after an hour.
    """

    OFF = "off"
    WAITING = "waiting"
    ON = "on"
    FAILING = "failing"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """The part of a client's status about its reports. `at` is when the last one was accepted."""

    state: ReportingState = ReportingState.OFF
    at: datetime | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True)
class ReportInterval:
    """How often the service wants reports, in seconds.

    `after` is the time between two reports if nothing changes. `spread` is the time within which
    all clients report an advance.
    """

    after: float = 300.0
    spread: float = 0.0

    @classmethod
    def of(cls, members: Mapping[str, Any]) -> Self:
        """Return the terms in an answer, within bounds. Raises `ValueError` if they are none."""
        after, spread = (
            _seconds(members.get(name)) for name in ("report_after_seconds", "spread_seconds")
        )
        return cls(min(max(after, _AFTER[0]), _AFTER[1]), min(spread, _SPREAD_MAX))


@dataclass(frozen=True, slots=True)
class ReportResponse:
    """The answer to a registration, which has the `id`, or to a report, which has the `status`.

    `last_number` is the number of the last signed report that the service has.
    """

    terms: ReportInterval
    id: str = ""
    status: str = ""
    last_number: int = 0

    @classmethod
    def parse(cls, body: bytes, *, has: str) -> Self:
        """Return the answer, which has the member `has`. Raises `ValueError` if it is none."""
        members = parse_json(body)
        if not isinstance(members, dict):
            raise ValueError("the answer is no object")  # noqa: TRY004
        value = members.get(has)
        if (
            not isinstance(value, str)
            or not 0 < len(value) <= _ID_LENGTH_MAX
            or not (value.isascii() and value.isprintable())
        ):
            raise ValueError(f"the answer has no {has}")
        last = members.get("last_number")
        number = last if type(last) is int and 0 <= last < NUMBER_MAX else 0
        return cls(ReportInterval.of(members), last_number=number, **{has: value})


class ReportSchedule:
    """Decides when one client reports. All times are seconds of one clock that nobody sets.

    In each period of `ReportInterval.spread` the client has one turn, at a place that it draws
    once. It reports an advance at its next turn. So the clients of a fleet report an advance evenly
    over one period, and each once in a period, however often the feed advances. `uniform` draws.
    """

    def __init__(self, uniform: Callable[[float, float], float] = _random.uniform) -> None:
        self.id: str | None = None
        self.state = ReportingState.WAITING
        self._uniform = uniform
        self._place = uniform(0, 1)
        self._terms = ReportInterval()
        self._next = -math.inf
        self._turn: float | None = None
        self._told: int | None = None
        self._failures = 0

    def due(self, sequence: int, now: float) -> float:
        """Return when to report next, or to register, if the client holds entry `sequence`."""
        if self.id is None or self._failures or sequence == self._told:
            return self._next
        if self._turn is None:
            spread = self._terms.spread
            self._turn = now + (self._place * spread - now) % spread if spread else now
        return self._turn

    def record_registration(self, answer: ReportResponse, now: float) -> None:
        """Take up the identifier. A report of the state is due at its next turn."""
        # The failures stay until a report arrives: it may be that none ever does.
        self.id, self._terms = answer.id, answer.terms
        self._told, self._turn, self._next = None, None, now

    def record_success(self, answer: ReportResponse, sequence: int, now: float) -> None:
        """Note that the service has the report of entry `sequence`."""
        self.state, self._terms = ReportingState.ON, answer.terms
        self._told, self._turn, self._failures = sequence, None, 0
        # Reports that came together after an advance drift apart again.
        self._next = now + answer.terms.after * self._uniform(1, 1.25)

    def record_failure(self, status: int | None, retry_after: float, now: float) -> float:
        """Note that the service answered with `status`, or not. Return the seconds to pause."""
        is_forgotten = status in _FORGOTTEN and self.id is not None
        if status in _NO_REGISTRY and not is_forgotten:
            self.state, pause = ReportingState.UNSUPPORTED, _ASK_AGAIN
        else:
            self.state = ReportingState.FAILING
            pause = min(_BACKOFF * 2.0 ** min(self._failures, 10), _BACKOFF_MAX)
        if is_forgotten:
            self.id = None
        self._failures += 1
        # Those that were turned away together do not come back together.
        pause = min(retry_after, _RETRY_AFTER_MAX) + pause * self._uniform(0.5, 1)
        self._next, self._turn = now + pause, None
        return pause


def registration(name: str, version: str, proof: Mapping[str, str]) -> bytes:
    """Return the body of a registration. Only the name and the key say whose client this is."""
    members = {"name": name, "type": _KIND, "version": version, "features": _FEATURES}
    return json.dumps(members | {"proof": proof}).encode()


def report_path(identifier: str) -> str:
    """Return the path to which the client with this identifier reports."""
    return f"/v1/authorizers/{quote(identifier, safe='')}/heartbeat"


class ReporterIdentity(NamedTuple):
    """The authorizer that reports, by its identifier in a tenant.

    `number` is above those of its reports before, and `trust` is the version of the trust document
    that it holds, 0 without one.
    """

    tenant: str
    id: str
    number: int
    trust: int = 0


def statement(
    view: Snapshot, policy: PollPolicy, refusals: Mapping[str, int], by: ReporterIdentity
) -> SignedReport:
    """Return what an authorizer reports of `view`, which has a state.

    `refusals` counts the answers of the service that were refused since the last report, by reason.
    """
    if view.state is None:
        raise ValueError("there is nothing to report before the first state")
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
        allow_when_stale=policy.allow_when_stale,
        refused=refusals,
    )


def _seconds(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:  # type: ignore[operator]
        raise ValueError("the answer does not say when to report")
    # A number of a thousand digits is no float.
    return float(min(value, _AFTER[1]))  # type: ignore[call-overload]
