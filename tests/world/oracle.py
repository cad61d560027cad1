"""What must be true: plain dictionaries, filled from what was asked and acknowledged."""

import gzip
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import FeedEntry, FeedPosition
from shared.authorizer.state import FeedState
from shared.model import feed as feed_model
from shared.model.feed import FeedHead, StoredEntry
from shared.model.items import Item
from shared.model.lists.head import SrlHead, head_address
from shared.model.signing_keys import KeyStatus, keys
from shared.model.warrants import WarrantState as Recorded
from shared.model.warrants import warrant_address
from shared.operations.access.api_key_creation import CreatedKey
from shared.operations.lists import journal, signers, verdicts
from shared.ports import Ports
from tests.kit.tenants import Tenant
from tests.world.audit import Ledger
from tests.world.broken import Broken
from tests.world.chores import KINDS, Register
from tests.world.keys import Held, Ring
from tests.world.machines import POLICY, Client
from tests.world.upgrades import Watch
from tests.world.world import World

# How old an acknowledged revocation may be before nobody is CLEAR of its warrant (FEED-12): a mark
# may be a second ahead of the clock that looks at it.
BOUND = POLICY.max_staleness + 1.5


@dataclass
class Standing:
    """What is known of a warrant: whether it is revoked, None if that is open, and since when."""

    revoked: bool | None = False
    since: float = 0.0
    ever: bool = False
    revocation_id: str | None = None
    # The key that signed it, and whether its signature was handed out.
    key_id: str | None = None
    is_shown: bool = True


@dataclass
class Books:
    """What is known of a tenant."""

    tenant: Tenant
    ring: Ring
    ledger: Ledger
    registers: list[Register]
    warrants: defaultdict[str, Standing] = field(default_factory=lambda: defaultdict(Standing))
    keys: dict[str, bool | None] = field(default_factory=dict)
    unsigned: set[str] = field(default_factory=set)
    # When it was acknowledged that a signing key is revoked.
    lost_at: dict[str, float] = field(default_factory=dict)
    busy: Counter[str] = field(default_factory=Counter)
    heads: set[bytes] = field(default_factory=set)
    # The chain at each sequence, and what the feed revokes there; None after a break.
    chains: dict[int, bytes] = field(default_factory=dict)
    folds: dict[int, frozenset[str] | None] = field(default_factory=dict)
    feed: FeedHead | None = None
    listed: SrlHead | None = None
    # What each list states.
    lists: dict[int, frozenset[str]] = field(default_factory=dict)
    # What was seen last, to notice changes.
    feed_item: Item | None = None
    list_item: Item | None = None

    def signed_by(self, key_id: str) -> list[str]:
        """The warrants of a key."""
        return [each for each, found in self.warrants.items() if found.key_id == key_id]

    def revoked(self, warrant_id: str) -> bool | None:
        """Whether a warrant is revoked, by itself or by its key; None if that is open."""
        own = self.warrants[warrant_id]
        by_key = self.keys.get(own.key_id, False) if own.key_id else False
        return (
            True
            if True in (own.revoked, by_key)
            else None
            if None in (own.revoked, by_key)
            else False
        )


