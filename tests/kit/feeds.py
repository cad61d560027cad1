"""A feed as it may be stored, with gaps, breaks and sizes that take long to come about."""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from shared.authorizer.formats import wire
from shared.model import feed as model
from shared.model.feed import FeedHead, StoredEntry
from shared.operations.lists import in_force, publication
from shared.operations.lists.publication import PublishedFeed
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put


@dataclass
class StoredFeed:
    """The feed of a tenant, written straight to the store. Each step writes the head as well."""

    ports: Ports
    tenant_id: str
    entries: dict[int, bytes] = field(default_factory=dict)
    sequence: int = 0
    base: int = 0
    broke_at: int = 0
    version: int = 0
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    def __post_init__(self) -> None:
        self.rebase(0)

    def revoke(self, *warrant_ids: str) -> bytes:
        """Append an entry; return it."""
        return self.append(wire.FeedEntry(self.sequence + 1, tuple(sorted(warrant_ids))))

    def break_off(self, *, leap: int = 0) -> bytes:
        """Append a break; a restore lets the sequence leap."""
        self.broke_at = self.sequence + 1 + leap
        return self.append(wire.FeedEntry(self.broke_at))

    def append(self, entry: wire.FeedEntry) -> bytes:
        """Append an entry; return its bytes."""
        ends: list[datetime | None] = [None] * len(entry.revoked)
        stored = StoredEntry.of(entry, ends, self.ports.now(), follows=bytes(32))
        return self.store(entry.sequence, stored)

    def append_bytes(self, data: bytes) -> bytes:
        """Append what stands for a large entry; return it."""
        return self.store(self.sequence + 1, StoredEntry(data, b"", self.ports.now()))

    def store(self, sequence: int, stored: StoredEntry) -> bytes:
        self.sequence, self.entries[sequence] = sequence, stored.entry
        address = model.entry_address(self.tenant_id, sequence)
        self.ports.store.write(Put(address, stored.to_item(), Expect.ABSENT))
        self.sign()
        return stored.entry

    def rebase(self, sequence: int) -> None:
        """Let a list cover the entries up to this one."""
        self.base = sequence
        self.sign()

    def remove(self, sequence: int) -> None:
        """Remove an entry."""
        address = model.entry_address(self.tenant_id, sequence)
        self.ports.store.write(Delete(address, Expect.PRESENT))

    def sign(self) -> None:
        """Write the head."""
        self.version += 1
        now = self.ports.now()
        base = wire.Base(1, self.base, bytes(32), hashlib.sha256(b"list").digest(), 0)
        head = wire.SignedHead(
            self.tenant_id, self.sequence, bytes(32), now, now + timedelta(hours=1), base
        )
        payload = head.encode()
        signature = self.key.sign(wire.signed_part(payload))
        record = FeedHead(payload, signature, "svc_key_x", self.broke_at, version=self.version)
        address = model.head_address(self.tenant_id)
        self.ports.store.write(Put(address, record.to_item(), Expect.ANYTHING))


def publish_feed(ports: Ports, tenant_id: str) -> PublishedFeed | None:
    """Publish the feed and name the signing keys in it, as servers do."""
    published = publication.publish_feed(ports, tenant_id)
    if published is not None and published.unnamed:
        publication.name_keys(ports, tenant_id, published.unnamed)
    return published


def published(ports: Ports, tenant_id: str) -> set[str]:
    """What the feed revokes, whose entries have consecutive numbers and one chain."""
    head = in_force.read_feed_head(ports, tenant_id)
    assert head is not None
    chain, found = wire.first_chain(tenant_id), set[str]()
    addresses = [model.entry_address(tenant_id, each) for each in range(1, head.sequence + 1)]
    items = ports.store.get_many(addresses)
    for each in addresses:
        stored = StoredEntry.from_item(items[each])
        chain = wire.next_chain(chain, stored.entry)
        assert stored.chain == chain
        found |= set(wire.FeedEntry.decode(stored.entry).revoked)
    assert head.signed_head.chain == chain
    return found
