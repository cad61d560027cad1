"""The answer of a relay to polls: a verified head, and entries that lead to it (POLL-1 to 3)."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Self

from ..answers import ANSWER_BYTES_MAX, FeedResponse
from ..formats import wire
from ..state import FeedPosition, FeedState

# The pause between two polls and the longest wait that a relay grants, in seconds.
POLL_SECONDS: Final = 1.0
WAIT_MAX: Final = 25

# All entries that are kept fit into one answer, beside its head.
_WEIGHT_MAX: Final = ANSWER_BYTES_MAX - 16 * 1024
_ENTRIES_MAX: Final = 2**16

# How many bytes of encoded answers are kept for those who ask the same.
_ENCODED_MAX: Final = 2 * ANSWER_BYTES_MAX


@dataclass(frozen=True, slots=True)
class EntryLog:
    """Entries without a gap after `start`, and `end`, the position after them."""

    start: FeedPosition
    end: FeedPosition
    entries: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, answer: FeedResponse, head: wire.SignedHead) -> Self:
        """Return the entries of `answer` that lead from the base to the head; none if they do not.

        `head` is verified, and is that of the answer.
        """
        base = FeedPosition(head.base.sequence, head.base.chain)
        end = FeedPosition(head.sequence, head.chain)
        return cls(base, base).to(answer, end) or cls(end, end)

    def to(self, answer: FeedResponse, end: FeedPosition) -> Self | None:
        """Return this with the entries of `answer` up to `end`; None if they do not lead there."""
        number = end.sequence - self.end.sequence
        if not 0 <= number <= len(answer.entries):
            return None
        added = answer.entries[len(answer.entries) - number :]
        chain = self.end.chain
        for each in added:
            chain = wire.next_chain(chain, each)
        if chain != end.chain:
            return None
        return replace(self, end=end, entries=self.entries + added).trim()

    def entries_after(self, sequence: int) -> tuple[bytes, ...] | None:
        """Return the entries after `sequence`; None if they are not all kept."""
        skipped = sequence - self.start.sequence
        return self.entries[skipped:] if skipped >= 0 else None

    def trim(self) -> Self:
        """Return this without the oldest entries, if there are too many."""
        weight, kept = 0, 0
        for each in reversed(self.entries[-_ENTRIES_MAX:]):
            # What it takes of an answer: base64, quotes and a comma.
            weight += (len(each) + 2) // 3 * 4 + 3
            if weight > _WEIGHT_MAX:
                break
            kept += 1
        dropped = self.entries[: len(self.entries) - kept]
        sequence, chain = self.start
        for each in dropped:
            sequence, chain = sequence + 1, wire.next_chain(chain, each)
        entries = self.entries[len(dropped) :]
        return replace(self, start=FeedPosition(sequence, chain), entries=entries)


@dataclass(frozen=True, slots=True)
class CachedFeed:
    """The newest head that was verified, as it was received, and the entries before it.

    `head` is what `payload` encodes.
    """

    head: wire.SignedHead
    payload: bytes
    signature: bytes
    trail: EntryLog
    _encoded: OrderedDict[int, bytes] = field(default_factory=OrderedDict)

    @classmethod
    def of(cls, state: FeedState, answer: FeedResponse, previous: Self | None) -> Self:
        """Return what is held after `state`, whose head is that of `answer`."""
        end = state.position
        trail = previous.trail.to(answer, end) if previous else None
        trail = trail or EntryLog.of(answer, state.head)
        return cls(state.head, answer.payload, answer.signature, trail)

    @property
    def etag(self) -> str:
        """The validator of the head, as the service makes it (POLL-4)."""
        digest = hashlib.sha256(self.payload + self.signature).hexdigest()
        return f'"{self.head.sequence}-{digest[:32]}"'

    def is_expired(self, now: datetime) -> bool:
        """Return whether the signed lifetime of the head has ended."""
        return now >= self.head.expires_at

    def answer(self, sequence: int | None) -> bytes:
        """Return the JSON of the answer with the entries after `sequence`, or after the base.

        After the base if `sequence` is None, or if the entries after it are not kept.
        """
        base = self.head.base.sequence
        begin = base if sequence is None or self.trail.entries_after(sequence) is None else sequence
        begin = min(begin, self.head.sequence)
        if begin not in self._encoded:
            entries = self.trail.entries_after(begin) or ()
            found = FeedResponse(self.payload, self.signature, entries, POLL_SECONDS, WAIT_MAX)
            self._encoded[begin] = found.encode()
            while sum(map(len, self._encoded.values())) > _ENCODED_MAX:
                self._encoded.popitem(last=False)
        self._encoded.move_to_end(begin)
        return self._encoded[begin]
