"""Failover to a copy of the store: nothing is lost that arrived, in whatever order."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import pytest

from shared.authorizer.state import State
from shared.errors import RequestError
from shared.model import api_keys, revocations
from shared.model.audit import audit_log
from shared.model.idempotency import Request
from shared.model.items import Address, Table
from shared.model.lists.head import ListHead
from shared.model.lists.signers import ListSigner, signers
from shared.model.signing_keys import KeyStatus
from shared.model.warrants import Standing, warrant_address
from shared.operations.access import api_keys as key_operations
from shared.operations.access.api_key_creation import Created
from shared.operations.audit import log, sealing
from shared.operations.changes import revocations as changes
from shared.operations.lists import in_force, publication
from shared.operations.lists.journal import Journals
from shared.operations.operator import doctor, failover
from shared.ports import Ports
from tests.kit.faults import Crash, Script, raises, scripted
from tests.kit.tenants import Tenant, opens
from tests.kit.worlds import Clock, close, embedded
from tests.operations import histories
from tests.operations.followers import Follower, current
from tests.operations.histories import STEPS, World
from tests.operations.mutations import CASES, Case
from tests.operations.replicas import Original, arrived, put, revoked_here
from tests.world.explore import Start, in_memory

pytestmark = pytest.mark.usefixtures("at_once", "few_partitions")


@pytest.fixture(autouse=True)
def _fewer_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy is read several times: with fewer partitions that takes less time."""
    monkeypatch.setattr(revocations, "RECORD_SHARDS", 2)
    monkeypatch.setattr(revocations, "COUNTERS", 2)
    monkeypatch.setattr(audit_log, "SHARDS", 2)


@dataclass(frozen=True)
class Seen:
    """What the original had served when it had made so many updates."""

    updates: int
    moment: datetime
    head: ListHead
    sequence: int
    generation: int
    client: State


@dataclass
class History:
    """A tenant of the original, and what was seen of it after each change."""

    folder: Path
    original: Original
    world: World
    seen: list[Seen] = field(default_factory=list)

    @property
    def tenant(self) -> Tenant:
        return self.world.tenant


def _seal(ports: Ports, tenant: Tenant) -> None:
    sealing.extend(ports, tenant.id)


def _journal(ports: Ports, tenant: Tenant) -> None:
    Journals().catch_up(ports, tenant.id)


def _repeatable(ports: Ports, tenant: Tenant) -> None:
    number = ports.new_id("t")
    request = Request.of(tenant.operator, method="POST", path="/v1/x", key=number, body=b"{}")
    changes.create.once(ports, tenant.operator, request, warrant_id=f"svc_wrt_{number}", reason="r")


def _change(world: World, random: Random) -> None:
    """One change of any kind, or a publication."""
    ports, tenant = world.ports, world.tenant
    kind = random.randrange(10)
    if kind < _STEPS:
        STEPS[random.choice(list(STEPS))](world, random.randrange(6))
    elif kind < _MUTATIONS:
        _mutate(world, random.choice(CASES))
    else:
        random.choice([_seal, _journal, _repeatable])(ports, tenant)


# Of ten changes.
_STEPS: Final = 4
_MUTATIONS: Final = 7


def _mutate(world: World, case: Case) -> None:
    with suppress(RequestError):
        case.run(world.ports, world.tenant, case.prepare(world.ports, world.tenant))


def lived(folder: Path, seed: int, number: int) -> History:
    """A history of so many changes, one of them given, and a client that followed the feed."""
    random = Random(seed)
    clock = Clock()
    original = Original.of(embedded(folder, clock))
    history = History(folder, original, histories.inhabited(original.ports, clock))
    client = Follower(history.tenant)
    ticked = clock()
    for each in range(number):
        if each == number // 2:
            _mutate(history.world, CASES[seed % len(CASES)])
        _change(history.world, random)
        clock.advance(seconds=random.randrange(20))
        if clock() - ticked >= timedelta(minutes=1):
            ticked = clock()
            assert not publication.publish_due(original.ports).failed
        history.seen.append(_seen(history, client))
    return history


def _seen(history: History, client: Follower) -> Seen:
    ports, tenant_id = history.world.ports, history.tenant.id
    state = client.poll(ports).state
    assert state is not None
    head, sealed = in_force.head(ports, tenant_id), log.head(ports, tenant_id)
    return Seen(
        len(history.original.updates),
        ports.now(),
        head,
        current(ports, tenant_id).sequence,
        sealed.generation if sealed else 0,
        state,
    )


