"""When an authorizer reported which entry first: up to 16 pairs of 8 bytes (FLEET-31).

A pair is the last entry that a report named, and the second at which the service took it. Without
some of the pairs a time may be late, and never early: an entry was reported at the latest with the
first later one.
"""

import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

# The most pairs, and the number of the oldest of which every second one is dropped.
PAIRS_MAX: Final = 16
_THINNED: Final = 8
_PAIR: Final = struct.Struct(">II")
_SEQUENCE_MAX: Final = 2**31 - 1


class Advance(NamedTuple):
    """An entry, and when it was reported. `is_bound`: reports just before it were dropped."""

    sequence: int
    second: int
    is_bound: bool = False

    @property
    def at(self) -> datetime:
        """When the report was taken."""
        return datetime.fromtimestamp(self.second, UTC)


def advances(data: bytes) -> list[Advance]:
    """Return the stored pairs, the oldest first; those that are cut short are left out."""
    whole = len(data) - len(data) % _PAIR.size
    pairs = _PAIR.iter_unpack(data[:whole])
    return [Advance(marked >> 1, second, bool(marked & 1)) for marked, second in pairs]


def record_advance(
    data: bytes, sequence: int | None, now: datetime, *, previous: int | None
) -> bytes:
    """Return the pairs after a report of `sequence` that the service took `now`.

    `previous` is the entry that it held. Later entries are forgotten. An entry that is far
    beyond any feed is not noted.
    """
    if sequence is None or sequence > _SEQUENCE_MAX:
        return b""
    kept = [each for each in advances(data) if each.sequence <= sequence]
    if not kept or kept[-1].sequence < sequence:
        # The clocks of two servers may differ.
        second = max(int(now.timestamp()), kept[-1].second if kept else 0)
        # It may have held the entry for long, if it held more.
        is_bound = previous is not None and (not kept or previous > sequence)
        kept.append(Advance(sequence, second, is_bound))
    if len(kept) > PAIRS_MAX:
        kept = [each._replace(is_bound=True) for each in kept[1:_THINNED:2]] + kept[_THINNED:]
    return b"".join(_pack(kept))


def _pack(pairs: list[Advance]) -> Iterator[bytes]:
    return (_PAIR.pack(each.sequence << 1 | each.is_bound, each.second) for each in pairs)
