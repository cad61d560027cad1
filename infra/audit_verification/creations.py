"""Whether each record that the service has was created by an entry of the audit log (LOG-28)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from infra.audit_verification.report import Report
from shared.model.items import Item


@dataclass(frozen=True, slots=True)
class Created:
    """A record of the service: its identifier, and when it was created, in UTC."""

    id: str
    created_at: str


@dataclass(slots=True)
class Creations:
    """The identifiers that entries name as created, and the time of the oldest entry."""

    named: set[str] = field(default_factory=set)
    oldest: str = ""

    def noted(self, entries: Iterable[Item]) -> Iterator[Item]:
        """Yield the entries, and note what each of them names."""
        for each in entries:
            made = str(each.get("timestamp"))
            self.oldest = min(self.oldest or made, made)
            self.named |= set(_named(each))
            yield each

    def compare(self, records: Iterable[Created], report: Report) -> None:
        """Report the records that no entry created.

        What is as old as the oldest entry, or older, may have been created by one that has expired.
        """
        for each in records:
            report.records += 1
            if each.id not in self.named and each.created_at > self.oldest:
                report.findings.append(f"{each.id}: no entry of the audit log created it")


def _named(entry: Item) -> Iterator[str]:
    yield str(entry.get("resource_id"))
    details = entry.get("details")
    if not isinstance(details, dict):
        return
    yield from (str(details[name]) for name in ("superseded_id", "api_key_id") if name in details)
    batch = details.get("revocations")
    for each in batch if isinstance(batch, list) else []:
        if isinstance(each, dict):
            yield str(each.get("id"))