def assert_taken_over(copy: Ports, history: History, seen: Seen, before: set[str]) -> None:
    tenant = history.tenant
    listed = set(tenant.published(copy).revoked_ids)
    gone = {each for each in before - listed if not has_ended(copy, tenant, each)}
    assert not gone
    assert all(tenant.is_revoked(copy, each) for each in before)
    head = in_force.head(copy, tenant.id)
    assert head.version > seen.head.version
    assert head.issued_at >= seen.head.issued_at
    assert current(copy, tenant.id).sequence > seen.sequence
    sealed = log.head(copy, tenant.id)
    assert sealed is not None
    assert sealed.generation > seen.generation
    client = Follower(tenant, seen.client).poll(copy)
    assert client.refuses == listed
    found = [each for each in doctor.examine(copy) if "docs/fleet.md" not in each.remedy]
    assert found == []
    # Those of authorizers are corrected when one registers.
    tenant._check_revocations(copy)
    tenant._check_api_keys(copy)
    tenant._check_service_accounts(copy)
    tenant._check_signing_keys(copy)
    tenant._check_webhooks(copy)


def has_ended(ports: Ports, tenant: Tenant, warrant_id: str) -> bool:
    end = Standing.of(ports.store.get(warrant_address(tenant.id, warrant_id))).end
    return end is not None and end < ports.now()


def failed_over(folder: Path, history: History, seen: Seen, random: Random) -> None:
    """Stop the copy somewhere, let it go on, and then let the rest arrive."""
    updates = history.original.updates[: seen.updates]
    created = history.seen[0].updates
    late = min(len(updates) - created, int(random.choice([3, 10, 30, 100]) * random.random() + 1))
    with copied(folder, history, seen) as copy:
        put(copy, arrived(updates, random, late=late))
        before = revoked_here(copy, history.tenant)
        noted = Original.of(copy)
        taken_over(noted.ports, history)
        assert_taken_over(copy, history, seen, before)
        if random.random() < _THEN_THE_REST:
            written = {each.place for each in noted.updates}
            # Of two regions that write an item, the later write stays.
            put(copy, {place: now for place, now in updates if place not in written})
            before = revoked_here(copy, history.tenant)
            taken_over(copy, history)
            assert_taken_over(copy, history, seen, before)


_THEN_THE_REST: Final = 0.1


@contextmanager
def copied(folder: Path, history: History, seen: Seen) -> Iterator[Ports]:
    """An empty store that opens the seals of the original, at the time when that was lost."""
    folder.mkdir()
    shutil.copy(history.folder / "master.key", folder)
    ports = embedded(folder, Clock(seen.moment))
    try:
        yield ports
    finally:
        close(ports)


def taken_over(copy: Ports, history: History) -> None:
    """What the operator does, and then the functions."""
    done = failover.recover(copy)
    if done.failed:
        # The list was signed by the successor of a stolen key, which has no statement by that one.
        assert "--signer" in str(done.failed["acme"])
        rows = history.world.ports.store.query(signers(history.tenant.id))
        trusted = [ListSigner.from_item(row.item).public_bytes for row in rows]
        done = failover.recover(copy, trusted=trusted)
        assert not done.failed
    assert not publication.publish_due(copy).failed
    sealing.sweep(copy, history.tenant.id)


_CHANGES: Final = 20
_CUTS: Final = 20
_HISTORIES: Final = 50


def test_the_histories_have_every_mutation() -> None:
    """F643: The histories have every kind of change."""
    assert len(CASES) <= _HISTORIES


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, _HISTORIES))]
)
def test_a_copy_goes_on_wherever_it_was_cut(tmp_path: Path, seed: int) -> None:
    """OPS-24, F643a: A copy that got any of the last items and blobs goes on, and loses nothing.

    Each revocation that arrived is in its list and its answers, versions and sequences exceed all
    that the original served, a client that followed the original follows the copy, and the doctor
    finds nothing. So it is when the rest arrives afterwards; then no revocation is missing.
    """
    (tmp_path / "original").mkdir()
    history = lived(tmp_path / "original", seed, _CHANGES)
    for number in range(_CUTS):
        random, folder = Random(f"{seed} {number}"), tmp_path / f"copy-{number}"
        failed_over(folder, history, random.choice(history.seen[1:]), random)
        shutil.rmtree(folder)


