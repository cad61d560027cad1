"""When an authorizer first reported each entry: up to 16 pairs of 8 bytes (FLEET-31).

A pair is the last entry in a report, and the second when the service received it. An entry was
reported at the latest with the first later one. If pairs are missing, a time may be late, but never
early.
"""

import struct
from datetime import UTC, datetime
from typing import Final, NamedTuple

# The maximum number of pairs, and the number of oldest pairs that are thinned to every second one.
PAIRS_MAX: Final = 16
_THINNED: Final = 8
_PAIR: Final = struct.Struct(">II")
_SEQUENCE_MAX: Final = 2**31 - 1


class Advance(NamedTuple):
    """An entry and its report time. `is_upper_bound`: reports just before it were dropped."""

    sequence: int
    second: int
    is_upper_bound: bool = False

    @property
    def at(self) -> datetime:
        """The time of the report."""
        return datetime.fromtimestamp(self.second, UTC)


def advances(data: bytes) -> list[Advance]:
    """Return the stored pairs, oldest first. Incomplete pairs are skipped."""
    whole = len(data) - len(data) % _PAIR.size
    pairs = _PAIR.iter_unpack(data[:whole])
    return [Advance(marked >> 1, second, bool(marked & 1)) for marked, second in pairs]


def record_advance(
    data: bytes, sequence: int | None, now: datetime, *, previous: int | None
) -> bytes:
    """Return the pairs after a report of `sequence`, received `now`.

    `previous` is the entry of the previous report. Later entries are dropped. Entries far beyond
    any feed are not recorded.
    """
    if sequence is None or sequence > _SEQUENCE_MAX:
        return b""
    pairs = [each for each in advances(data) if each.sequence <= sequence]
    if not pairs or pairs[-1].sequence < sequence:
        # The clocks of two servers may differ.
        second = max(int(now.timestamp()), pairs[-1].second if pairs else 0)
        # After a higher sequence, the authorizer may have had this entry for a long time.
        is_upper_bound = previous is not None and (not pairs or previous > sequence)
        pairs.append(Advance(sequence, second, is_upper_bound))
    if len(pairs) > PAIRS_MAX:
        thinned = [each._replace(is_upper_bound=True) for each in pairs[1:_THINNED:2]]
        pairs = thinned + pairs[_THINNED:]
    return b"".join(
        _PAIR.pack(each.sequence << 1 | each.is_upper_bound, each.second) for each in pairs
    )
