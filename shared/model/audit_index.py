"""The index of the audit log by warrant: which sealed entries are about a warrant (LOG-26)."""

from collections.abc import Iterator
from typing import Final

from shared.model.identifiers import AUDIT_ENTRY
from shared.model.items import Address, Item, Partition, Table

_PARTITION: Final = "audit-of"
_KIND: Final = f"svc_{AUDIT_ENTRY}_"


def entries_of(tenant_id: str, warrant_id: str) -> Partition:
    """Return the partition whose sort keys are those of the entries about a warrant."""
    return Partition(Table.AUDIT, f"{tenant_id}#{_PARTITION}#{warrant_id}")


def indexed(tenant_id: str, entry: Item) -> Iterator[tuple[Address, Item]]:
    """Yield the items of the index for an entry as it is stored; they expire with it."""
    for warrant_id in warrants_of(entry):
        place = entries_of(tenant_id, warrant_id).address(sort_key(str(entry["id"])))
        yield place, {"expires": entry["expires"]}


def sort_key(entry_id: str) -> str:
    """Return the sort key for an entry, or for a bound of identifiers: the ULID alone.

    So the stream of new entries, which wakes the sealing, does not take it for an entry.
    """
    return entry_id.removeprefix(_KIND)


def entry_id(sort_key: str) -> str:
    """Return the identifier of the entry with this sort key."""
    return f"{_KIND}{sort_key}"


def warrants_of(entry: Item) -> list[str]:
    """Return the warrants that an entry names, each once: one, or all those of a batch."""
    details = entry.get("details")
    if not isinstance(details, dict):
        return []
    batch = details.get("revocations")
    named = [details, *(batch if isinstance(batch, list) else [])]
    found = (each.get("warrant_id") for each in named if isinstance(each, dict))
    return list(dict.fromkeys(each for each in found if isinstance(each, str)))
