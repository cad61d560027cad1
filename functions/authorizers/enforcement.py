"""Propagation: whether each authorizer enforces a revocation or fails closed (FLEET-11).

An authorizer confirms its state with polls. It refuses all warrants when its last confirmed poll is
`max_staleness_seconds` old. Every poll after the publication of an entry returns this entry. Once
the entry is this old, an authorizer has therefore applied it, or refuses all warrants.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from functions.authorizers.advances import advances
from functions.authorizers.records import Authorizer, RegistrationCounts
from functions.authorizers.unregistered import UnregisteredClient
from shared.model import times
from shared.model.feed import PublishedEntry

# The maximum number of lagging authorizers in a result, and of points in a curve.
LAGGING_MAX: Final = 100
CURVE_MAX: Final = 200

# Every poll returns an entry this long after its `issued_at`. By then the write of the entry has
# completed, and the clocks of the service differ by less.
VISIBLE_AFTER: Final = timedelta(minutes=1)


class EnforcementState(StrEnum):
    """The enforcement state of an authorizer for a warrant."""

    # A report confirms the entry.
    ENFORCED = "enforced"
    # Either the entry is applied, or all warrants are refused.
    FAIL_CLOSED = "fail_closed"
    UNKNOWN = "unknown"
    # The kind of identifier is not supported.
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class AuthorizerStatus:
    """An authorizer and its enforcement state.

    It refuses all warrants from `fail_closed_at` on unless it has the entry by then. None if this
    time is unknown.
    """

    authorizer: Authorizer
    enforcement: EnforcementState
    fail_closed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Propagation:
    """The number of registered authorizers, and their enforcement states.

    `key_unverified` is the number of authorizers without a proven key, in any state. `unsupported`
    is the number of `unknown` authorizers without support for a revoked subject cutoff.
    `lagging_authorizers` contains at most `LAGGING_MAX` lagging authorizers: unknown ones first,
    sorted by their last report, oldest first. The states of the `unregistered` are unknown.
    """

    total: int
    enforced: int
    fail_closed: int
    unknown: int
    key_unverified: int
    lagging_authorizers: tuple[AuthorizerStatus, ...]
    unregistered: tuple[UnregisteredClient, ...] = ()
    unsupported: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether each registered authorizer refuses the warrant. False if there is none."""
        return self.total > 0 and self.unknown == 0

    @property
    def is_verified(self) -> bool:
        """Whether signed reports alone show that propagation is complete."""
        return self.is_complete and self.key_unverified == 0


def propagation(
    authorizers: Iterable[Authorizer],
    entry: PublishedEntry | None,
    now: datetime,
    *,
    has_cutoff: bool = False,
) -> Propagation:
    """Return the propagation of an entry. `entry` is None before publication.

    If it `has_cutoff`, authorizers without support for subject cutoffs are unknown.
    """
    return count_statuses([judge(each, entry, now, has_cutoff=has_cutoff) for each in authorizers])


def count_statuses(status: Sequence[AuthorizerStatus]) -> Propagation:
    """Return the propagation of an entry among these authorizers."""
    lagging = [each for each in status if each.enforcement is not EnforcementState.ENFORCED]
    most_urgent = heapq.nsmallest(
        LAGGING_MAX,
        lagging,
        key=lambda each: (
            each.enforcement is EnforcementState.FAIL_CLOSED,
            each.authorizer.last_seen_at,
            each.authorizer.id,
        ),
    )
    fail_closed = sum(each.enforcement is EnforcementState.FAIL_CLOSED for each in lagging)
    return Propagation(
        total=len(status),
        enforced=len(status) - len(lagging),
        fail_closed=fail_closed,
        unknown=len(lagging) - fail_closed,
        key_unverified=sum(not each.authorizer.key_verified for each in status),
        lagging_authorizers=tuple(most_urgent),
        unsupported=sum(each.enforcement is EnforcementState.UNSUPPORTED for each in lagging),
    )


@dataclass(frozen=True, slots=True)
class FleetSummary:
    """The number of registered authorizers, and their enforcement states for the newest entry.

    `missed_heartbeat` counts authorizers with a missing heartbeat, and `fail_open` authorizers that
    fail open. `without_cutoffs` counts authorizers without support for subject cutoffs, for any
    entry. At `next_change_at`, the next authorizer becomes closed without a report, or never if
    None.
    """

    sequence: int | None
    issued_at: datetime | None
    total: int
    enforced: int
    fail_closed: int
    unknown: int
    missed_heartbeat: int
    fail_open: int
    next_change_at: datetime | None
    unregistered: tuple[UnregisteredClient, ...] = ()
    without_cutoffs: int = 0


