"""The native list: exactly what the feed says, under one version, for stock authorizers."""

import base64
import itertools
import random
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from functions.stock_authorizers import operations as native_list
from functions.stock_authorizers import records as native
from functions.stock_authorizers.records import NativeList
from shared.adapters.local.filesystem import FileBlobs
from shared.errors import DataCorrupt, OutOfSpace, Unavailable
from shared.model import feed as feed_model
from shared.model.audit.audit_log import AuditAction
from shared.model.feed import StoredEntry
from shared.model.lists.head import head_address
from shared.operations.base import seals
from shared.operations.changes import revocations
from shared.operations.lists import in_force, publication
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.kit.faults import Crash, Script, broken_at, scripted
from tests.kit.peers import asked
from tests.kit.tenants import Tenant, break_off, item_at
from tests.kit.worlds import Clock, close, embedded
from tests.operations.followers import Follower, current
from tests.operations.natives import Stock, fetch

pytestmark = pytest.mark.usefixtures("few_partitions", "at_once")

HEX = "0123456789abcdef" * 2


def stored(ports: Ports, tenant: Tenant) -> NativeList | None:
    """The list that is stored."""
    item = ports.store.get(native.list_address(tenant.id))
    return None if item is None else NativeList.from_item(item)


def blobs(ports: Ports, tenant: Tenant) -> list[str]:
    """The names of the stored lists, in order."""
    return list(ports.blobs.names(native.folder(tenant.id)))


def in_native_form(warrant_id: str) -> str:
    """The identifier as a list has it, said in another way than the code says it."""
    digits = warrant_id.removeprefix("svc_wrt_")
    is_theirs = len(digits) == 32 and set(digits) <= set("0123456789abcdef")
    return f"tnu_wrt_{digits}" if is_theirs else warrant_id


def peer(command: str, request: object) -> object:
    """What the classes of the wheel of `tenuo` answer."""
    return asked("tenuo", "tenuo_peer.py", request, command)


