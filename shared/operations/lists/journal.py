"""Write the journal after each publication of the feed (OPS-23, docs/adr/14).

The blobs determine the next record, not the store. If a pass is interrupted, the next pass
therefore writes the missing part.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from shared.authorizer.formats.journal import FIRST, JournalRecord
from shared.authorizer.formats.trust import LogAnchor
from shared.capabilities import INSTALLED
from shared.errors import BlobExists, DataCorrupt, Unavailable
from shared.model import feed, times
from shared.model.feed import FeedHead
from shared.model.lists import journal as model
from shared.model.lists.tombstones import Tombstones
from shared.operations.base import counters
from shared.operations.lists import in_force, records
from shared.operations.lists.decisions import PublicationFacts
from shared.operations.lists.storage import SeedCache
from shared.ports import Ports

# The current SRL contains older changes. Clocks of processes differ by less.
_MARGIN: Final = timedelta(minutes=10)
# Retries after another process wrote a record with the same number first.
_TRIES: Final = 5
# How many records that two SRLs cover are kept, and after how many new records old ones are
# removed.
KEPT: Final = 1000
TIDIED_EVERY: Final = 50

_log = logging.getLogger(__name__)


# A record names a checkpoint of the transparency log at most once in this time.
_ANCHORED_EACH: Final = timedelta(minutes=1)


class Watermark(NamedTuple):
    """How far the records, or the journal, extend. Each number rises unless a store is restored.

    The numbers are the last sequence of the feed, the tombstone counter, and the version of the
    newest trust document, or 0 without one.
    """

    sequence: int = 0
    changes: int = 0
    trust: int = 0

    def is_behind(self, other: "Watermark") -> bool:
        """Return whether the other watermark is higher in any member."""
        return any(own < said for own, said in zip(self, other, strict=True))


class JournalPosition(NamedTuple):
    """The end of a journal: its last number, the payload hash (32 bytes), and the watermark."""

    number: int
    previous: bytes
    said: Watermark


_START: Final = JournalPosition(0, FIRST, Watermark())


class FeedRun(NamedTuple):
    """The results of a feed pass, so the journal does not have to read them again.

    `head` is the feed head, or None without a feed. `changes` returns the tombstone counter, and
    raises `DataCorrupt` if the counter is damaged. The entries contain every change acknowledged
    before `known_until`, which is None if that time is unknown. `facts` belong to the entries that
    the pass wrote, if any. `seed_cache` then contains the unwrapped seed.
    """

    head: FeedHead | None
    changes: Callable[[], int]
    known_until: datetime | None = None
    facts: PublicationFacts | None = None
    seed_cache: SeedCache | None = None

    def watermark(self) -> Watermark:
        """Return the watermark of the records. Raises `DataCorrupt`."""
        if self.head is None:
            return Watermark(changes=self.changes())
        named = self.head.signed_head.trust
        return Watermark(self.head.sequence, self.changes(), 0 if named is None else named.number)


class Journals:
    """The end of each tenant's journal, as this process last wrote it. Safe to share."""

    def __init__(self) -> None:
        self._ends: dict[str, JournalPosition] = {}
        self._anchored: dict[str, datetime] = {}

    def write_missing_records(
        self, ports: Ports, tenant_id: str, run: FeedRun | None = None
    ) -> None:
        """Write a record with the publications since the last record, if there are any.

        Relies on `run`, the preceding feed pass, or reads the same data if it is None. Raises
        `DataCorrupt` if the records are older than the journal, and `Unavailable`.
        """
        for _ in range(_TRIES):
            end = self._ends.get(tenant_id) or read_position(ports, tenant_id)
            if run is None or run.watermark().is_behind(end.said):
                run = _read_run(ports, tenant_id)
                _require_not_ahead(end, run)
            try:
                self._ends[tenant_id] = after = self._append_record(ports, tenant_id, end, run)
            except BlobExists:
                # Another process wrote this number.
                self._ends.pop(tenant_id, None)
                run = None
            else:
                if after.number > end.number and after.number % TIDIED_EVERY == 0:
                    _prune(ports, tenant_id)
                return
        raise Unavailable("gave up after conflicting journal writes in every attempt")

    def _append_record(
        self, ports: Ports, tenant_id: str, end: JournalPosition, run: FeedRun
    ) -> JournalPosition:
        """Write the next record if there are changes; return the new end of the journal."""
        head, watermark = run.head, run.watermark()
        if head is None or watermark == end.said:
            return end
        start = max(end.said.sequence, head.base.sequence)
        entries = _entries_to_write(ports, tenant_id, run, start, head.sequence)
        if entries is None:
            return end
        if not entries and watermark._replace(sequence=end.said.sequence) == end.said:
            # An SRL covers the rest.
            return end._replace(said=watermark)
        if run.facts is None:
            srl_head, signer = in_force.read_head_and_signer(ports, tenant_id)
        else:
            srl_head, signer = run.facts.srl_head, run.facts.signer
        # The record contains every change acknowledged before this time. A time in the future comes
        # from a wrong clock and must not count.
        now = ports.now()
        stated = [each for each in (head.covered_at, srl_head.issued_at) if each and each <= now]
        known = run.known_until or max(stated, default=now)
        tombstones = Tombstones(watermark.changes)
        if watermark.changes != end.said.changes:
            tombstones = records.read_tombstones(ports, tenant_id, changes=watermark.changes)
            # The current SRL may lack later ones.
            tombstones = model.tombstones_since(tombstones, srl_head.issued_at - _MARGIN)
        record = JournalRecord(
            tenant_id,
            end.number + 1,
            end.previous,
            times.truncate_to_second(min(known, now)),
            watermark.sequence,
            end.said.changes,
            entries=tuple(entry for entry, _ in entries),
            ends=tuple(ends for _, ends in entries),
            tombstones=tombstones.members(),
            trust=watermark.trust,
            log=self._anchor(ports, tenant_id),
        )
        seed = (run.seed_cache or SeedCache(ports)).unwrap(signer)
        blob = _store_record(ports, record, seed)
        return JournalPosition(record.number, _payload_hash(blob), watermark)

    def _anchor(self, ports: Ports, tenant_id: str) -> LogAnchor | None:
        """Return the log anchor for the next record, at most once a minute."""
        now, before = ports.now(), self._anchored.get(tenant_id)
        if before and abs(now - before) < _ANCHORED_EACH:
            return None
        self._anchored[tenant_id] = now
        with suppress(DataCorrupt):  # appending has stopped; the doctor reports it
            return INSTALLED.log.anchor(ports, tenant_id)
        return None