def summary(
    authorizers: Iterable[Authorizer], newest: PublishedEntry | None, now: datetime
) -> FleetSummary:
    """Return the enforcement states of all authorizers for the entry `newest` (FLEET-28)."""
    judged = [judge(each, newest, now) for each in authorizers]
    states = Counter(each.enforcement for each in judged)
    heard_after = now - RegistrationCounts(len(judged)).silent_after
    return FleetSummary(
        None if newest is None else newest.sequence,
        None if newest is None else newest.issued_at,
        len(judged),
        states[EnforcementState.ENFORCED],
        states[EnforcementState.FAIL_CLOSED],
        states[EnforcementState.UNKNOWN],
        missed_heartbeat=sum(each.authorizer.last_seen_at < heard_after for each in judged),
        fail_open=sum(each.authorizer.fail_open for each in judged),
        next_change_at=next_closing(judged),
        without_cutoffs=sum(not each.authorizer.supports_cutoffs for each in judged),
    )


@dataclass(frozen=True, slots=True)
class PropagationCurve:
    """When authorizers were first known to refuse a change, in seconds after it, and how.

    The points are in order of time. At most `CURVE_MAX` points are chosen evenly, including the
    first and the last. `is_upper_bound` is true if any authorizer may have refused it earlier.
    `last` is the time of the last point.
    """

    points: tuple[tuple[int, EnforcementState], ...]
    is_upper_bound: bool
    last: datetime | None


class _RefusalStart(NamedTuple):
    at: datetime
    enforcement: EnforcementState
    is_upper_bound: bool


def curve(
    status: Iterable[AuthorizerStatus], entry: PublishedEntry | None, recorded_at: datetime
) -> PropagationCurve:
    """Return since when each of these authorizers is known to refuse a change (FLEET-31)."""
    sequence = 0 if entry is None else entry.sequence
    moments: list[_RefusalStart] = []
    for each in status:
        if each.enforcement not in (EnforcementState.ENFORCED, EnforcementState.FAIL_CLOSED):
            continue
        at, is_upper_bound = each.fail_closed_at, False
        if at is None:
            reports = advances(each.authorizer.advances)
            first = next((report for report in reports if report.sequence >= sequence), None)
            # If the first report of the entry is unknown, it happened at or before the last write
            # of this record.
            at = first.at if first else times.from_seconds(each.authorizer.stored)
            is_upper_bound = first is None or first.is_upper_bound
        moments.append(_RefusalStart(at, each.enforcement, is_upper_bound))
    moments.sort(key=lambda each: each.at)
    chosen = moments
    if len(moments) > CURVE_MAX:
        step = (len(moments) - 1) / (CURVE_MAX - 1)
        chosen = [moments[round(each * step)] for each in range(CURVE_MAX)]
    points = ((int((each.at - recorded_at).total_seconds()), each.enforcement) for each in chosen)
    return PropagationCurve(
        tuple((max(0, seconds), state) for seconds, state in points),
        any(each.is_upper_bound for each in moments),
        moments[-1].at if moments else None,
    )


def next_closing(status: Iterable[AuthorizerStatus]) -> datetime | None:
    """Return when the next of these authorizers becomes closed without a report, or None."""
    unknown = (
        each.fail_closed_at for each in status if each.enforcement is EnforcementState.UNKNOWN
    )
    return min(filter(None, unknown), default=None)


def judge(
    authorizer: Authorizer,
    entry: PublishedEntry | None,
    now: datetime,
    *,
    has_cutoff: bool = False,
) -> AuthorizerStatus:
    """Return the enforcement state of one authorizer.

    If the entry `has_cutoff`, an authorizer without support for subject cutoffs does not enforce
    it.
    """
    if has_cutoff and not authorizer.supports_cutoffs:
        return AuthorizerStatus(authorizer, EnforcementState.UNSUPPORTED)
    if entry is None:
        return AuthorizerStatus(authorizer, EnforcementState.UNKNOWN)
    sequence, visible_at = authorizer.sequence, entry.issued_at + VISIBLE_AFTER
    if sequence is not None and sequence >= entry.sequence and not authorizer.equivocation:
        # After a restore, authorizers may report entries that are lost. Stock authorizers do not
        # report the chain hash.
        chain = entry.chains.get(sequence)
        if chain is not None and authorizer.chain in (b"", chain):
            return AuthorizerStatus(authorizer, EnforcementState.ENFORCED)
    # A client of this feed does not report these states.
    verified_at, seconds = authorizer.verified_at, authorizer.max_staleness_seconds
    is_wrong = (
        authorizer.equivocation
        or (sequence or 0) >= entry.sequence
        or (verified_at is not None and verified_at > visible_at)
    )
    fail_closed_at = None
    if not (seconds is None or authorizer.fail_open or is_wrong):
        with suppress(OverflowError):
            fail_closed_at = visible_at + timedelta(seconds=seconds)
    is_closed = fail_closed_at is not None and fail_closed_at <= now
    return AuthorizerStatus(
        authorizer,
        EnforcementState.FAIL_CLOSED if is_closed else EnforcementState.UNKNOWN,
        fail_closed_at,
    )
