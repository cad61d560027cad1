"""Whether each authorizer refuses a warrant: by what it holds, or because it is stale (FLEET-11).

An authorizer confirms its state with polls, and refuses everything once its last confirmed poll is
`max_staleness_seconds` old. A poll that is answered after an entry was published brings this entry.
So at that age of the entry, an authorizer has applied it, or refuses everything.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from shared.model import times
from shared.model.fleet.advances import advances
from shared.model.fleet.authorizers import Authorizer, RegistrationCounts
from shared.model.fleet.unregistered import UnregisteredClient

# The most stragglers that are named, and the most points of a curve.
STRAGGLERS_MAX: Final = 100
CURVE_MAX: Final = 200

# Every poll sees an entry this long after its `issued_at`: the write that publishes it has ended,
# and the clocks of the service do not differ by more.
VISIBLE_AFTER: Final = timedelta(minutes=1)


class EnforcementState(StrEnum):
    """The state of an authorizer for a warrant."""

    # It reported that it has the entry.
    HOLDING = "holding"
    # It has the entry, or it refuses everything.
    CLOSED = "closed"
    UNKNOWN = "unknown"
    # It does not apply the kind of identifier, whatever it has.
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class PublishedEntry:
    """The entry of the feed from which on clients refuse a warrant.

    `chains` has the chain (32 bytes) at each entry from this one on; it is empty if not stored.
    """

    sequence: int
    issued_at: datetime
    chains: Mapping[int, bytes]


@dataclass(frozen=True, slots=True)
class AuthorizerStatus:
    """An authorizer, and what is known of it.

    It refuses everything from `denies_all_from` on unless it has the entry then. None if that
    cannot be said.
    """

    authorizer: Authorizer
    proof: EnforcementState
    denies_all_from: datetime | None = None


@dataclass(frozen=True, slots=True)
class Propagation:
    """How many authorizers are registered, and what is known of them.

    `unproven` are those without a key, whatever is known of them. `unsupported` are those of the
    `unknown` that do not apply subject cutoffs, if one was revoked. `stragglers` are those that are
    not holding, at most `STRAGGLERS_MAX`: unknown ones first, and among these the ones with the
    oldest report. Nothing is known of the `unregistered`.
    """

    registered: int
    holding: int
    closed: int
    unknown: int
    unproven: int
    stragglers: tuple[AuthorizerStatus, ...]
    unregistered: tuple[UnregisteredClient, ...] = ()
    unsupported: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether each registered authorizer refuses the warrant. False if there is none."""
        return self.registered > 0 and self.unknown == 0

    @property
    def is_proven(self) -> bool:
        """Whether it is complete by reports alone that the authorizers signed."""
        return self.is_complete and self.unproven == 0


def propagation(
    authorizers: Iterable[Authorizer],
    entry: PublishedEntry | None,
    now: datetime,
    *,
    has_cutoff: bool = False,
) -> Propagation:
    """Return how far an entry has got; `entry` is None if there is none yet.

    If it `has_cutoff`, authorizers that do not support subject cutoffs are unknown.
    """
    return count_statuses([judge(each, entry, now, has_cutoff=has_cutoff) for each in authorizers])


def count_statuses(status: Sequence[AuthorizerStatus]) -> Propagation:
    """Return how far an entry has got among these authorizers."""
    behind = [each for each in status if each.proof is not EnforcementState.HOLDING]
    closed = sum(each.proof is EnforcementState.CLOSED for each in behind)
    return Propagation(
        registered=len(status),
        holding=len(status) - len(behind),
        closed=closed,
        unknown=len(behind) - closed,
        unproven=sum(not each.authorizer.is_proven for each in status),
        stragglers=tuple(heapq.nsmallest(STRAGGLERS_MAX, behind, key=_urgency)),
        unsupported=sum(each.proof is EnforcementState.UNSUPPORTED for each in behind),
    )


@dataclass(frozen=True, slots=True)
class FleetSummary:
    """How many authorizers are registered, and what is known of them for the newest entry.

    `silent` are those whose heartbeat is missing, and `allow_when_stale` those that let requests
    through with an old state. `without_cutoffs` are those that do not support subject cutoffs,
    whatever the entry has. At `next_change_at` the time alone closes one; None if it never will.
    """

    sequence: int | None
    issued_at: datetime | None
    registered: int
    holding: int
    closed: int
    unknown: int
    silent: int
    allow_when_stale: int
    next_change_at: datetime | None
    unregistered: tuple[UnregisteredClient, ...] = ()
    without_cutoffs: int = 0


def summary(
    authorizers: Iterable[Authorizer], newest: PublishedEntry | None, now: datetime
) -> FleetSummary:
    """Return what is known of all authorizers for the entry `newest` (FLEET-28)."""
    judged = [judge(each, newest, now) for each in authorizers]
    proofs = Counter(each.proof for each in judged)
    heard_after = now - RegistrationCounts(len(judged)).silent_after
    return FleetSummary(
        None if newest is None else newest.sequence,
        None if newest is None else newest.issued_at,
        len(judged),
        proofs[EnforcementState.HOLDING],
        proofs[EnforcementState.CLOSED],
        proofs[EnforcementState.UNKNOWN],
        silent=sum(each.authorizer.seen_at < heard_after for each in judged),
        allow_when_stale=sum(each.authorizer.allow_when_stale for each in judged),
        next_change_at=next_closing(judged),
        without_cutoffs=sum(not each.authorizer.supports_cutoffs for each in judged),
    )


