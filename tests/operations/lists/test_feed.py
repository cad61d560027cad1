"""The feed: whatever stops or fails, each change reaches those who follow it, as a check says."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from boto3.dynamodb.types import Binary, TypeSerializer

from functions.trust import publishing
from shared.adapters.local.file_sealer import FileSealer
from shared.authorizer.formats import wire
from shared.authorizer.formats.wire import FeedEntry
from shared.authorizer.policy import RejectionReason, ResponseRejectedError
from shared.errors import DataCorrupt
from shared.model import feed as model
from shared.model import revocations as revocation_model
from shared.model.feed import StoredEntry, entry_address, head_address
from shared.model.lists import head as head_model
from shared.model.lists.head import states_folder
from shared.operations.changes import list_signers
from shared.operations.lists import decisions, in_force, publication
from shared.operations.lists import marks as srl_marks
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.kit.reads import reading
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.followers import Follower, current

pytestmark = pytest.mark.usefixtures("few_partitions", "at_once")

BEFORE, BACK, NEW, SIGNED = NAMES = [f"svc_wrt_{name}" for name in ("0", "back", "new", "signed")]


def _changed_tenant(ports: Ports) -> tuple[Tenant, Follower]:
    """A tenant with one change of each kind that its feed has yet to state, and a client."""
    tenant = Tenant.create(ports)
    key = tenant.key(ports)
    tenant.sign(ports, key, SIGNED)
    tenant.revoke(ports, BEFORE)
    record = tenant.revoke(ports, BACK)
    tenant.regenerate(ports)
    client = Follower(tenant).poll(ports)
    tenant.unrevoke(ports, record)
    tenant.revoke(ports, NEW)
    tenant.revoke_key(ports, key)
    return tenant, client


def publish(ports: Ports, tenant: Tenant) -> publication.PublishedFeed:
    """Publish the feed, which there must be."""
    published = publication.publish_feed(ports, tenant.id)
    assert published is not None
    return published


def test_a_key_that_signed_more_than_entries_take(
    ports: Ports, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F236d: A revoked key that signed too much is a break, after which clients wait for a list."""
    monkeypatch.setattr(decisions, "INLINE_MAX", 5)
    monkeypatch.setattr(model, "ENTRY_MAX", 4)
    small, large = tenant.key(ports), tenant.key(ports)
    few = [tenant.sign(ports, small) for _ in range(5)]
    many = [tenant.sign(ports, large) for _ in range(6)]
    client = Follower(tenant).poll(ports)
    tenant.revoke_key(ports, small)
    published = publish(ports, tenant)
    assert (published.entries, published.head.needs_list) == (2, False)
    assert client.poll(ports).refuses == set(few)
    tenant.revoke_key(ports, large)
    tenant.revoke(ports, NEW)
    published = publish(ports, tenant)
    assert (published.entries, published.head.needs_list) == (2, True)
    with pytest.raises(ResponseRejectedError) as refused:
        client.poll(ports)
    assert refused.value.reason is RejectionReason.BREAK
    assert publication.publish_if_due(ports, tenant.id)
    assert not current(ports, tenant.id).needs_list
    assert client.poll(ports).refuses == {NEW, *few, *many}
    assert client.bases == 2
    assert not publication.publish_if_due(ports, tenant.id)