@dataclass(frozen=True)
class Pair:
    """An original with a tenant, and its copy, which has all of that."""

    original: Original
    copy: Ports
    tenant: Tenant

    def copy_only(self, kept: Callable[[Address], bool], change: Callable[[Ports], object]) -> None:
        """Change the original; of the items that the change writes, only some arrive."""
        before = len(self.original.updates)
        change(self.original.ports)
        news = self.original.updates[before:]
        put(self.copy, {p: now for p, now in news if isinstance(p, Address) and kept(p)})


@pytest.fixture
def pair(tmp_path: Path, clock: Clock) -> Iterator[Pair]:
    for name in ("original", "copy"):
        (tmp_path / name).mkdir()
    original = Original.of(embedded(tmp_path / "original", clock))
    shutil.copy(tmp_path / "original" / "master.key", tmp_path / "copy")
    copy = in_memory(tmp_path / "copy", clock)
    tenant = Tenant.create(original.ports)
    put(copy, dict(original.updates))
    yield Pair(original, copy, tenant)
    close(copy)


PARTS: dict[str, Callable[[Address], bool]] = {
    "standing": lambda at: "#warrant#" in at.pk,
    "entry in its shard": lambda at: "#revoked#" in at.pk,
    "record": lambda at: "#revocations" in at.pk,
    "audit entry": lambda at: at.table is Table.AUDIT,
    "mark": lambda at: "#srl-changed" in at.pk,
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_each_part_of_a_revocation_revokes(pair: Pair, part: Callable[[Address], bool]) -> None:
    """OPS-24, F643b: A revocation of which any one item arrived is in force, but for its mark."""
    pair.copy_only(part, lambda ports: pair.tenant.revoke(ports, "svc_wrt_a"))
    assert not failover.recover(pair.copy).failed
    is_known = part is not PARTS["mark"]
    assert pair.tenant.is_revoked(pair.copy, "svc_wrt_a") is is_known
    assert pair.tenant.published(pair.copy).revoked_ids == ["svc_wrt_a"] * is_known
    assert list(doctor.examine(pair.copy)) == []


@pytest.mark.parametrize("part", ["#revoked-keys", "#keys", "#srl-changed-signers", "audit"])
def test_each_part_of_a_key_s_revocation_revokes(pair: Pair, part: str) -> None:
    """OPS-24, F643c: A revocation of a signing key of which any one item arrived is in force."""
    key = pair.tenant.key(pair.original.ports)
    pair.tenant.sign(pair.original.ports, key, "svc_wrt_a")
    put(pair.copy, dict(pair.original.updates))

    def is_part(at: Address) -> bool:
        return at.table is Table.AUDIT if part == "audit" else at.pk.endswith(part)

    pair.copy_only(is_part, lambda ports: pair.tenant.revoke_key(ports, key))
    assert not failover.recover(pair.copy).failed
    assert pair.tenant.status(pair.copy, key) is KeyStatus.REVOKED
    assert pair.tenant.published(pair.copy).revoked_ids == ["svc_wrt_a"]
    assert list(doctor.examine(pair.copy)) == []


@pytest.mark.parametrize("part", ["record", "credential", "note", "audit"])
def test_each_part_of_an_api_key_s_revocation_revokes(pair: Pair, part: str) -> None:
    """OPS-24, F643d: An API key of whose revocation any one item arrived is not accepted."""
    created = pair.tenant.api_key(pair.original.ports)
    put(pair.copy, dict(pair.original.updates))
    digest = created.api_key.digest
    places = {
        "record": lambda at: at == created.api_key.address,
        "credential": lambda at: at == api_keys.credential_address(digest),
        "note": lambda at: at == api_keys.revocation_note_address(digest),
        "audit": lambda at: at.table is Table.AUDIT,
    }
    pair.copy_only(
        places[part],
        lambda ports: key_operations.revoke(ports, pair.tenant.operator, key_id=created.api_key.id),
    )
    assert not failover.recover(pair.copy).failed
    assert not opens(pair.copy, created)
    assert list(doctor.examine(pair.copy)) == []


def test_what_never_arrived_is_exceeded(pair: Pair) -> None:
    """OPS-24, F643e: Lists, feed and sealed log exceed those of which nothing arrived."""
    tenant, original = pair.tenant, pair.original.ports
    for number in range(3):
        tenant.revoke(original, f"svc_wrt_{number}")
        tenant.regenerate(original)
    sealing.extend(original, tenant.id)
    failover.recover(pair.copy)
    head, sealed = in_force.head(pair.copy, tenant.id), log.head(pair.copy, tenant.id)
    assert head.version > in_force.head(original, tenant.id).version
    assert current(pair.copy, tenant.id).sequence > current(original, tenant.id).sequence
    assert sealed is not None
    assert sealed.generation > 1


def test_a_key_that_nobody_could_revoke_is_not_accepted(pair: Pair) -> None:
    """F644a: A credential whose API key did not arrive is removed: no list has it."""
    made: list[Created] = []
    pair.copy_only(
        lambda at: at.pk.startswith("api-key#"),
        lambda ports: made.append(pair.tenant.api_key(ports)),
    )
    assert opens(pair.copy, made[0])
    failover.recover(pair.copy)
    assert not opens(pair.copy, made[0])


def test_a_repeated_request_is_done_again(pair: Pair) -> None:
    """F644b, API-32: A request whose outcome alone arrived is done when it is repeated."""
    request = Request.of(pair.tenant.operator, method="POST", path="/", key="k", body=b"{}")

    def ask(ports: Ports) -> object:
        return changes.create.once(
            ports, pair.tenant.operator, request, warrant_id="svc_wrt_a", reason="stolen"
        )

    pair.copy_only(lambda at: "#once#" in at.pk, ask)
    failover.recover(pair.copy)
    ask(pair.copy)
    assert pair.tenant.is_revoked(pair.copy, "svc_wrt_a")


def test_a_tenant_that_arrived_in_part_stops_no_other_one(pair: Pair) -> None:
    """F645a: A tenant that cannot be recovered is named, and all others are recovered."""
    pair.copy_only(
        lambda at: at.pk.startswith("tenant") or at.sk == "settings",
        lambda ports: Tenant.create(ports, "globex"),
    )
    done = failover.recover(pair.copy)
    assert set(done.recovered) == {"acme"}
    assert set(done.failed) == {"globex"}


def test_a_tenant_that_is_not_in_the_directory_is_recovered(pair: Pair) -> None:
    """F645b: A tenant whose entry in the directory did not arrive is recovered too."""
    pair.copy_only(lambda at: at.pk != "tenants", lambda ports: Tenant.create(ports, "globex"))
    put(pair.copy, {p: now for p, now in pair.original.updates if isinstance(p, str)})
    assert set(failover.recover(pair.copy).recovered) == {"acme", "globex"}


def test_stopped_anywhere_it_may_be_repeated(pair: Pair) -> None:
    """F646a: Wherever a failover dies, the next one ends well, and nothing is lost."""
    for warrant_id, part in (("svc_wrt_a", "standing"), ("svc_wrt_b", "entry in its shard")):
        pair.copy_only(PARTS[part], partial(pair.tenant.revoke, warrant_id=warrant_id))
    start = Start(pair.copy)
    rehearsal = Script()
    failover.recover(scripted(pair.copy, rehearsal))
    steps = [step for step, verb in enumerate(rehearsal.calls) if verb in ("write", "put")]
    for step in steps:
        start.restore()
        # It may take a few calls less than the rehearsal, since identifiers are random.
        with suppress(Crash):
            failover.recover(scripted(pair.copy, Script(after={step: raises(Crash())})))
        assert not failover.recover(pair.copy).failed
        assert len(pair.tenant.published(pair.copy).revoked_ids) == 2
        assert list(doctor.examine(pair.copy)) == []


def test_the_last_change_that_arrived(pair: Pair) -> None:
    """OPS-24, F647a: The newest entry that arrived is named, not one of the failover itself."""
    pair.tenant.revoke(pair.original.ports, "svc_wrt_a")
    caller = replace(pair.tenant.operator, identity="a@acme.svc")
    changes.create(pair.original.ports, caller, warrant_id="svc_wrt_b", reason="r")
    put(pair.copy, dict(pair.original.updates))
    failover.recover(pair.copy)
    found = failover.newest_arrived(pair.copy, pair.tenant.id)
    assert found is not None
    assert found.details["warrant_id"] == "svc_wrt_b"