class Worlds:
    """Ports for one history after the other; some share a store, because that is faster."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder, self._clock, self._ports = folder, clock, embedded(folder, clock)

    def next(self, number: int) -> Ports:
        if number % 50 == 49:
            self.close()
            self._ports = embedded(self._folder, self._clock)
        return self._ports

    def close(self) -> None:
        close(self._ports)


class History:
    """A tenant to whom random things happen, with a stock authorizer that asks now and then."""

    def __init__(self, ports: Ports, clock: Clock, seed: int) -> None:
        self.ports, self.clock, self.random = ports, clock, random.Random(seed)
        self.tenant = Tenant.create(ports, f"t{seed}")
        self.records: dict[str, str] = {}
        self.lists: list[bytes] = []
        self.accepted: list[tuple[int, set[str]]] = []
        self.stock = Stock.of(ports, self.tenant)

    def run(self, steps: int) -> "History":
        kinds = [self.revoke, self.revoke, self.restore, self.regenerate, self.announce]
        rare = [self.wait, self.break_off, self.lose]
        for _ in range(steps):
            self.random.choice(kinds if self.random.random() < 0.8 else rare)()
            if self.random.random() < 0.6:
                self.ask()
        self.regenerate()
        self.ask()
        return self

    def revoke(self) -> None:
        name = self.random.choice([f"{self.random.getrandbits(128):032x}", "a", "b", "c"])
        ends = self.clock() + timedelta(hours=self.random.randint(1, 30))
        ends_at = self.random.choice([ends, None])
        warrant_id = f"svc_wrt_{name}"
        record_id = self.tenant.revoke(self.ports, warrant_id, ends_at=ends_at)
        self.records[warrant_id] = record_id

    def restore(self) -> None:
        if self.records:
            record = self.records.pop(self.random.choice(sorted(self.records)))
            revocations.delete(self.ports, self.tenant.operator, revocation_id=record)

    def regenerate(self) -> None:
        publication.publish(
            self.ports, self.tenant.operator, compare_all=self.random.random() < 0.3
        )

    def announce(self) -> None:
        publication.publish_feed(self.ports, self.tenant.id)

    def wait(self) -> None:
        self.clock.advance(hours=self.random.choice([0.1, 13, 30]))

    def break_off(self) -> None:
        break_off(self.ports, self.tenant.id)

    def lose(self) -> None:
        """The blobs of native lists are gone."""
        self.ports.blobs.discard(native.folder(self.tenant.id), before="~")

    def ask(self) -> None:
        try:
            body = fetch(self.ports, self.tenant)
        except Unavailable:
            newest = current(self.ports, self.tenant.id)
            has_ended = newest.signed_head.expires_at <= self.clock()
            if newest.is_broken or has_ended:
                return
            # The blob was lost; the next time it is there again.
            body = fetch(self.ports, self.tenant)
        self.lists.append(body)
        self.stock.accept(body)
        self.accepted.append((self.stock.version, self.stock.ids))
        told = Follower(self.tenant).poll(self.ports).refuses
        assert self.stock.ids == set(map(in_native_form, told))
        assert self.stock.version == current(self.ports, self.tenant.id).sequence + 1


@pytest.mark.parametrize("seed", range(6))
def test_random_histories(ports: Ports, clock: Clock, seed: int) -> None:
    """NATIVE-4, F270a: At each version, a native list names exactly what the feed says is revoked.

    A stock authorizer never sees a lower version, or another set at the same one.
    """
    History(ports, clock, seed).run(20)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (f"svc_wrt_{HEX}", f"tnu_wrt_{HEX}"),
        (f"svc_wrt_{HEX.upper()}", f"svc_wrt_{HEX.upper()}"),
        (f"svc_wrt_{HEX}0", f"svc_wrt_{HEX}0"),
        (f"svc_wrt_{HEX[1:]}", f"svc_wrt_{HEX[1:]}"),
        ("svc_wrt_laptop-17", "svc_wrt_laptop-17"),
        (f"svc_wrt_svc_wrt_{HEX}", f"svc_wrt_svc_wrt_{HEX}"),
    ],
)
def test_identifiers(ports: Ports, tenant: Tenant, ours: str, theirs: str) -> None:
    """NATIVE-3, F271a: A revoked warrant of `tenuo` is listed under the name that `tenuo` gave it.

    Any other is listed as it is.
    """
    tenant.revoke(ports, ours)
    publication.publish_feed(ports, tenant.id)
    assert Stock.of(ports, tenant).accept(fetch(ports, tenant)).ids == {theirs}


def test_the_list_is_made_once(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """NATIVE-4, F270b: Until the feed goes on, each request gets the same bytes."""
    tenant.revoke(ports, "svc_wrt_a")
    publication.publish_feed(ports, tenant.id)
    first = fetch(ports, tenant)
    clock.advance(minutes=5)
    tenant.regenerate(ports)
    script = Script()
    assert fetch(scripted(ports, script), tenant) == first
    assert script.calls == ["get_many", "get_blob"]


def test_a_list_is_made_again_before_its_blob_expires(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """F270c: On AWS the bucket removes a list after a day; it is made again after twelve hours."""
    stock, first = Stock.of(ports, tenant), fetch(ports, tenant)
    stock.accept(first)
    clock.advance(hours=13)
    tenant.regenerate(ports)
    assert (again := fetch(ports, tenant)) != first
    assert stock.accept(again).version == 1


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "altered"])
def test_a_damaged_blob(tmp_path: Path, ports: Ports, tenant: Tenant, lost: bool) -> None:
    """F272a: A native list that is lost or altered is not served; the next request has it again."""
    tenant.revoke(ports, "svc_wrt_a")
    publication.publish_feed(ports, tenant.id)
    stock = Stock.of(ports, tenant).accept(fetch(ports, tenant))
    assert isinstance(ports.blobs, FileBlobs)
    (blob,) = blobs(ports, tenant)
    path = tmp_path / "blobs" / blob
    path.unlink()
    if not lost:
        path.write_bytes(b"{}")
    with pytest.raises(DataCorrupt):
        fetch(ports, tenant)
    path.unlink(missing_ok=True)
    assert stock.accept(fetch(ports, tenant)).ids == {"svc_wrt_a"}


def test_old_lists_are_removed(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """F270d: On one machine only the newest native list stays, and for seconds the one before."""
    for number in range(4):
        tenant.revoke(ports, f"svc_wrt_{number}")
        publication.publish_feed(ports, tenant.id)
        fetch(ports, tenant)
        clock.advance(seconds=20 if number < 2 else 1)
    assert [name.rpartition("/")[2][:16] for name in blobs(ports, tenant)] == [
        native.blob_prefix(sequence) for sequence in (3, 4)
    ]


def test_a_full_disk(ports: Ports, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    """F272b: If the disk is full, old native lists are removed at once."""
    fetch(ports, tenant)
    tenant.revoke(ports, "svc_wrt_a")
    publication.publish_feed(ports, tenant.id)
    put = FileBlobs.put

    def put_if_empty(self: FileBlobs, name: str, data: bytes) -> None:
        if blobs(ports, tenant):
            raise OutOfSpace
        put(self, name, data)

    monkeypatch.setattr(FileBlobs, "put", put_if_empty)
    assert Stock.of(ports, tenant).accept(fetch(ports, tenant)).ids == {"svc_wrt_a"}


def _broken(ports: Ports, tenant: Tenant, _clock: Clock) -> None:
    break_off(ports, tenant.id)


def _expired(_ports: Ports, _tenant: Tenant, clock: Clock) -> None:
    clock.advance(days=8)


def _without_feed(ports: Ports, tenant: Tenant, _clock: Clock) -> None:
    partition = feed_model.feed_partition(tenant.id)
    rows = list(ports.store.query(partition))
    ports.store.write(*(Delete(partition.address(row.sk), Expect.PRESENT) for row in rows))


def _inexact(ports: Ports, tenant: Tenant, _clock: Clock) -> None:
    """The list in force says more than the feed, because no entry could be signed."""
    publication.publish(ports, tenant.operator)
    addresses = [
        head_address(tenant.id),
        in_force.read_srl_head(ports, tenant.id).history_address(tenant.id),
    ]
    for address in addresses:
        item = dict(ports.store.get(address) or {})
        del item["sequence"]
        ports.store.write(Put(address, item, Expect.PRESENT))
    ports.store.write(Delete(native.list_address(tenant.id), Expect.PRESENT))


def _altered_entry(ports: Ports, tenant: Tenant, _clock: Clock) -> None:
    tenant.revoke(ports, "svc_wrt_b")
    publication.publish_feed(ports, tenant.id)
    address = feed_model.entry_address(tenant.id, 2)
    item = item_at(ports, address)
    entry = StoredEntry.from_item(item).entry.replace(b"Revoked", b"Removed")
    ports.store.write(Put(address, {**item, "entry": entry}, Expect.PRESENT))


@pytest.mark.parametrize("happens", [_broken, _expired, _without_feed, _inexact, _altered_entry])
def test_nothing_is_said_that_is_not_known(
    ports: Ports, tenant: Tenant, clock: Clock, happens: Callable[[Ports, Tenant, Clock], None]
) -> None:
    """NATIVE-5, F273a: If the feed does not say what is revoked, the list is unavailable.

    That is so before the first list, after a break, if the feed head has expired, and if
    what is stored contradicts the head. A stock authorizer keeps its list, and denies everything if
    that lasts. The next list that is published heals it.
    """
    tenant.revoke(ports, "svc_wrt_a")
    tenant.regenerate(ports)
    stock = Stock.of(ports, tenant).accept(fetch(ports, tenant))
    happens(ports, tenant, clock)
    with pytest.raises(Unavailable):
        fetch(ports, tenant)
    tenant.revoke(ports, "svc_wrt_c")
    publication.publish(ports, tenant.operator, compare_all=True)
    assert stock.accept(fetch(ports, tenant)).ids >= {"svc_wrt_a", "svc_wrt_c"}


def test_a_list_from_the_future_of_the_feed(ports: Ports, tenant: Tenant) -> None:
    """F273b: A list that covers more than the feed has is not replaced by an older one."""
    tenant.revoke(ports, "svc_wrt_a")
    publication.publish_feed(ports, tenant.id)
    fetch(ports, tenant)
    made = stored(ports, tenant)
    assert made is not None
    item = {**made.to_item(), "sequence": 7}
    ports.store.write(Put(native.list_address(tenant.id), item, Expect.PRESENT))
    with pytest.raises(DataCorrupt):
        fetch(ports, tenant)


def _recorded() -> list[str]:
    """The calls of the first list, with which the signer is made."""
    with TemporaryDirectory() as folder:
        ports, script = embedded(Path(folder), Clock()), Script()
        tenant = Tenant.create(ports)
        fetch(scripted(ports, script), tenant)
        close(ports)
    return script.calls


_CALLS = _recorded()


@pytest.mark.parametrize("error", [Crash(), Unavailable("down")], ids=["crash", "fault"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(len(_CALLS)), ids=_CALLS)
def test_a_fault_at_a_step(
    ports: Ports, tenant: Tenant, step: int, late: bool, error: BaseException
) -> None:
    """NATIVE-2, F272c: A fault at any step loses nothing: the next request gets a list."""
    with pytest.raises(type(error)):
        fetch(broken_at(ports, step, error, late=late), tenant)
    first = ports.store.get(native.signer_address(tenant.id))
    stock = Stock.of(ports, tenant).accept(fetch(ports, tenant))
    assert stock.version == 1
    if first is not None:
        assert ports.store.get(native.signer_address(tenant.id)) == first


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "next"])
def test_two_at_once(ports: Ports, is_first: bool) -> None:
    """NATIVE-2, F270e: Two requests that make a list at once use one signer.

    The newest list is never replaced by an older one.
    """
    for step in itertools.count():
        tenant, lists = Tenant.another(ports), list[bytes]()
        if not is_first:
            lists.append(_published(ports, tenant, "svc_wrt_a"))
            tenant.revoke(ports, "svc_wrt_b")
            publication.publish_feed(ports, tenant.id)
        newest = 1 if is_first else 3

        def another(tenant: Tenant = tenant, lists: list[bytes] = lists) -> None:
            lists.append(_published(ports, tenant, "svc_wrt_c"))

        script = Script(before={step: another})
        lists.append(fetch(scripted(ports, script), tenant))
        if step >= len(script.calls):
            break
        made, stock = stored(ports, tenant), Stock.of(ports, tenant)
        assert made is not None
        assert made.sequence == newest
        for each in sorted(lists, key=lambda body: body[-3:]):
            stock.accept(each)
        assert "svc_wrt_c" in stock.accept(fetch(ports, tenant)).ids
        assert tenant.actions(ports).count(AuditAction.NATIVE_SIGNER_CREATE) == 1
    assert step > 2


def _published(ports: Ports, tenant: Tenant, warrant_id: str) -> bytes:
    """The list that has this warrant."""
    tenant.revoke(ports, warrant_id)
    publication.publish_feed(ports, tenant.id)
    return fetch(ports, tenant)


def test_the_signer_signs_nothing_else(ports: Ports) -> None:
    """NATIVE-2, F274a: The seed of a native signer opens for no other purpose, key or tenant."""
    tenant, other = Tenant.create(ports), Tenant.create(ports, "other")
    signer = native_list.signer(ports, tenant.operator)
    assert native_list.signer(ports, other.operator).public_key != signer.public_key
    seed = seals.unwrap_seed(ports, signer)
    assert len(seed) == 32
    assert base64.b64decode(signer.public_key) not in {
        each.public_bytes for each in in_force.read_signers(ports, tenant.id)
    }
    assert signer.sealed_seed is not None
    for change in ({"purpose": "srl"}, {"purpose": "warrant"}, {"tenant": other.id}):
        with pytest.raises(DataCorrupt):
            ports.sealer.unseal(signer.sealed_seed, context=signer.seal_context | change)


@pytest.mark.slow_on("cloud")
def test_the_list_on_another_engine(anywhere: Ports, clock: Clock) -> None:
    """F270: it is the same on a pretended cloud, where the seed is sealed by KMS."""
    History(anywhere, clock, 5).run(4)


@pytest.mark.parametrize(
    "count", [pytest.param(100, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.long)]
)
def test_the_wheel_accepts_every_list(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """NATIVE-1, NATIVE-4, F271b: The classes of `tenuo` accept the lists of 1,000 histories."""
    # Nothing crashes here, and half of the time would be spent on it.
    monkeypatch.setattr("os.fsync", lambda _: None)
    asked, expected = list[dict[str, object]](), list[list[object]]()
    with closing(Worlds(tmp_path, clock)) as worlds:
        for seed in range(count):
            history = History(worlds.next(seed), clock, seed).run(8)
            asked.append(
                {
                    "public_key": history.stock.public_key.hex(),
                    "lists": [body.decode() for body in history.lists],
                }
            )
            expected.append([[version, sorted(ids)] for version, ids in history.accepted])
    assert peer("lists", asked) == expected
    assert sum(map(len, expected)) > 4 * count


@pytest.mark.slow
def test_the_wheel_refuses_what_no_list_may_be(ports: Ports) -> None:
    """F271c: The rules that these tests hold our lists to are the rules of `tenuo` itself."""
    tenant, other = Tenant.create(ports), Tenant.create(ports, "other")
    first = fetch(ports, tenant).decode()
    tenant.revoke(ports, f"svc_wrt_{HEX}")
    publication.publish_feed(ports, tenant.id)
    second = fetch(ports, tenant).decode()
    signer = native_list.signer(ports, tenant.operator)
    seed, now = seals.unwrap_seed(ports, signer), ports.now()
    changed = native.signed_body(["a"], sequence=1, issued_at=now, seed=seed).decode()
    foreign = fetch(ports, other).decode()
    lists = [first, second, second, changed, first, foreign]
    asked = [{"public_key": signer.public_bytes.hex(), "lists": lists}]
    held = [2, [f"tnu_wrt_{HEX}"]]
    refused = ["SrlContentChanged", "SrlVersionRollback", "SignatureInvalid"]
    assert peer("lists", asked) == [[[1, []], held, held, *refused]]
