"""State of a feed client, and its transitions by responses (docs/spec/feed.md).

All functions are pure: the time and the bytes are arguments. States are immutable. `advance`
returns a new state or raises, so an error leaves the client's state intact.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from .answers import FeedResponse
from .formats import ed25519, wire
from .formats.cutoffs import has_cutoff
from .formats.following import JudgedHead
from .formats.ids import RevokedIds, of_base
from .formats.wire import FeedPosition as FeedPosition
from .policy import BaseRequired, RejectionReason, ResponseRejectedError

# The longest lifetime of a feed head.
LIFETIME_MAX: Final = timedelta(days=7)

# The largest advance of the sequence by a base instead of entries.
FAST_FORWARD_MAX: Final = 2**32

# Maximum size of the entries kept for restoring the state from its original base, in bytes.
TRAIL_BYTES_MAX: Final = 2 * 2**20

# Why a base is rejected, by its error. All others are malformed.
_BASE_REASONS: Final[Mapping[type[Exception], RejectionReason]] = {
    wire.BaseTooLarge: RejectionReason.TOO_LARGE,
    wire.BaseHashMismatch: RejectionReason.HASH,
    wire.BaseVersionMismatch: RejectionReason.VERSION,
}


@dataclass(frozen=True, slots=True)
class FeedState:
    """A verified state of the feed of one tenant.

    `head` is the newest feed head, `signed_by` the public key that verified it, and `revoked` the
    set at `head.sequence`. `restore` rebuilds the state from `origin`, `latest` and the base that
    `origin_base` names. `trail_bytes` is the size of the entries in `latest`. `latest` is None if
    they would exceed `TRAIL_BYTES_MAX`.
    """

    head: wire.SignedHead
    signed_by: bytes
    revoked: RevokedIds
    origin_base: wire.Base
    origin: FeedResponse
    latest: FeedResponse | None
    trail_bytes: int = 0

    @property
    def sequence(self) -> int:
        """The sequence of the last entry in the state."""
        return self.head.sequence

    @property
    def position(self) -> FeedPosition:
        """The saved position for the next start. No later state may precede it."""
        return FeedPosition(self.head.sequence, self.head.chain)

    def is_revoked(self, warrant_id: str) -> bool:
        """Return whether the warrant is revoked, regardless of the feed head's expiry."""
        return warrant_id in self.revoked or has_cutoff(self.revoked.cutoffs, (warrant_id,))

    def is_expired(self, now: datetime) -> bool:
        """Return whether the feed head has expired."""
        return now >= self.head.expires_at


class HeadVerifier(Protocol):
    """Verifies feed heads of one tenant by its trusted SRL signers."""

    @property
    def tenant_id(self) -> str:
        """The tenant's identifier."""
        ...

    def judge(
        self, payload: bytes, signature: bytes, now: datetime, likely: bytes | None = None, /
    ) -> JudgedHead:
        """Verify and then decode a feed head, and return it with its key. `likely` is tried first.

        Raises `ResponseRejectedError` or `NotTrusted`.
        """
        ...


class StaticVerifier(NamedTuple):
    """Accepts signatures of these public keys, regardless of the time."""

    tenant_id: str
    public_keys: Collection[bytes]

    def judge(self, payload: bytes, signature: bytes, *_: object) -> JudgedHead:
        """Return the feed head and its key. Raises `ResponseRejectedError`."""
        signed = wire.signed_part(payload)
        for key in self.public_keys:
            if not ed25519.is_signed(signed, signature, public_key=key):
                continue
            try:
                return JudgedHead(wire.SignedHead.decode(payload), key)
            except wire.MalformedBytes:
                raise ResponseRejectedError(RejectionReason.MALFORMED) from None
        raise ResponseRejectedError(RejectionReason.SIGNATURE)


def advance(
    state: FeedState | None,
    answer: FeedResponse,
    *,
    base: bytes | None = None,
    now: datetime,
    verifier: HeadVerifier,
    saved_position: FeedPosition | None = None,
) -> FeedState:
    """Return the state after `answer`, with the checks in the order of docs/spec/feed.md.

    `state` is the current state, or None at the beginning. `base` is the payload of the SRL that
    `BaseRequired` named for this response. `saved_position` was saved before the last stop.
    Raises `ResponseRejectedError` or `NotTrusted`. Raises `BaseRequired` if only the checks of a
    base remain.
    """
    likely = state.signed_by if state else None
    head, key = verifier.judge(answer.payload, answer.signature, now, likely)
    _check_terms(head, verifier.tenant_id, now)
    accepted_chains = dict(each for each in (saved_position, state and state.position) if each)
    if any(head.sequence < sequence for sequence in accepted_chains):
        raise ResponseRejectedError(RejectionReason.ROLLBACK)
    if accepted_chains.get(head.sequence, head.chain) != head.chain:
        raise ResponseRejectedError(RejectionReason.EQUIVOCATION)
    if state is not None:
        if state.sequence == head.sequence and head.issued_at < state.head.issued_at:
            raise ResponseRejectedError(RejectionReason.REPLAY)
        entries = _entries_after(state.position, answer, head, accepted_chains)
        if entries is not None and not _has_discontinuity(entries, head.base):
            new_entries = answer.entries[len(answer.entries) - len(entries) :]
            size = state.trail_bytes + sum(map(len, new_entries))
            latest = None
            if state.latest and size <= TRAIL_BYTES_MAX:
                latest = replace(answer, entries=state.latest.entries + new_entries)
            revoked = state.revoked.apply(entries) if entries else state.revoked
            return FeedState(head, key, revoked, state.origin_base, state.origin, latest, size)
    return _start_from_base(answer, head, key, base, accepted_chains)


