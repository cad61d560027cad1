"""Responses of a relay to polls: a verified feed head and its entries (POLL-1 to 3)."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Self

from ..answers import ANSWER_BYTES_MAX, FeedResponse
from ..formats import wire
from ..state import FeedPosition, FeedState

# The pause between two polls, and the longest long poll of a relay, in seconds.
POLL_SECONDS: Final = 1.0
WAIT_MAX: Final = 25

# All cached entries fit into one response, together with the feed head.
_WEIGHT_MAX: Final = ANSWER_BYTES_MAX - 16 * 1024
_ENTRIES_MAX: Final = 2**16

# Maximum size of the cache of encoded responses, in bytes.
_ENCODED_MAX: Final = 2 * ANSWER_BYTES_MAX


@dataclass(frozen=True, slots=True)
class EntryLog:
    """Consecutive entries after `start`. `end` is the position after them."""

    start: FeedPosition
    end: FeedPosition
    entries: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, answer: FeedResponse, head: wire.SignedHead) -> Self:
        """Return the entries of `answer` from the base to the feed head.

        `head` is the verified head of the response. The log is empty if the entries do not lead to
        it.
        """
        base = FeedPosition(head.base.sequence, head.base.chain)
        end = FeedPosition(head.sequence, head.chain)
        return cls(base, base).to(answer, end) or cls(end, end)

    def to(self, answer: FeedResponse, end: FeedPosition) -> Self | None:
        """Return this log extended by the entries of `answer` up to `end`.

        Returns None if the entries do not lead to `end`.
        """
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
        """Return the entries after `sequence`, or None if some are not cached."""
        skipped = sequence - self.start.sequence
        return self.entries[skipped:] if skipped >= 0 else None

    def trim(self) -> Self:
        """Return this log without its oldest entries if it is too large."""
        weight, kept = 0, 0
        for each in reversed(self.entries[-_ENTRIES_MAX:]):
            # Size of the entry in a response: base64, quotes and a comma.
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
    """The newest verified feed head, as received, and the entries before it.

    `head` is the decoded `payload`.
    """

    head: wire.SignedHead
    payload: bytes
    signature: bytes
    trail: EntryLog
    _encoded: OrderedDict[int, bytes] = field(default_factory=OrderedDict)

    @classmethod
    def of(cls, state: FeedState, answer: FeedResponse, previous: Self | None) -> Self:
        """Return the cached feed after `state`, with the feed head of `answer`."""
        end = state.position
        trail = previous.trail.to(answer, end) if previous else None
        trail = trail or EntryLog.of(answer, state.head)
        return cls(state.head, answer.payload, answer.signature, trail)

    @property
    def etag(self) -> str:
        """The entity tag of the feed head, as computed by the service (POLL-4)."""
        digest = hashlib.sha256(self.payload + self.signature).hexdigest()
        return f'"{self.head.sequence}-{digest[:32]}"'

    def is_expired(self, now: datetime) -> bool:
        """Return whether the feed head has expired."""
        return now >= self.head.expires_at

    def answer(self, sequence: int | None) -> bytes:
        """Return the JSON of the response with the entries after `sequence`.

        The entries follow the base if `sequence` is None, or if later entries are not cached.
        """
        base = self.head.base.sequence
        start = base if sequence is None or self.trail.entries_after(sequence) is None else sequence
        start = min(start, self.head.sequence)
        if start not in self._encoded:
            entries = self.trail.entries_after(start) or ()
            response = FeedResponse(self.payload, self.signature, entries, POLL_SECONDS, WAIT_MAX)
            self._encoded[start] = response.encode()
            while sum(map(len, self._encoded.values())) > _ENCODED_MAX:
                self._encoded.popitem(last=False)
        self._encoded.move_to_end(start)
        return self._encoded[start]
