"""Log head: the item that determines the content of the transparency log (LOG-5, docs/adr/18).

The log head has all records that are not in full tiles yet. The tiles are derived from it, and are
stored after it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple, Self

from functions.transparency_log import merkle
from functions.transparency_log.merkle import WIDTH, TileAddress, TreeFrontier
from shared.model.audit import records
from shared.model.audit.log_state import partition
from shared.model.items import Address, Table
from shared.model.records import SPARSE, Record

# Maximum number of records that a pass appends. With the rest of the last pass, the log head stays
# below 400 KB.
APPENDED_MAX: Final = 4_000
# An entry is late if it follows an entry that is newer by more than this.
LATE_MS: Final = 60_000

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_BY_MINUTE_MS: Final = 10 * _MINUTE_MS
_BY_HOUR_MS: Final = 50 * _HOUR_MS
_SEGMENTS_MAX: Final = 200
# The newest segments are not merged, so that passes over old entries can merge with their
# neighbors.
_SEGMENTS_APART: Final = 8
_NUMBER_BYTES: Final = 8


class LogSegment(NamedTuple):
    """A part of the log: the leaves up to `end`, and the creation time of its newest entry."""

    end: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class LogHead(Record):
    """The transparency log of a tenant after the last pass.

    `stored` leaves are in full tiles. `edges` are the joined hashes of the partial tiles above
    level 0 at that size. `records` contains the records of the leaves from `stored` to `size`.
    `segments` contains the time of the newest entry in each part. `late` counts the late entries.
    Revocations are counted in all entries since `counted_from`, the start of a day
    (`revocation_counts`). It is None before the first entry.
    """

    generation: int
    size: int
    stored: int
    records: bytes = field(repr=False)
    edges: tuple[bytes, ...] = field(repr=False)
    segments: bytes = field(repr=False)
    checkpoint: str
    sealed_at: datetime
    late: int = field(default=0, metadata=SPARSE)
    version: int = 1
    counted_from: datetime | None = None

    @classmethod
    def empty(cls, generation: int, now: datetime) -> Self:
        """Return the head of a log without entries, not yet stored or signed."""
        return cls(generation, 0, 0, b"", (), b"", "", now, version=0)

    @property
    def unstored_records(self) -> list[bytes]:
        """The records of the leaves from `stored` on."""
        return records.split(self.records)

    @property
    def edge(self) -> TreeFrontier:
        """The right edge at `stored` leaves."""
        return TreeFrontier(self.stored, ((), *(tuple(merkle.hashes(each)) for each in self.edges)))

    @property
    def spans(self) -> list[LogSegment]:
        """The segments, in order of leaves."""
        starts = range(0, len(self.segments), _NUMBER_BYTES)
        numbers = [
            int.from_bytes(self.segments[each : each + _NUMBER_BYTES], "big") for each in starts
        ]
        return [LogSegment(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]

    @property
    def root(self) -> bytes:
        """The root over all leaves, 32 bytes."""
        return self.edge.append([records.leaf(each) for each in self.unstored_records])[0].root()

    def with_checkpoint(self, note: str) -> Self:
        """Return the log head with its signed checkpoint."""
        return replace(self, checkpoint=note)

    def full_tiles(self) -> dict[TileAddress, bytes]:
        """Return the full tiles and bundles that are not stored yet."""
        data = self.unstored_records[: self._full]
        _, full = self.edge.append([records.leaf(each) for each in data])
        for start in range(0, self._full, WIDTH):
            place = TileAddress(None, (self.stored + start) // WIDTH)
            full[place] = merkle.bundle(data[start : start + WIDTH])
        return full

    def drop_stored_records(self) -> Self:
        """Return the next log head without the records of full tiles, after these were stored."""
        data = self.unstored_records
        edge, _ = self.edge.append([records.leaf(each) for each in data[: self._full]])
        return replace(
            self,
            stored=edge.size,
            records=b"".join(data[self._full :]),
            edges=tuple(b"".join(each) for each in edge.levels[1:]),
            version=self.version + 1,
        )

    def append(self, leaves: Sequence[bytes], now: datetime) -> Self:
        """Return the log head with these records (56 bytes each) appended, without checkpoint."""
        newest = self.newest_ms(_ms(now)) or 0
        made = [records.milliseconds(each) for each in records.ulids(b"".join(leaves))]
        size = self.size + len(leaves)
        return replace(
            self,
            size=size,
            records=self.records + b"".join(leaves),
            segments=_merge_segments([*self.spans, LogSegment(size, max(made))], _ms(now)),
            checkpoint="",
            sealed_at=now,
            late=self.late + sum(each < newest - LATE_MS for each in made),
        )

    def newest_ms(self, until_ms: int) -> int | None:
        """Return the approximate time of the newest appended entry up to `until_ms`, or None.

        Entries with future times are skipped, because they would hide all other entries until then.
        """
        return max(
            (each.newest_ms for each in self.spans if each.newest_ms <= until_ms), default=None
        )

    def leaves_since(self, made_ms: int) -> list[tuple[int, int]]:
        """Return the ranges of leaves that contain all entries created since then."""
        spans = self.spans
        starts = [0, *(each.end for each in spans)]
        ranges = zip(starts, spans, strict=False)
        return [(start, each.end) for start, each in ranges if each.newest_ms >= made_ms]

    @property
    def _full(self) -> int:
        return (self.size - self.stored) // WIDTH * WIDTH


def address(tenant_id: str) -> Address:
    """Return the address of a tenant's log head."""
    return partition(tenant_id).address("head")


def tenant_of(pk: str, sk: str) -> str | None:
    """Return the tenant of the log head at these keys of the table `audit`, or None."""
    tenant_id = pk.partition("#")[0]
    return tenant_id if address(tenant_id) == Address(Table.AUDIT, pk, sk) else None


def folder(tenant_id: str, generation: int | None = None) -> str:
    """Return the folder of a tenant's tiles, of one generation or of all."""
    tenant = f"audit/{tenant_id}"
    return tenant if generation is None else f"{tenant}/{generation}"


def blob(tenant_id: str, generation: int, place: TileAddress) -> str:
    """Return the name of the blob with a full tile or bundle."""
    return f"{folder(tenant_id, generation)}/tile/{place.path}"


def _merge_segments(segments: Sequence[LogSegment], now_ms: int) -> bytes:
    """Encode the segments. Merge neighbors of the same period, except the newest."""
    kept: list[LogSegment] = []
    for each in segments[:-_SEGMENTS_APART]:
        if kept and _period(kept[-1], now_ms) == _period(each, now_ms):
            each = LogSegment(each.end, max(kept.pop().newest_ms, each.newest_ms))  # noqa: PLW2901
        kept.append(each)
    while len(kept) > _SEGMENTS_MAX:
        first, second, *rest = kept
        kept = [LogSegment(second.end, max(first.newest_ms, second.newest_ms)), *rest]
    kept += segments[-_SEGMENTS_APART:]
    return b"".join(number.to_bytes(_NUMBER_BYTES, "big") for each in kept for number in each)


def _period(segment: LogSegment, now_ms: int) -> tuple[str, int]:
    """Return the minute or hour of a segment. Segments with future times are never merged."""
    made = segment.newest_ms
    age = now_ms - made
    if age < 0:
        return "end", segment.end
    if age < _BY_MINUTE_MS:
        return "minute", made // _MINUTE_MS
    return ("hour", made // _HOUR_MS) if age < _BY_HOUR_MS else ("old", 0)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