def test_a_list_is_due_before_an_answer_is_full(
    ports: Ports, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F236e: Before the entries since the base exceed one answer, a list becomes the next base."""
    monkeypatch.setattr(model, "UNLISTED_MAX", 100)
    tenant.revoke(ports, "svc_wrt_1")
    assert not publish(ports, tenant).head.needs_list
    for number in range(2, 5):
        tenant.revoke(ports, f"svc_wrt_{number}")
        publish(ports, tenant)
    assert current(ports, tenant.id).needs_list
    assert publication.publish_if_due(ports, tenant.id)
    head = current(ports, tenant.id)
    assert (head.needs_list, head.unlisted_bytes) == (False, 0)


def test_many_changes_are_several_entries(
    ports: Ports, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FEED-1, F236a: More changes than an entry may have are in several entries."""
    monkeypatch.setattr(model, "ENTRY_MAX", 4)
    client = Follower(tenant).poll(ports)
    names = [f"svc_wrt_{number}" for number in range(11)]
    for name in names:
        tenant.revoke(ports, name)
    before = current(ports, tenant.id).sequence
    published = publish(ports, tenant)
    assert published.head.sequence == before + published.entries
    assert published.entries >= 3
    assert client.poll(ports).refuses == set(names)
    assert srl_marks.read_warrant_marks(ports, tenant.id, limit=1)[0] == {}
    stored = in_force.read_entries(ports, tenant.id, after=before, until=published.head.sequence)
    assert all(len(each.decode()[0].revoked) <= 4 for each in stored)


def test_an_entry_has_its_chain(ports: Ports, tenant: Tenant) -> None:
    """F262a: Each entry is stored with the chain at it, as clients compute it from the entries."""
    for number in range(3):
        tenant.revoke(ports, f"svc_wrt_{number}")
        publish(ports, tenant)
    chain = wire.first_chain(tenant.id)
    for row in ports.store.query(model.feed_partition(tenant.id), before=model.HEAD):
        stored = StoredEntry.from_item(row.item)
        chain = wire.next_chain(chain, stored.entry)
        assert stored.chain == chain
    assert current(ports, tenant.id).signed_head.chain == chain


def test_an_entry_fits_an_item() -> None:
    """F236b: An entry of as many warrants as it may have, of the longest names, fits an item."""
    longest = wire.ID_BYTES_MAX - len("svc_wrt_") - 4
    names = tuple(f"svc_wrt_{number:04}{'x' * longest}" for number in range(model.ENTRY_MAX))
    assert {len(name) for name in names} == {wire.ID_BYTES_MAX}
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    entry, ends = FeedEntry(wire.NUMBER_MAX, names), [end] * len(names)
    stored = StoredEntry.of(entry, ends, end, follows=bytes(32))
    address = entry_address("svc_tnt_" + "0" * 26, wire.NUMBER_MAX)
    item = {**stored.to_item(), "pk": address.pk, "sk": address.sk}
    # By DynamoDB's rules: names of attributes, and values in UTF-8 or bytes.
    size = 0
    for name, value in item.items():
        encoded = value.encode() if isinstance(value, str) else value
        assert isinstance(encoded, bytes)
        assert TypeSerializer().serialize(value) in ({"S": value}, {"B": Binary(encoded)})
        size += len(name) + len(encoded)
    assert 300_000 < size <= 400 * 1024


def test_an_ended_warrant_leaves_by_the_feed(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """SRL-9, FEED-6, F236c: A warrant that leaves the list at its end leaves each client too."""
    tenant.sign(ports, tenant.key(ports), SIGNED, ends_at=clock() + timedelta(minutes=10))
    tenant.revoke(ports, SIGNED)
    tenant.revoke(ports, BEFORE)
    tenant.regenerate(ports)
    client = Follower(tenant).poll(ports)
    assert client.refuses == {BEFORE, SIGNED}
    clock.advance(minutes=59)
    tenant.regenerate(ports)
    clock.advance(minutes=12)
    assert tenant.regenerate(ports).revoked_ids == [BEFORE]
    assert client.poll(ports).refuses == {BEFORE}
    assert client.bases == 1


def test_a_warrant_that_ends_before_the_next_list(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """SRL-9, FEED-6, F481a: A warrant that ends after the feed stated it is in no list."""
    tenant.sign(ports, tenant.key(ports), SIGNED, ends_at=clock() + timedelta(minutes=10))
    tenant.revoke(ports, SIGNED)
    publication.publish_feed(ports, tenant.id)
    client = Follower(tenant).poll(ports)
    assert client.refuses == {SIGNED}
    clock.advance(minutes=71)
    assert tenant.regenerate(ports).revoked_ids == []
    assert client.poll(ports).refuses == set()


def test_a_rebuild_repairs_each_client(ports: Ports) -> None:
    """F237a: The feed states differences from all records; no client needs a base."""
    tenant, client = _changed_tenant(ports)
    shard = revocation_model.shard_of(tenant.id, "svc_wrt_lost")
    ports.store.write(Put(shard.address("svc_wrt_lost"), {}, Expect.ABSENT))
    publish(ports, tenant)
    assert "svc_wrt_lost" not in client.poll(ports).refuses
    publication.publish(ports, tenant.operator, compare_all=True)
    listed = tenant.published(ports).revoked_ids
    assert "svc_wrt_lost" in listed
    assert client.poll(ports).refuses == set(listed)
    assert client.bases == 1


def _without_sequence(ports: Ports, tenant: Tenant) -> None:
    """The list in force does not follow from the feed."""
    item = dict(in_force.read_srl_head(ports, tenant.id).to_item())
    item.pop("sequence", None)
    address = head_model.head_address(tenant.id)
    ports.store.write(Put(address, item, Expect.PRESENT))


def _without_head(ports: Ports, tenant: Tenant) -> None:
    ports.store.write(Delete(head_address(tenant.id), Expect.PRESENT))


def _without_feed(ports: Ports, tenant: Tenant) -> None:
    _without_sequence(ports, tenant)
    _without_head(ports, tenant)


def _without_entry(ports: Ports, tenant: Tenant) -> None:
    address = entry_address(tenant.id, current(ports, tenant.id).sequence)
    ports.store.write(Delete(address, Expect.PRESENT))


_DAMAGES = [_without_sequence, _without_head, _without_feed, _without_entry]


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("damage", _DAMAGES)
def test_the_next_list_mends_the_feed(
    ports: Ports, tenant: Tenant, damage: Callable[[Ports, Tenant], None], *, listed: bool
) -> None:
    """F238c: A feed without its head, an entry or its list's sequence goes on after the next list.

    A client goes on too, unless the records show nothing of a feed.
    """
    if listed:
        tenant.revoke(ports, BEFORE)
        tenant.regenerate(ports)
    tenant.revoke(ports, NEW)
    publish(ports, tenant)
    client = Follower(tenant).poll(ports)
    damage(ports, tenant)
    tenant.revoke(ports, BACK)
    assert publication.publish_if_due(ports, tenant.id)
    expected = {NEW, BACK} | ({BEFORE} if listed else set())
    assert set(tenant.published(ports).revoked_ids) == expected
    assert Follower(tenant).poll(ports).refuses == expected
    if damage is not _without_feed:
        assert client.poll(ports).refuses == expected
    tenant.revoke(ports, SIGNED)
    assert publish(ports, tenant).entries == 1
    assert Follower(tenant).poll(ports).refuses == expected | {SIGNED}


@pytest.mark.parametrize("compares", [True, False])
def test_a_difference_that_nobody_could_sign(
    ports: Ports, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, compares: bool
) -> None:
    """F238d: If the seed is lost with a list to be made anew, the next entry is a break."""
    tenant.revoke(ports, BEFORE)
    tenant.regenerate(ports)
    client = Follower(tenant).poll(ports)
    shard = revocation_model.shard_of(tenant.id, NEW)
    ports.store.write(Put(shard.address(NEW), {}, Expect.ABSENT))
    if not compares:
        ports.blobs.discard(states_folder(tenant.id), before="~")
    after = replace(ports, sealer=FileSealer.create(tmp_path / "another.key"))
    with monkeypatch.context() as patch:
        patch.setattr(decisions, "COMPARED_EVERY", 1 if compares else 10**9)
        list_signers.rotate(after, tenant.operator)
    tenant.revoke(after, BACK)
    assert publication.publish_if_due(after, tenant.id)
    assert client.poll(after).refuses == {BEFORE, NEW, BACK}


def test_a_tenant_without_a_feed_has_nothing_to_publish(ports: Ports, tenant: Tenant) -> None:
    """F238a: If the feed of a tenant is lost, the marks stay for the next list."""
    _without_feed(ports, tenant)
    tenant.revoke(ports, NEW)
    assert publication.publish_feed(ports, tenant.id) is None
    assert len(srl_marks.read_warrant_marks(ports, tenant.id, limit=9)[0]) == 1


def test_a_head_that_cannot_be_read_publishes_nothing(ports: Ports) -> None:
    """F238b: A malformed head of the feed is an error, and what it lacks keeps its marks."""
    tenant, _ = _changed_tenant(ports)
    item = {**(ports.store.get(head_address(tenant.id)) or {}), "payload": b"\xa0"}
    ports.store.write(Put(head_address(tenant.id), item, Expect.PRESENT))
    with pytest.raises(DataCorrupt):
        publication.publish_feed(ports, tenant.id)
    assert len(srl_marks.read_warrant_marks(ports, tenant.id, limit=9)[0]) == 2


def test_old_entries_go_and_a_damaged_one_stops_no_list(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """FEED-8, F239b: The entries of a base go after two weeks; a damaged one fails no list."""
    tenant.revoke(ports, BEFORE)
    assert publication.publish_if_due(ports, tenant.id)
    clock.advance(days=14, minutes=1)
    tenant.revoke(ports, NEW)
    assert publication.publish_if_due(ports, tenant.id)
    rows = [row.sk for row in ports.store.query(model.feed_partition(tenant.id))]
    assert rows == [model.entry_sk(2), model.HEAD]
    ports.store.write(Put(entry_address(tenant.id, 2), {"entry": 1}, Expect.PRESENT))
    clock.advance(days=14, minutes=1)
    before = in_force.read_srl_head(ports, tenant.id).version
    assert publication.publish_if_due(ports, tenant.id)
    assert in_force.read_srl_head(ports, tenant.id).version == before + 1


@pytest.mark.slow_on("cloud")
def test_a_publication_reads_what_changed(anywhere: Ports) -> None:
    """F239a: A publication of the feed reads three items for each warrant that changed."""
    tenant = Tenant.create(anywhere)
    for number in range(12):
        tenant.revoke(anywhere, f"svc_wrt_{number}")
    publish(anywhere, tenant)
    with reading(anywhere) as (watched, reads):
        publication.publish_feed(watched, tenant.id)
    idle = replace(reads)
    costs = []
    for size in (5, 10):
        for number in range(size):
            tenant.revoke(anywhere, f"svc_wrt_{size}_{number}")
        with reading(anywhere) as (watched, reads):
            published = publication.publish_feed(watched, tenant.id)
        assert published is not None
        assert published.entries == 1
        costs.append(reads)
    few, many = costs
    assert many.items - few.items <= 3 * 5
    assert many.trips == few.trips
    # The marks on warrants and on signers, and the head.
    assert idle.trips == revocation_model.SHARDS + 2
    assert idle.items <= 1
    # The settings, the head of the list, its signer; the warrants.
    assert few.trips - idle.trips == 4


@pytest.mark.parametrize("ahead", [timedelta(hours=6), timedelta(days=365)])
def test_a_head_from_a_clock_that_was_ahead(
    ports: Ports, tenant: Tenant, clock: Clock, ahead: timedelta
) -> None:
    """F318a: The first list after a clock was ahead gives the feed a head that clients accept."""
    client = Follower(tenant).poll(ports)
    clock.moment += ahead
    tenant.revoke(ports, NEW)
    publication.publish_feed(ports, tenant.id)
    clock.moment -= ahead
    with pytest.raises(ResponseRejectedError, match=RejectionReason.FUTURE):
        client.poll(ports)
    assert publication.publish_due(ports).published == [tenant.id]
    assert client.poll(ports).refuses == {NEW}
    assert current(ports, tenant.id).signed_head.issued_at == clock()


def test_a_client_whose_clock_was_ahead_too(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """FEED-2, F932a: Who accepted a head from a clock that was ahead accepts the next one.

    A list that another clock publishes has a head that was issued before, so it is another entry. A
    head that only names other keys has the same end, and is not issued before.
    """
    client, ahead = Follower(tenant), timedelta(seconds=40)

    def polled() -> set[str]:
        clock.moment += ahead
        client.poll(ports)
        clock.moment -= ahead
        return client.refuses

    clock.moment += ahead
    tenant.revoke(ports, NEW)
    tenant.regenerate(ports)
    clock.moment -= ahead
    assert polled() == {NEW}
    publishing.keep(ports, tenant.id)
    assert polled() == {NEW}
    tenant.regenerate(ports)
    assert current(ports, tenant.id).signed_head.issued_at == clock()
    assert polled() == {NEW}