def list_blobs(ports: Ports, tenant_id: str) -> Iterator[tuple[int, str]]:
    """Yield the record numbers of a journal with their blob names, newest first.

    Blobs with other names do not belong to the journal. Raises `Unavailable`.
    """
    for name in ports.blobs.names(model.folder(tenant_id)):
        if (number := model.number_of(name)) is not None:
            yield number, name


def blobs_since(ports: Ports, tenant_id: str, moment: datetime) -> Iterator[str]:
    """Yield the names of blobs that may contain changes after `moment`, newest first.

    An SRL of that time may lack these changes. Raises `Unavailable`.
    """
    for _, name in list_blobs(ports, tenant_id):
        yield name
        try:
            record = model.decode_unverified(ports.blobs.get(name) or b"", name)
        except DataCorrupt:
            continue
        if record.issued_at < moment - _MARGIN:
            return


def _prune(ports: Ports, tenant_id: str) -> None:
    """Remove old records that the current SRL and the SRL before it cover.

    Keeps at most twice `KEPT` records, or twice the number of records that the SRLs do not cover.
    If a call is interrupted, the next call removes the rest.
    """
    place = KEPT
    try:
        for index, (_, name) in enumerate(list_blobs(ports, tenant_id)):
            if index == place and _is_covered(ports, tenant_id, name):
                ports.blobs.discard(model.folder(tenant_id), start=Path(name).name, before="~")
                return
            place *= 1 + (index == place)
    except Unavailable:
        _log.warning("cannot remove old journal records of tenant %s", tenant_id, exc_info=True)


def _is_covered(ports: Ports, tenant_id: str, name: str) -> bool:
    """Return whether two SRLs contain the journal up to this record.

    A recovery continues from the older SRL if the blob of the current one is damaged.
    """
    current = in_force.read_srl_head(ports, tenant_id)
    heads = in_force.read_srl_heads(ports, tenant_id)
    older = [each for each in heads if each.version < current.version]
    if not older or current.is_ahead(ports.now()):
        return False
    record = model.decode_unverified(ports.blobs.get(name) or b"", name)
    return all(
        head.sequence is not None
        and record.sequence <= head.sequence
        and record.issued_at < head.issued_at - _MARGIN
        for head in (current, max(older, key=lambda each: each.version))
    )