@dataclass(frozen=True, slots=True)
class PropagationCurve:
    """When authorizers were known to refuse a change, in seconds after it, and by which proof.

    They are in order of time; `CURVE_MAX` of them at most, evenly chosen, with the first and the
    last. `is_bound` is whether one of them may have refused it earlier. `last` is of the last one.
    """

    points: tuple[tuple[int, EnforcementState], ...]
    is_bound: bool
    last: datetime | None


def curve(
    status: Iterable[AuthorizerStatus], entry: PublishedEntry | None, recorded_at: datetime
) -> PropagationCurve:
    """Return since when each of these authorizers is known to refuse a change (FLEET-31)."""
    sequence = 0 if entry is None else entry.sequence
    refusing = (
        each for each in status if each.proof in (EnforcementState.HOLDING, EnforcementState.CLOSED)
    )
    moments = [_refuses_from(each, sequence) for each in refusing]
    moments.sort(key=lambda each: each.at)
    chosen = moments
    if len(moments) > CURVE_MAX:
        step = (len(moments) - 1) / (CURVE_MAX - 1)
        chosen = [moments[round(each * step)] for each in range(CURVE_MAX)]
    points = ((int((each.at - recorded_at).total_seconds()), each.proof) for each in chosen)
    return PropagationCurve(
        tuple((max(0, seconds), proof) for seconds, proof in points),
        any(each.is_bound for each in moments),
        moments[-1].at if moments else None,
    )


class _DeniesFrom(NamedTuple):
    at: datetime
    proof: EnforcementState
    is_bound: bool


def _refuses_from(status: AuthorizerStatus, sequence: int) -> _DeniesFrom:
    """Return since when an authorizer that is not unknown refuses what the entry revokes."""
    authorizer = status.authorizer
    if status.denies_all_from is not None:
        return _DeniesFrom(status.denies_all_from, status.proof, is_bound=False)
    known = (each for each in advances(authorizer.advances) if each.sequence >= sequence)
    first = next(known, None)
    if first is not None:
        return _DeniesFrom(first.at, status.proof, first.is_bound)
    # Nothing says when it reported the entry: it was when this was stored last, or before.
    return _DeniesFrom(times.from_seconds(authorizer.stored), status.proof, is_bound=True)


def next_closing(status: Iterable[AuthorizerStatus]) -> datetime | None:
    """Return when the time alone closes the next of these authorizers; None if it never will."""
    unknown = (each.denies_all_from for each in status if each.proof is EnforcementState.UNKNOWN)
    return min(filter(None, unknown), default=None)


def judge(
    authorizer: Authorizer,
    entry: PublishedEntry | None,
    now: datetime,
    *,
    has_cutoff: bool = False,
) -> AuthorizerStatus:
    """Return what is known of one authorizer.

    If the entry `has_cutoff`, an authorizer that does not support subject cutoffs refuses nothing
    by it.
    """
    if has_cutoff and not authorizer.supports_cutoffs:
        return AuthorizerStatus(authorizer, EnforcementState.UNSUPPORTED)
    if entry is None:
        return AuthorizerStatus(authorizer, EnforcementState.UNKNOWN)
    if _holds(authorizer, entry):
        return AuthorizerStatus(authorizer, EnforcementState.HOLDING)
    denies_all_from = _denies_all_from(authorizer, entry)
    is_closed = denies_all_from is not None and denies_all_from <= now
    return AuthorizerStatus(
        authorizer,
        EnforcementState.CLOSED if is_closed else EnforcementState.UNKNOWN,
        denies_all_from,
    )


def _holds(authorizer: Authorizer, entry: PublishedEntry) -> bool:
    sequence = authorizer.sequence
    if sequence is None or sequence < entry.sequence or authorizer.is_foreign:
        return False
    # After a restore, authorizers may report entries that are lost.
    chain = entry.chains.get(sequence)
    # Authorizers of other makers do not know the chain.
    return chain is not None and authorizer.chain in (b"", chain)


def _denies_all_from(authorizer: Authorizer, entry: PublishedEntry) -> datetime | None:
    seconds, visible_at = authorizer.max_staleness_seconds, entry.issued_at + VISIBLE_AFTER
    if seconds is None or authorizer.allow_when_stale or _contradicts(authorizer, entry):
        return None
    try:
        return visible_at + timedelta(seconds=seconds)
    except OverflowError:
        return None


def _contradicts(authorizer: Authorizer, entry: PublishedEntry) -> bool:
    """Return whether its report shows that it does not follow this feed as a client does."""
    if authorizer.is_foreign or (authorizer.sequence or 0) >= entry.sequence:
        return True
    confirmed_at = authorizer.verified_at
    return confirmed_at is not None and confirmed_at > entry.issued_at + VISIBLE_AFTER


def _urgency(status: AuthorizerStatus) -> tuple[bool, datetime, str]:
    authorizer = status.authorizer
    return status.proof is EnforcementState.CLOSED, authorizer.seen_at, authorizer.id