def restore(
    origin: FeedResponse,
    base: bytes,
    latest: FeedResponse,
    *,
    verifier: StaticVerifier,
    saved_position: FeedPosition,
) -> FeedState:
    """Rebuild a state from its base, `origin` and `latest`.

    Each is checked at its time of issue, so the state may have expired. A `latest` older than
    `saved_position` is rejected. Raises `ResponseRejectedError`.
    """
    first_state = _as_of_issue(None, origin, base, verifier, None)
    return _as_of_issue(first_state, latest, base, verifier, saved_position)


def _as_of_issue(
    state: FeedState | None,
    answer: FeedResponse,
    base: bytes,
    verifier: StaticVerifier,
    saved_position: FeedPosition | None,
) -> FeedState:
    now = verifier.judge(answer.payload, answer.signature).head.issued_at
    return advance(
        state, answer, base=base, now=now, verifier=verifier, saved_position=saved_position
    )


def _check_terms(head: wire.SignedHead, tenant: str, now: datetime) -> None:
    if head.tenant_id != tenant:
        raise ResponseRejectedError(RejectionReason.TENANT)
    if not timedelta(0) < head.expires_at - head.issued_at <= LIFETIME_MAX:
        raise ResponseRejectedError(RejectionReason.LIFETIME)
    if head.issued_at - now > wire.FUTURE_MAX:
        raise ResponseRejectedError(RejectionReason.FUTURE)
    if now >= head.expires_at:
        raise ResponseRejectedError(RejectionReason.EXPIRED)


def _entries_after(
    start: FeedPosition,
    answer: FeedResponse,
    head: wire.SignedHead,
    accepted_chains: Mapping[int, bytes],
) -> list[wire.FeedEntry] | None:
    """Return the entries from `start` to the feed head, or None if earlier entries are missing.

    The chain hashes are checked first. Only entries that the head authenticates are decoded.
    """
    surplus = len(answer.entries) - (head.sequence - start.sequence)
    if surplus < 0:
        return None
    new_entries, chain = answer.entries[surplus:], start.chain
    for sequence, data in enumerate((b"", *new_entries), start.sequence):
        chain = wire.next_chain(chain, data) if sequence > start.sequence else chain
        if accepted_chains.get(sequence, chain) != chain:
            raise ResponseRejectedError(RejectionReason.CHAIN)
    if chain != head.chain:
        raise ResponseRejectedError(RejectionReason.CHAIN)
    entries = []
    for sequence, data in enumerate(new_entries, start.sequence + 1):
        try:
            entry = wire.FeedEntry.decode(data)
        except wire.MalformedBytes:
            raise ResponseRejectedError(RejectionReason.MALFORMED) from None
        if entry.sequence != sequence:
            raise ResponseRejectedError(RejectionReason.GAP)
        entries.append(entry)
    return entries


def _has_discontinuity(entries: Sequence[wire.FeedEntry], base: wire.Base) -> bool:
    """Return whether there is a discontinuity, which requires a base.

    Rejects a discontinuity that is newer than the base.
    """
    discontinuities = [each.sequence for each in entries if each.is_break]
    if any(sequence > base.sequence for sequence in discontinuities):
        raise ResponseRejectedError(RejectionReason.BREAK)
    return bool(discontinuities)


def _start_from_base(
    answer: FeedResponse,
    head: wire.SignedHead,
    key: bytes,
    data: bytes | None,
    accepted_chains: Mapping[int, bytes],
) -> FeedState:
    base = head.base
    entries = _entries_after(FeedPosition(base.sequence, base.chain), answer, head, accepted_chains)
    if entries is None:
        raise ResponseRejectedError(RejectionReason.GAP)
    _has_discontinuity(entries, base)
    if accepted_chains and head.sequence - max(accepted_chains) > FAST_FORWARD_MAX:
        raise ResponseRejectedError(RejectionReason.FAST_FORWARD)
    if data is None:
        raise BaseRequired(base)
    try:
        revoked = of_base(data, base).apply(entries)
    except wire.MalformedBytes as error:
        reason = _BASE_REASONS.get(type(error), RejectionReason.MALFORMED)
        raise ResponseRejectedError(reason) from None
    origin = replace(answer, entries=answer.entries[len(answer.entries) - len(entries) :])
    return FeedState(head, key, revoked, base, origin, replace(answer, entries=()))
