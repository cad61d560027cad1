"""A feed that was damaged in its store: the doctor finds it, and clients go on after the repair."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from shared.authorizer.formats import ed25519, wire
from shared.model import feed as model
from shared.model import seeds
from shared.model.feed import FeedHead, StoredEntry
from shared.model.lists.head import head_address
from shared.model.lists.schedule import mark_partitions as all_marks
from shared.model.lists.schedule import signers_marks, warrant_marks
from shared.operations.base import seals
from shared.operations.changes import list_signers
from shared.operations.lists import in_force, publication
from shared.operations.operator import consistency, doctor
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.kit.tenants import Tenant, break_off
from tests.kit.worlds import Clock
from tests.operations.followers import Follower

pytestmark = pytest.mark.usefixtures("at_once", "few_partitions")

WARRANTS = [f"svc_wrt_{name}" for name in "abcd"]


@dataclass(frozen=True)
class World:
    """A tenant whose list covers two entries, and whose feed has two more."""

    ports: Ports
    tenant: Tenant

    @property
    def head(self) -> FeedHead:
        found = in_force.read_feed_head(self.ports, self.tenant.id)
        assert found is not None
        return found

    def entry(self, sequence: int) -> StoredEntry:
        item = self.ports.store.get(model.entry_address(self.tenant.id, sequence))
        assert item is not None
        return StoredEntry.from_item(item)

    def put(self, sequence: int, entry: StoredEntry) -> None:
        address = model.entry_address(self.tenant.id, sequence)
        self.ports.store.write(Put(address, entry.to_item(), Expect.ANYTHING))

    def put_head(self, head: FeedHead) -> None:
        address = model.head_address(self.tenant.id)
        self.ports.store.write(Put(address, head.to_item(), Expect.PRESENT))

    def sign(self, head: wire.SignedHead) -> None:
        """Store another head, with a signature that is valid."""
        seed = seals.unwrap_seed(
            self.ports, in_force.read_active_signer(self.ports, self.tenant.id)
        )
        payload = head.encode()
        signature = seeds.signature(wire.signed_part(payload), seed=seed)
        self.put_head(replace(self.head, payload=payload, signature=signature))

    def rest(self) -> None:
        """Publish a list that covers the feed, and remove the marks, so that none is due."""
        publication.publish_if_due(self.ports, self.tenant.id)
        for partition in all_marks():
            for row in self.ports.store.query(partition):
                self.ports.store.write(Delete(partition.address(row.sk), Expect.PRESENT))

    def problems(self) -> list[str]:
        return [each.problem for each in consistency.examine(self.ports, self.tenant.id)]


@pytest.fixture
def world(ports: Ports, clock: Clock) -> World:
    made = World(ports, Tenant.create(ports))
    for warrant_id in WARRANTS[:2]:
        made.tenant.revoke(ports, warrant_id)
        publication.publish_feed(ports, made.tenant.id)
    made.rest()
    for warrant_id in WARRANTS[2:]:
        made.tenant.revoke(ports, warrant_id)
        publication.publish_feed(ports, made.tenant.id)
    return made


def _lost_entry(world: World) -> None:
    address = model.entry_address(world.tenant.id, 3)
    world.ports.store.write(Delete(address, Expect.PRESENT))


def _lost_last_entry(world: World) -> None:
    address = model.entry_address(world.tenant.id, 4)
    world.ports.store.write(Delete(address, Expect.PRESENT))


def _other_entry(world: World) -> None:
    other = wire.FeedEntry(3, ("svc_wrt_x",))
    world.put(3, StoredEntry.of(other, [None], world.ports.now(), follows=bytes(32)))


def _torn_entry(world: World) -> None:
    world.put(3, replace(world.entry(3), entry=b"\xff"))


def _misplaced_entry(world: World) -> None:
    world.put(3, world.entry(4))


def _entry_ahead(world: World) -> None:
    entry = wire.FeedEntry(5, ("svc_wrt_e",))
    world.put(5, StoredEntry.of(entry, [None], world.ports.now(), follows=bytes(32)))


def _other_chain(world: World) -> None:
    world.sign(replace(world.head.signed_head, chain=bytes(32)))


def _other_tenant(world: World) -> None:
    world.sign(replace(world.head.signed_head, tenant_id="svc_tnt_other"))


def _other_base(world: World) -> None:
    base = replace(world.head.base, sha256=bytes(32))
    world.sign(replace(world.head.signed_head, base=base))


def _older_head(world: World) -> None:
    """As a partial restore leaves it: list and entries go on, the head of the feed does not."""
    chain = wire.next_chain(wire.first_chain(world.tenant.id), world.entry(1).entry)
    base = replace(world.head.base, version=1, sequence=0, chain=wire.first_chain(world.tenant.id))
    world.sign(replace(world.head.signed_head, sequence=1, chain=chain, base=base))
    for sequence in (2, 3, 4):
        address = model.entry_address(world.tenant.id, sequence)
        world.ports.store.write(Delete(address, Expect.PRESENT))


def _no_signature(world: World) -> None:
    world.put_head(replace(world.head, signature=bytes(64)))


def _unknown_signer(world: World) -> None:
    world.put_head(replace(world.head, key_id="svc_key_unknown"))


def _no_payload(world: World) -> None:
    world.put_head(replace(world.head, payload=b"\xff"))


def _half_a_head(world: World) -> None:
    item = {**world.head.to_item()}
    del item["payload"]
    address = model.head_address(world.tenant.id)
    world.ports.store.write(Put(address, item, Expect.PRESENT))


def _no_head(world: World) -> None:
    world.rest()
    world.ports.store.write(Delete(model.head_address(world.tenant.id), Expect.PRESENT))


def _stale_base(world: World) -> None:
    """As if the write of the list had lost the head of the feed."""
    world.rest()
    first = wire.first_chain(world.tenant.id)
    base = wire.Base(1, 0, first, bytes(32), 0)
    world.sign(replace(world.head.signed_head, base=base))


def _break_without_list(world: World) -> None:
    world.rest()
    break_off(world.ports, world.tenant.id)


DAMAGES: list[Callable[[World], None]] = [
    _lost_entry,
    _lost_last_entry,
    _other_entry,
    _torn_entry,
    _misplaced_entry,
    _entry_ahead,
    _other_chain,
    _other_tenant,
    _other_base,
    _older_head,
    _no_signature,
    _unknown_signer,
    _no_payload,
    _half_a_head,
    _no_head,
    _stale_base,
    _break_without_list,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda each: each.__name__)
def test_a_damaged_feed(world: World, damage: Callable[[World], None]) -> None:
    """F245a: The doctor finds a feed that was damaged; after its repair, clients go on by it."""
    ports, tenant = world.ports, world.tenant
    assert world.problems() == []
    client = Follower(tenant).poll(ports)
    assert client.refuses == set(WARRANTS)
    damage(world)
    assert world.problems()
    assert {each.remedy for each in doctor.examine(ports)} == {"run: rescind recover acme"}
    assert consistency.repair(ports, tenant.operator)
    assert consistency.repair(ports, tenant.operator) == []
    assert publication.publish_due(ports).published == [tenant.id]
    assert world.problems() == []
    assert tenant.published(ports).revoked_ids == WARRANTS
    tenant.revoke(ports, "svc_wrt_e")
    publication.publish_feed(ports, tenant.id)
    assert client.poll(ports).refuses == {*WARRANTS, "svc_wrt_e"}
    assert Follower(tenant).poll(ports).refuses == {*WARRANTS, "svc_wrt_e"}


def test_an_old_entry_that_no_client_can_read(world: World) -> None:
    """F245b: An entry before the list that no client can read is removed."""
    ports, tenant = world.ports, world.tenant
    behind = Follower(tenant)
    world.put(2, replace(world.entry(2), entry=b"\xff"))
    assert world.problems() == ["feed entry 2: a feed entry is malformed"]
    assert consistency.repair(ports, tenant.operator)
    assert world.problems() == []
    assert behind.poll(ports).refuses == set(WARRANTS)


def test_a_base_that_is_lost(world: World) -> None:
    """F245c: If the base of the feed is lost or altered, the next list brings another one."""
    ports, tenant = world.ports, world.tenant
    world.rest()
    listed = in_force.read_srl_head(ports, tenant.id)
    assert listed.base is not None
    address = head_address(tenant.id)
    lost = replace(listed, base=listed.base.replace("bases/", "bases/lost-"))
    ports.store.write(Put(address, lost.to_item(), Expect.PRESENT))
    ports.store.write(Put(listed.history_address(tenant.id), lost.to_item(), Expect.PRESENT))
    assert world.problems() == [
        "clients of its feed cannot start from the current SRL, and no new SRL is due"
    ]
    assert consistency.repair(ports, tenant.operator)
    assert publication.publish_due(ports).published == [tenant.id]
    assert world.problems() == []
    assert Follower(tenant).poll(ports).refuses == set(WARRANTS)


def test_what_the_feed_says_is_pending_for_the_list(world: World) -> None:
    """F246a: Between an entry and its list, the doctor reports nothing."""
    ports, tenant = world.ports, world.tenant
    listed = in_force.read_srl_head(ports, tenant.id)
    key = tenant.key(ports)
    tenant.sign(ports, key)
    tenant.revoke_key(ports, key)
    assert world.problems() == []
    publication.publish_feed(ports, tenant.id)
    assert world.head.sequence == 5
    assert in_force.read_srl_head(ports, tenant.id) == listed
    assert list(doctor.examine(ports)) == []


def test_what_neither_the_list_nor_the_feed_says(world: World) -> None:
    """F246b: The doctor finds a revocation that neither the list, nor the feed, nor a mark names.

    The repair sets the mark, and the feed names it.
    """
    ports, tenant = world.ports, world.tenant
    key = tenant.key(ports)
    signed = tenant.sign(ports, key)
    tenant.revoke_key(ports, key)
    for warrant_id in ("svc_wrt_own", "svc_wrt_own-2"):
        tenant.revoke(ports, warrant_id)
    for partition in [signers_marks(tenant.id), *warrant_marks(tenant.id)]:
        for row in ports.store.query(partition):
            ports.store.write(Delete(partition.address(row.sk), Expect.PRESENT))
    problems = world.problems()
    assert len(problems) == 3
    assert sum(signed in each and key.id in each for each in problems) == 1
    consistency.repair(ports, tenant.operator)
    assert world.problems() == []
    publication.publish_feed(ports, tenant.id)
    wanted = {*WARRANTS, signed, "svc_wrt_own", "svc_wrt_own-2"}
    assert Follower(tenant).poll(ports).refuses == wanted


@pytest.mark.parametrize("damage", [_lost_entry, _other_entry, _torn_entry, _misplaced_entry])
def test_a_list_is_not_made_from_a_damaged_feed(
    world: World, damage: Callable[[World], None]
) -> None:
    """F247a: A list follows the feed only if its entries lead to its head, else all records."""
    ports, tenant = world.ports, world.tenant
    client = Follower(tenant).poll(ports)
    damage(world)
    assert publication.publish_due(ports).published == [tenant.id]
    assert tenant.published(ports).revoked_ids == WARRANTS
    assert client.poll(ports).refuses == set(WARRANTS)
    assert Follower(tenant).poll(ports).refuses == set(WARRANTS)


def test_the_signed_head(world: World) -> None:
    """FEED-2, F251a: The head ends the chain, names the list in force, and is valid as long."""
    ports, tenant = world.ports, world.tenant
    publications: list[Callable[[Ports], object]] = [
        publication.publish_due,
        lambda ports: list_signers.rotate(ports, tenant.operator),
    ]
    for publish in publications:
        publish(ports)
        listed, signer = in_force.read_head_and_signer(ports, tenant.id)
        chain = wire.first_chain(tenant.id)
        for sequence in range(1, 5):
            chain = wire.next_chain(chain, world.entry(sequence).entry)
        head, payload = world.head.signed_head, tenant.published(ports)
        signed = wire.signed_part(world.head.payload)
        assert ed25519.is_signed(signed, world.head.signature, public_key=signer.public_bytes)
        assert (head.tenant_id, head.sequence, head.chain) == (tenant.id, 4, chain)
        assert head.expires_at - head.issued_at == payload.expires_at - payload.issued_at
        sha256 = bytes.fromhex(listed.payload_sha256)
        assert head.base == wire.Base(payload.version, 4, chain, sha256, len(WARRANTS))
        assert wire.base_ids(payload.cbor, head.base) == WARRANTS
