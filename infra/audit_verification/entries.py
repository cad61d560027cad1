"""Verification of the entries against the records of the log."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from infra.audit_verification.report import Report
from infra.audit_verification.tree import Leaves, name
from shared.errors import Corrupt
from shared.model.items import Item
from shared.model.sealed_log.head import LATE_MS
from shared.model.sealed_log.records import Record, milliseconds, ulid_of

# An entry that is younger than this need not be sealed yet.
PENDING_MS: Final = 600_000


class Ledger:
    """The records of a log, by the identifiers of their entries."""

    def __init__(self, leaves: Leaves, report: Report) -> None:
        """Index the records; those that are sealed twice, or late, go into the report."""
        self._data = leaves.data
        self._is_complete = leaves.is_complete
        self._report = report
        self._at: dict[bytes, int] = {}
        self._seen = bytearray(len(leaves.data))
        newest = 0
        for index, data in enumerate(leaves.data):
            ulid = data[:16]
            if ulid in self._at:
                report.findings.append(f"{name(data)} (leaf {index}): sealed twice")
            self._at.setdefault(ulid, index)
            made = milliseconds(ulid)
            if made < newest - LATE_MS:
                report.late.append(f"{name(data)} (leaf {index}): late")
            newest = max(newest, made)

    def sealed(self, entries: Iterable[Item], now: datetime) -> Iterator[Item]:
        """Check each entry against its record, and yield those that are as they were sealed."""
        for item in entries:
            self._report.checked += 1
            if self._is_sealed(item, int(now.timestamp() * 1000)):
                yield item

    def leaf(self, item: Item) -> int:
        """Return the leaf of an entry that `sealed` has yielded."""
        return self._at[ulid_of(str(item["id"]))]

    def is_absent(self, leaf: int) -> bool:
        """Return whether the entry of a leaf was not among those compared, or is not sealed."""
        return leaf >= len(self._seen) or not self._seen[leaf]

    def find_removed(self, now: datetime) -> None:
        """Report the records whose entries were not among those compared, and are not expired."""
        for index, seen in enumerate(self._seen):
            record = Record.parse(self._data[index])
            if seen:
                continue
            if record.expires > now.timestamp():
                self._report.findings.append(f"{record.id} (leaf {index}): removed")
            else:
                self._report.expired += 1

    def _is_sealed(self, item: Item, now_ms: int) -> bool:
        try:
            record = Record.of(item)
        except Corrupt as error:
            self._report.findings.append(f"an entry is malformed: {error}")
            return False
        index = self._at.get(ulid_of(record.id))
        if index is None:
            self._add_unsealed(record, now_ms)
            return False
        self._seen[index] = True
        if record.data != self._data[index]:
            self._report.findings.append(f"{record.id} (leaf {index}): changed")
            return False
        return True

    def _add_unsealed(self, record: Record, now_ms: int) -> None:
        if now_ms - record.made_ms < PENDING_MS:
            self._report.pending.append(record.id)
        elif self._is_complete:
            self._report.findings.append(f"{record.id}: never sealed")
