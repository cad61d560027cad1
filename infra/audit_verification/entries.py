"""Verification of audit entries against the records of the log."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from functions.transparency_log.head import LATE_MS
from infra.audit_verification.source import Report
from infra.audit_verification.tree import Leaves, name
from shared.errors import DataCorrupt
from shared.model.audit.records import EntryCommitment, milliseconds, ulid_of
from shared.model.items import Item

# An entry younger than this many milliseconds may not be in the log yet.
PENDING_MS: Final = 600_000


class RecordIndex:
    """The records of a log, by the identifiers of their entries."""

    def __init__(self, leaves: Leaves, report: Report) -> None:
        """Index the records. Report duplicate and late records."""
        self._data = leaves.data
        self._is_complete = leaves.is_complete
        self._report = report
        self._indexes: dict[bytes, int] = {}
        self._seen = bytearray(len(leaves.data))
        newest_ms = 0
        for index, data in enumerate(leaves.data):
            ulid = data[:16]
            if ulid in self._indexes:
                report.findings.append(f"{name(data)} (leaf {index}): appended twice")
            self._indexes.setdefault(ulid, index)
            made_ms = milliseconds(ulid)
            if made_ms < newest_ms - LATE_MS:
                report.late.append(f"{name(data)} (leaf {index}): late")
            newest_ms = max(newest_ms, made_ms)

    def check_entries(self, entries: Iterable[Item], now: datetime) -> Iterator[Item]:
        """Check each entry against its record. Yield the unchanged entries."""
        now_ms = int(now.timestamp() * 1000)
        for item in entries:
            self._report.checked += 1
            try:
                record = EntryCommitment.of(item)
            except DataCorrupt as error:
                self._report.findings.append(f"an entry is malformed: {error}")
                continue
            index = self._indexes.get(ulid_of(record.id))
            if index is None:
                if now_ms - record.made_ms < PENDING_MS:
                    self._report.pending.append(record.id)
                elif self._is_complete:
                    self._report.findings.append(f"{record.id}: never appended")
                continue
            self._seen[index] = True
            if record.data == self._data[index]:
                yield item
            else:
                self._report.findings.append(f"{record.id} (leaf {index}): changed")

    def leaf(self, item: Item) -> int:
        """Return the leaf of an entry that `check_entries` has yielded."""
        return self._indexes[ulid_of(str(item["id"]))]

    def is_absent(self, leaf: int) -> bool:
        """Return whether a leaf has no compared entry, or is beyond the log."""
        return leaf >= len(self._seen) or not self._seen[leaf]

    def find_removed(self, now: datetime) -> None:
        """Report the unexpired records without a compared entry."""
        for index, seen in enumerate(self._seen):
            record = EntryCommitment.parse(self._data[index])
            if seen:
                continue
            if record.expires > now.timestamp():
                self._report.findings.append(f"{record.id} (leaf {index}): removed")
            else:
                self._report.expired += 1


@dataclass(frozen=True, slots=True)
class CreatedRecord:
    """A record of the service: its identifier, and its creation time in UTC."""

    id: str
    created_at: str


@dataclass(slots=True)
class Creations:
    """The identifiers that entries name as created, and the time of the oldest entry."""

    named: set[str] = field(default_factory=set)
    oldest: str = ""

    def collect(self, entries: Iterable[Item]) -> Iterator[Item]:
        """Yield the entries, and collect the identifiers that they name."""
        for each in entries:
            timestamp = str(each.get("timestamp"))
            self.oldest = min(self.oldest or timestamp, timestamp)
            self.named.add(str(each.get("resource_id")))
            if isinstance(details := each.get("details"), dict):
                names = details.keys() & {"superseded_id", "api_key_id"}
                self.named.update(str(details[name]) for name in names)
                batch = details.get("revocations")
                for item in batch if isinstance(batch, list) else []:
                    if isinstance(item, dict):
                        self.named.add(str(item.get("id")))
            yield each

    def compare(self, records: Iterable[CreatedRecord], report: Report) -> None:
        """Report the records that no entry created.

        Records as old as the oldest entry are skipped, because their entries may have expired.
        """
        for each in records:
            report.records += 1
            if each.id not in self.named and each.created_at > self.oldest:
                report.findings.append(f"{each.id}: no entry of the audit log created it")
