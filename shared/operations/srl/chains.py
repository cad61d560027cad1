"""Whether a chain that an authorizer reports is that of the feed (FLEET-6)."""

from itertools import islice
from typing import Final, NamedTuple

from shared.authorizer import wire
from shared.model import feed as model
from shared.model.feed import FeedHead, StoredEntry
from shared.ports import Ports

# The most entries that are read to compare a chain, and about the most bytes of them.
ENTRIES_MAX: Final = 100
_BYTES_MAX: Final = 2**20


class Newest(NamedTuple):
    """The head of a feed, None if there is none yet, and entries by sequence that end at it."""

    head: FeedHead | None
    entries: dict[int, bytes]

    @property
    def sequence(self) -> int | None:
        """The sequence of the last entry; None if there is no feed yet."""
        return self.head.sequence if self.head else None

    def is_foreign(self, sequence: int | None, chain: str) -> bool | None:
        """Return whether this is not the chain (hex) of the feed at `sequence`.

        An empty chain is compared with nothing, but the feed has no sequence after its last one.
        The result is None if too much was published since to compare the chain.
        """
        if self.head is None or sequence is None:
            return False
        if sequence > self.head.sequence:
            return True
        if not chain:
            return False
        folded = bytes.fromhex(chain)
        if sequence == self.head.base.sequence:
            return folded != self.head.base.chain
        for each in range(sequence + 1, self.head.sequence + 1):
            if each not in self.entries:
                return None
            folded = wire.next_chain(folded, self.entries[each])
        return folded != self.head.signed.chain


def newest(ports: Ports, tenant_id: str, *, after: int | None) -> Newest:
    """Read the head, and the entries after a sequence unless it is None, in one query.

    The oldest of them are left out if they are more than can be compared. Raises `Corrupt`,
    `Unavailable`.
    """
    bound, most = (None, 1) if after is None else (model.entry_sk(after), 1 + ENTRIES_MAX)
    rows = ports.store.query(model.feed(tenant_id), after=bound, newest_first=True, limit=most)
    first = next(rows, None)
    if first is None or first.sk != model.HEAD:
        return Newest(None, {})
    entries, size = dict[int, bytes](), 0
    for row in islice(rows, most - 1):
        entry = StoredEntry.from_item(row.item).entry
        size += len(entry)
        if size > _BYTES_MAX:
            break
        entries[int(row.sk)] = entry
    return Newest(FeedHead.from_item(first.item), entries)
