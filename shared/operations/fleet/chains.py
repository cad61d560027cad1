"""Whether the chain that an authorizer reports is that of the feed (FLEET-6)."""

from collections.abc import Iterable
from dataclasses import dataclass

from shared.model import feed as model
from shared.model.feed import FeedHead, StoredEntry
from shared.model.fleet.heartbeats import Heartbeat
from shared.model.items import Item
from shared.ports import Ports


@dataclass(frozen=True, slots=True)
class Chains:
    """The chains of a feed that are known, by sequence; none if there is no feed yet."""

    newest: int | None
    known: dict[int, bytes]

    def is_foreign(self, beat: Heartbeat) -> bool | None:
        """Return whether a heartbeat reports entries that this service did not publish.

        The result is None if the chain is not known any more.
        """
        if self.newest is None or beat.sequence is None:
            return False
        if beat.sequence > self.newest:
            return True
        if not beat.chain:
            return False
        ours = self.known.get(beat.sequence)
        return None if ours is None else beat.chain != ours.hex()


def of(ports: Ports, tenant_id: str, head: Item | None, beats: Iterable[Heartbeat]) -> Chains:
    """Return the chains that `beats` report, by the item of the head and the entries.

    Entries are read only for sequences whose chain is not in the head. Raises `Corrupt`,
    `Unavailable`.
    """
    if head is None:
        return Chains(None, {})
    newest = FeedHead.from_item(head)
    known = {newest.base.sequence: newest.base.chain, newest.sequence: newest.signed.chain}
    asked = {beat.sequence for beat in beats if beat.chain and beat.sequence is not None}
    wanted = [each for each in asked if each < newest.sequence and each not in known]
    addresses = {model.entry_address(tenant_id, each): each for each in wanted}
    for address, item in ports.store.get_many(addresses).items() if addresses else ():
        if chain := StoredEntry.from_item(item).chain:
            known[addresses[address]] = chain
    return Chains(newest.sequence, known)