def read_position(ports: Ports, tenant_id: str) -> JournalPosition:
    """Return the end of the journal from its newest blob, with one listing and one read.

    Raises `DataCorrupt`, `Unavailable`.
    """
    for number, name in list_blobs(ports, tenant_id):
        blob = ports.blobs.get(name) or b""
        # A recovery verifies the signature. Here the blob only decides whether to write or refuse.
        record = model.decode_unverified(blob, name)
        changes = model.tombstones_of(record).changes
        return JournalPosition(
            number, _payload_hash(blob), Watermark(record.sequence, changes, record.trust)
        )
    return _START


def check_not_ahead(ports: Ports, tenant_id: str) -> None:
    """Raise `DataCorrupt` if the records are older than the journal (OPS-22); `Unavailable`."""
    # Read before the records, because a blob is written after the records that it describes.
    end = read_position(ports, tenant_id)
    _require_not_ahead(end, _read_run(ports, tenant_id))


def write_restart_record(ports: Ports, tenant_id: str) -> None:
    """Write a record that declares the current SRL complete, after a recovery.

    Its number is above every existing blob, including foreign ones, so the journal can continue.
    Raises `DataCorrupt`, `Unavailable`.
    """
    number, name = next(list_blobs(ports, tenant_id), (0, ""))
    previous = _payload_hash(ports.blobs.get(name) or b"") if name else FIRST
    watermark = _read_run(ports, tenant_id).watermark()
    srl_head, signer = in_force.read_head_and_signer(ports, tenant_id)
    record = JournalRecord(
        tenant_id,
        number + 1,
        previous,
        times.truncate_to_second(min(ports.now(), srl_head.issued_at)),
        watermark.sequence,
        watermark.changes,
        tombstones=Tombstones(watermark.changes).members(),
        trust=watermark.trust,
    )
    with suppress(BlobExists):  # another process continues from there
        _store_record(ports, record, SeedCache(ports).unwrap(signer))


def _read_run(ports: Ports, tenant_id: str) -> FeedRun:
    head, changes = ports.gather(
        lambda: in_force.read_feed_head(ports, tenant_id),
        lambda: counters.of_tombstones(ports, tenant_id),
    )
    return FeedRun(head, lambda: changes)


def _require_not_ahead(end: JournalPosition, run: FeedRun) -> None:
    watermark = run.watermark()
    if watermark.is_behind(end.said):
        records_end, journal_end = map(_format_watermark, (watermark, end.said))
        raise DataCorrupt(
            f"the records are older than the journal: they end at {records_end}, the journal ends "
            f"at {journal_end}"
        )


def _format_watermark(watermark: Watermark) -> str:
    return (
        f"feed entry {watermark.sequence}, tombstone {watermark.changes}, trust document "
        f"{watermark.trust}"
    )


def _entries_to_write(
    ports: Ports, tenant_id: str, run: FeedRun, start: int, until: int
) -> Sequence[tuple[bytes, bytes]] | None:
    """Return the entries from `start` to `until`, which no blob and no SRL contains.

    Each has its expiries. Returns None if an SRL is about to be published.
    """
    written = () if run.facts is None else run.facts.written
    known = {
        entry.sequence: (entry.encode(), feed.encoded_ends(expiries)) for entry, expiries in written
    }
    if start < until and start + 1 in known and until - start <= len(known):
        return [known[each] for each in range(start + 1, until + 1)]
    try:
        stored = in_force.read_entries(ports, tenant_id, after=start, until=until)
        return [(each.entry, each.ends) for each in stored]
    except DataCorrupt as error:
        # The feed has a sequence jump. The next SRL contains everything.
        _log.warning(
            "cannot extend the journal of tenant %s before the next SRL: %s", tenant_id, error
        )
        return None


def _store_record(ports: Ports, record: JournalRecord, seed: bytes) -> bytes:
    blob = model.sign(record, seed=seed)
    ports.blobs.put(model.name_of(record.tenant_id, record.number), blob)
    return blob


def _payload_hash(blob: bytes) -> bytes:
    return hashlib.sha256(model.payload_of(blob)).digest()
