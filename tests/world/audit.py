"""The audit log of a tenant: each acknowledged change is in it once, and its seal never falls."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Final

from functions.transparency_log import daily_statements as statements
from functions.transparency_log import head as head_model
from functions.transparency_log import outside, sealing
from functions.transparency_log.checkpoint import (
    AuditSigner,
    Checkpoint,
    PinnedCheckpoint,
    is_signed_by,
    origin,
    signers,
)
from functions.transparency_log.head import LogHead
from shared.model.audit import audit_log, records
from shared.model.audit.audit_log import EntryFilters
from shared.model.audit.records import EntryCommitment
from shared.model.items import Address, Item
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.world.broken import Broken
from tests.world.memory import Records
from tests.world.world import EPOCH

if TYPE_CHECKING:
    from tests.world.run import Life

_EVER: Final = EntryFilters(EPOCH - timedelta(days=2), EPOCH + timedelta(days=2))


@dataclass
class Asked:
    """A request to a tenant: whether it was done, None if that is open, and what it has to leave.

    That is one entry for each of these marks: an action, or an action and the warrant of a batch.
    """

    id: str
    is_done: bool | None = None
    marks: tuple[str, ...] = ()


@dataclass
class Ledger:
    """What the audit log of a tenant must have, and all that was ever signed of it."""

    tenant_id: str
    asked: dict[str, Asked] = field(default_factory=dict)
    head: LogHead | None = None
    # The records of the present generation, and each root that was signed, by generation and size.
    leaves: list[bytes] = field(default_factory=list)
    roots: dict[tuple[int, int], bytes] = field(default_factory=dict)
    # Earlier heads, which a thief may put back; after that, nothing may be signed.
    items: list[Item] = field(default_factory=list)
    is_robbed: bool = False
    # The head that a recovery has written last.
    overheard: Item | None = None
    # The requests of which a thief has an entry.
    stolen: set[str] = field(default_factory=set)
    # What was acknowledged when the records were copied.
    copied: frozenset[str] = frozenset()

    def ask(self, marks: tuple[str, ...]) -> Asked:
        """A new request."""
        made = Asked(f"request {len(self.asked)}", marks=tuple(filter(None, marks)))
        self.asked[made.id] = made
        return made

    def entries(self, store: Records) -> Iterator[tuple[Address, Item]]:
        """All entries as they are stored."""
        for _, partitions in audit_log.months(self.tenant_id, _EVER):
            for each in partitions:
                yield from ((each.address(row.sk), row.item) for row in store.query(each))

    def copy(self) -> None:
        """The records are copied."""
        self.copied = frozenset(each for each, asked in self.asked.items() if asked.is_done)

    def restored(self) -> None:
        """The records are put back to their copy."""
        for each in self.asked.values():
            if each.is_done and each.id not in self.copied:
                each.is_done = None
        self.is_robbed = False

    def overhear(self, store: Records) -> None:
        """A recovery goes on, and anchors may name what it signs before its end."""
        item = store.get(head_model.address(self.tenant_id))
        if item is None or item is self.overheard:
            return
        self.overheard, head = item, LogHead.from_item(item)
        is_same = self.head is not None and head.generation == self.head.generation
        leaves = [*(self.leaves[: head.stored] if is_same else ()), *head.unstored_records]
        if len(leaves) == head.size:
            self._sign(head, leaves)

    # --- what must hold ---

    def look(self, store: Records) -> None:
        """Look at the head, if it has changed."""
        item = store.get(head_model.address(self.tenant_id))
        if item is None or (self.items and item == self.items[-1]):
            return
        self.items.append(item)
        before, head = self.head, LogHead.from_item(item)
        if before is not None and (head.generation, head.size) < (before.generation, before.size):
            raise Broken(f"the sealed log falls from {before.size} to {head.size} leaves")
        is_same = before is not None and head.generation == before.generation
        known = self.leaves if is_same else []
        if known[head.stored :] != head.unstored_records[: max(len(known) - head.stored, 0)]:
            raise Broken(f"the sealed log says something else of its {len(known)} leaves")
        self.head, self.leaves = head, known[: head.stored] + head.unstored_records
        self._check(store, head)

    def _check(self, store: Records, head: LogHead) -> None:
        if (
            len(self.leaves) != head.size
            or len({*records.ulids(b"".join(self.leaves))}) < head.size
        ):
            raise Broken("the sealed log has an entry twice, or less than it says")
        root = self._sign(head, self.leaves)
        if not head.size:
            return
        name = origin(self.tenant_id, head.generation)
        if Checkpoint.parse(head.checkpoint) != Checkpoint(name, head.size, root):
            raise Broken(f"the checkpoint of {head.size} leaves is not theirs")
        found = [AuditSigner.from_item(row.item) for row in store.query(signers(self.tenant_id))]
        if not any(is_signed_by(head.checkpoint, each.key(name)) for each in found):
            raise Broken("no signer of the audit log has signed its checkpoint")

    def _sign(self, head: LogHead, leaves: list[bytes]) -> bytes:
        root = _root([hashlib.sha256(b"\0" + each).digest() for each in leaves])
        if self.roots.setdefault((head.generation, head.size), root) != root:
            raise Broken(f"two histories of the sealed log with {head.size} leaves")
        return root

    def unsealed(self, store: Records, *, older: bool = False) -> set[bytes]:
        """The entries that are not sealed; also `older` ones, which only a sweep finds."""
        ulids = {records.ulid_of(str(item["id"])) for _, item in self.entries(store)}
        sealed = {*records.ulids(b"".join(self.leaves))}
        newest = max(map(records.milliseconds, sealed), default=0)
        since = 0 if older else newest - sealing.OVERLAP / timedelta(milliseconds=1)
        return {each for each in ulids - sealed if records.milliseconds(each) >= since}

    def behind(self, store: Records) -> list[str]:
        """What is not sealed as it should be once all is quiet."""
        left = set() if self.is_robbed else self.unsealed(store)
        return [f"{len(left)} entries of {self.tenant_id} are not sealed"] if left else []

    def examine(self, store: Records, desk: Ports) -> None:
        """Hold the whole log against what was asked."""
        found = [item for _, item in self.entries(store)]
        marks = Counter(
            (item.get("request_id"), mark, str(item["resource_id"]))
            for item in found
            for mark in _marks(item)
        )
        for (request_id, mark, _), number in marks.items():
            if request_id is not None and number > 1:
                raise Broken(f"the audit log has {mark} {number} times for {request_id!r}")
        done = {(request_id, mark) for request_id, mark, _ in marks}
        for asked in self.asked.values():
            if asked.id in self.stolen:
                continue
            if asked.is_done is False and any(each == asked.id for each, _ in done):
                raise Broken(f"the audit log has {asked.id}, which was refused")
            missing = {each for each in asked.marks if (asked.id, each) not in done}
            if asked.is_done and missing:
                raise Broken(f"the audit log lacks {missing} of {asked.id}")
        if not self.is_robbed:
            self._examine_seal(store, found, desk)

    def _examine_seal(self, store: Records, found: Collection[Item], desk: Ports) -> None:
        if self.unsealed(store, older=True):
            statements.sweep(desk, self.tenant_id)
            self.look(store)
        # What a wrong clock has made is sealed when its time has come.
        until = desk.now().timestamp() * 1000
        made = (each for each in map(EntryCommitment.of, found) if each.made_ms <= until)
        stored = {each.id: each.data for each in made}
        sealed = {EntryCommitment.parse(each).id: each for each in self.leaves}
        if stored.items() - sealed.items():
            raise Broken("the sealed log lacks entries, or has them otherwise")
        for kept in outside.all_anchors(desk, self.tenant_id):
            if kept.size and self.roots.get(kept[:2]) != kept.root:
                raise Broken(f"an anchor names {kept.size} leaves that were never signed")


def _marks(item: Item) -> list[str]:
    action, details = str(item["action"]), item["details"]
    if isinstance(details, dict) and isinstance(details.get("revocations"), list):
        return [f"{action} {each}" for each in audit_log.warrants_of(item)]
    return [action]


def _root(hashes: list[bytes]) -> bytes:
    """The root over these leaves (RFC 6962, section 2.1)."""
    if len(hashes) < 2:
        return hashes[0] if hashes else hashlib.sha256().digest()
    middle = 1 << (len(hashes) - 1).bit_length() - 1
    halves = _root(hashes[:middle]), _root(hashes[middle:])
    return hashlib.sha256(b"\1" + b"".join(halves)).digest()


def rob(life: "Life", random: Random) -> None:
    """A thief who can write to the store takes entries and the head of the log, or an older one."""
    store, blobs = life.world.stage.records, life.world.stage.blobs
    books = random.choice(list(life.oracle.books.values()))
    ledger, is_back = books.ledger, random.random() < 0.5
    if life.is_restoring or ledger.head is None or ledger.is_robbed or store.hidden:
        return
    # Until its blob is there, nobody outside the store knows of a checkpoint (LOG-12).
    if (
        PinnedCheckpoint.of(ledger.head).name(ledger.tenant_id) not in blobs.found
        or len(ledger.items) < 2
    ):
        return
    place = head_model.address(ledger.tenant_id)
    older = Put(place, random.choice(ledger.items[:-1]), Expect.ANYTHING)
    store.write(older if is_back else Delete(place, Expect.ANYTHING))
    entries = list(ledger.entries(store))
    for address, item in random.sample(entries, min(3, len(entries))):
        store.write(Delete(address, Expect.ANYTHING))
        ledger.stolen.add(str(item.get("request_id")))
    found = store.get(place)
    ledger.items += [found] if found else []
    ledger.is_robbed = True
    life.world.tell(f"a thief takes the head of the audit log of {ledger.tenant_id[-4:]}")