class Oracle:
    """Looks after each change whether all is as it must be."""

    def __init__(self, world: World, tenants: Iterable[tuple[Tenant, CreatedKey]]) -> None:
        self.world = world
        self.books = {
            each.id: Books(
                each,
                Ring(each.id, Held.of(admin)),
                Ledger(each.id),
                [Register(kind, kind.partition(each.id), {}) for kind in KINDS],
            )
            for each, admin in tenants
        }
        self.clients: list[Client] = []
        self.releases = Watch(world)
        world.fault = self.releases.fault
        # Whether nobody answers, because the records are being restored.
        self.is_suspended = False
        # Whether somebody seals the audit logs.
        self.is_sealed = True
        self._before: dict[str, tuple[set[str], set[str]]] = {}
        # The keys of list signers before a restore, as an operator has noted them.
        self.list_keys: dict[str, list[bytes]] = {}
        self._states: dict[Client, FeedState | None] = {}
        self._reached: dict[Client, tuple[int, int]] = {}
        self._held: dict[Client, dict[str, float]] = {}
        self.look()

    # --- what was asked ---

    def begin(self, books: Books, warrant_ids: Iterable[str], *, revokes: bool) -> None:
        """Something was asked whose outcome is open."""
        for each in warrant_ids:
            standing = books.warrants[each]
            books.busy[each] += 1
            standing.revoked = None
            standing.ever |= revokes

    def end(self, books: Books, warrant_ids: Iterable[str], revoked: bool | None) -> None:
        """The outcome is known, or it is not."""
        for each in warrant_ids:
            books.busy[each] -= 1
            self.know(books, each, revoked)

    def know(self, books: Books, warrant_id: str, revoked: bool | None) -> None:
        """It is known from now on whether a warrant is revoked by itself."""
        standing = books.warrants[warrant_id]
        # Its mark counts from what the clock said of the machine that set it.
        standing.revoked, standing.since = revoked, self.marked_at()

    def marked_at(self) -> float:
        """From when on what is acknowledged now counts as unpublished."""
        return max(self.world.now, self.world.stamp)

    def check_list(self, books: Books, version: int, asked_at: float) -> None:
        """A list was asked for, and made: it has what was acknowledged before."""
        for each, standing in books.warrants.items():
            if standing.since < asked_at and books.revoked(each) and not books.busy[each]:
                self.check_listed(books, version, each)

    def check_listed(self, books: Books, version: int, warrant_id: str) -> None:
        """A list has a warrant that was revoked before it was asked for."""
        if warrant_id not in books.lists.get(version, {warrant_id}):
            raise Broken(f"list {version} lacks {warrant_id}, which was revoked before")

    def open(self) -> list[str]:
        """What is still being asked."""
        return [
            f"{each} is open"
            for books in self.books.values()
            for each in books.warrants
            if books.busy[each] or books.revoked(each) is None
        ] + [each for books in self.books.values() for each in books.ring.open()]

    def settle(self) -> None:
        """Look up what is open, unless something is in flight."""
        if self.world.stage.records.hidden or self.is_suspended:
            return
        for books in self.books.values():
            books.ring.settle(self.world.stage.records)
            for key_id, lost in books.keys.items():
                if lost is None and not books.busy[key_id]:
                    self._settle_key(books, key_id)
            for each, standing in list(books.warrants.items()):
                if not books.busy[each] and (standing.revoked is None or each in books.unsigned):
                    self._settle(books, each)

    def _settle_key(self, books: Books, key_id: str) -> None:
        item = self.world.stage.records.get(keys(books.tenant.id).address(key_id))
        books.keys[key_id] = item is not None and item["status"] == KeyStatus.REVOKED
        for each in books.signed_by(key_id):
            self.know(books, each, books.warrants[each].revoked)

    def _settle(self, books: Books, warrant_id: str) -> None:
        item = self.world.stage.records.get(warrant_address(books.tenant.id, warrant_id))
        found = Recorded.of(item)
        if warrant_id in books.unsigned:
            books.unsigned.discard(warrant_id)
            if found.key_id is None:
                books.warrants[warrant_id].key_id = None
        books.warrants[warrant_id].revocation_id = found.revocation_id
        self.know(books, warrant_id, found.revocation_id is not None)

    def before_restore(self, ports: Ports) -> None:
        """The records are put back now: whatever the journal does not have may be lost."""
        self.is_suspended = True
        for address in [*self.world.stage.records.hidden]:
            self.world.stage.records.show(address)
        for books in self.books.values():
            known = {each for each in books.warrants if books.revoked(each)}
            with self.world.off_stage():
                said = journal.read_position(ports, books.tenant.id).said
            books.ring.before_restore(said.changes, ports.now())
            books.ledger.restored()
            for register in books.registers:
                register.found.clear()
            published = books.folds.get(said.sequence) or frozenset()
            self._before[books.tenant.id] = known, known & published
            with self.world.off_stage():
                named = signers.read_unarchived(ports, books.tenant.id)
                standby = signers.read_standby(ports, books.tenant.id)
            named += [standby] if standby else []
            self.list_keys[books.tenant.id] = [each.public_bytes for each in named]
            books.keys = dict.fromkeys(books.keys)
            books.lost_at.clear()
            for each in books.warrants:
                self.know(books, each, None)

    def recovered(self, books: Books, ports: Ports, *, is_said: bool) -> None:
        """A recovery has ended; `is_said` is whether it told that something may be missing."""
        known, published = self._before[books.tenant.id]
        with self.world.off_stage():
            found = verdicts.read_statuses(ports, books.tenant.id, known)
            books.ring.recovered(ports, is_said=is_said)
        lost = {each for each in known if not found[each].revoked}
        if lost & published:
            raise Broken(f"the recovery lost {lost & published}, which the journal has")
        if lost and not is_said:
            raise Broken(f"the recovery lost {lost}, and did not say so")
        for each in published:
            books.warrants[each].ever = True

    # --- what must hold ---

    def look(self) -> None:
        """Look at what has changed."""
        self.releases.look()
        if self.world.faults:
            raise Broken(self.world.faults[0])
        if self.is_suspended:
            for books in self.books.values():
                books.ledger.overhear(self.world.stage.records)
            return
        for books in self.books.values():
            self._look_at_feed(books)
            self._look_at_list(books)
            books.ledger.look(self.world.stage.records)
        for client in self.clients:
            self._look_at_client(client)

    def _look_at_feed(self, books: Books) -> None:
        records, tenant_id = self.world.stage.records, books.tenant.id
        item = records.get(feed_model.head_address(tenant_id))
        if item is None or item is books.feed_item:
            return
        books.feed_item = item
        before, head = books.feed, FeedHead.from_item(item)
        books.heads.add(head.payload)
        position = FeedPosition(head.sequence, head.signed_head.chain)
        if books.chains.setdefault(*position) != position.chain:
            raise Broken(f"two histories of the feed at {head.sequence}")
        if before is not None and head.sequence < before.sequence:
            raise Broken(f"the feed falls from {before.sequence} to {head.sequence}")
        books.feed = head
        self._fold(books, before, head)

    def _fold(self, books: Books, before: FeedHead | None, head: FeedHead) -> None:
        sequence = before.sequence if before else 0
        chain = before.signed_head.chain if before else wire.first_chain(books.tenant.id)
        held = books.folds.get(sequence, frozenset()) if before else frozenset()
        while sequence < head.sequence:
            sequence += 1
            address = feed_model.entry_address(books.tenant.id, sequence)
            item = self.world.stage.records.get(address)
            if item is None:
                # A break far above the last entry.
                held, chain, sequence = None, head.signed_head.chain, head.sequence
                continue
            stored = StoredEntry.from_item(item)
            entry = FeedEntry.decode(stored.entry)
            chain = wire.next_chain(chain, stored.entry)
            if entry.is_break or held is None:
                held = None
            else:
                held = held.difference(entry.removed).union(entry.revoked)
            books.chains.setdefault(sequence, chain)
            books.folds[sequence] = held
        books.folds.setdefault(head.sequence, held)
        if chain != head.signed_head.chain:
            raise Broken(f"the chain at {head.sequence} is not that of its entries")

    def _look_at_list(self, books: Books) -> None:
        item = self.world.stage.records.get(head_address(books.tenant.id))
        if item is None or item is books.list_item:
            return
        books.list_item = item
        before, head = books.listed, SrlHead.from_item(item)
        if before and (head.version <= before.version and head != before):
            raise Broken(f"the list goes from {before.version} to {head.version}")
        books.listed = head
        body = self.world.stage.blobs.found.get(head.base or "")
        if body is None:
            raise Broken(f"version {head.version} of the list is not stored")
        if head.sequence is None or books.feed is None:
            return
        stated = frozenset(wire.base_ids(gzip.decompress(body), books.feed.base))
        books.lists[head.version] = stated
        folded = books.folds.get(head.sequence)
        if folded is not None and folded != stated:
            raise Broken(
                f"list {head.version} is not the feed at {head.sequence}: {stated ^ folded}"
            )
        books.folds[head.sequence] = stated

    def _look_at_client(self, client: Client) -> None:
        books, view = self.books[client.tenant.id], client.follower.view
        state = view.state
        if state is None or not client.machine.is_up:
            return
        if state is not self._states.get(client):
            self._states[client] = state
            self._look_at_state(client, books, state)
        wall = client.machine.wall().timestamp()
        if self.world.monotonic() >= view.end or wall >= view.wall_end:
            return
        late = self.world.now - BOUND
        keys = client.keys.keys
        for each in keys.published.keys if keys else ():
            lost_at = books.lost_at.get(each.key_id)
            is_late = lost_at is not None and lost_at < late and not client.is_deceived
            if is_late and not each.is_revoked:
                raise Broken(f"{client.machine.name} trusts a key that was revoked")
        for warrant_id, standing in books.warrants.items():
            if (
                not client.is_deceived
                and (standing.is_shown or standing.revoked)
                and standing.since < late
                and warrant_id not in view.revoked
                and books.revoked(warrant_id)
            ):
                ago = self.world.now - standing.since
                raise Broken(f"{client.machine.name} is CLEAR of {warrant_id}, {ago:.1f} s after")

    def forget(self, client: object) -> None:
        """A client has lost what it knew."""
        for each in (self._reached, self._held, self._states):
            each.pop(client, None)  # type: ignore[call-overload]  # of others there is nothing

    def _look_at_state(self, client: Client, books: Books, state: FeedState) -> None:
        if state.latest and state.latest.payload not in books.heads:
            raise Broken(f"{client.machine.name} accepts a head that nobody published")
        held = self._held.get(client, {})
        for warrant_id, at in held.items():
            standing = books.warrants[warrant_id]
            is_same = books.revoked(warrant_id) and standing.since <= at
            if is_same and warrant_id not in state.revoked:
                raise Broken(f"{client.machine.name} accepts {warrant_id} again")
        version, sequence = client.follower.trust.version, state.sequence
        if (version, sequence) < self._reached.get(client, (0, 0)):
            raise Broken(f"{client.machine.name} goes back to {sequence}")
        self._reached[client] = version, sequence
        ids = state.revoked.ids()
        for warrant_id in ids:
            standing = books.warrants[warrant_id]
            if not standing.ever and not (
                standing.key_id and books.revoked(warrant_id) is not False
            ):
                raise Broken(f"{client.machine.name} refuses {warrant_id}, which nobody revoked")
        self._held[client] = {each: held.get(each, self.world.now) for each in ids}

    # --- what must come true ---

    def behind(self) -> list[str]:
        """What is not as it should be once all is quiet."""
        found = list[str]()
        for books in self.books.values():
            right = {each for each in books.warrants if books.revoked(each)}
            name = books.tenant.id
            if books.feed is None or books.folds.get(books.feed.sequence) != frozenset(right):
                found.append(f"the feed of {name} is not what was acknowledged")
            if books.listed is None or books.lists.get(books.listed.version) != frozenset(right):
                found.append(f"the list of {name} is not what was acknowledged")
            if self.is_sealed:
                found += books.ledger.behind(self.world.stage.records)
        for client in self.clients:
            books, view = self.books[client.tenant.id], client.follower.view
            keys = client.keys.keys
            right = {each for each in books.warrants if books.revoked(each)}
            wall = client.machine.wall().timestamp()
            if self.world.monotonic() >= view.end or wall >= view.wall_end:
                found.append(f"{client.machine.name} is stale")
            elif view.revoked.ids() != right:
                found.append(f"{client.machine.name} holds {view.revoked.ids() ^ right} wrongly")
            elif view.state and view.state.head.keys != (keys and keys.reference):
                found.append(f"{client.machine.name} has other signing keys than its head names")
        return found
