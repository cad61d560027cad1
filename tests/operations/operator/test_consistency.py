"""Half a transaction, as a backup of DynamoDB may hold it: found, and repaired to the safe side."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from shared.model import api_keys as api_key_model
from shared.model import feed as feed_model
from shared.model import revocations as revocation_model
from shared.model import revocations as signer_model
from shared.model import signing_keys as key_model
from shared.model import warrants
from shared.model.callers import Scope
from shared.model.lists import schedule as srl_schedule
from shared.model.lists import tombstones
from shared.model.lists.content import versions
from shared.model.lists.head import SrlHead
from shared.model.signing_keys import KeyStatus, SigningKey
from shared.operations.access import api_keys
from shared.operations.base import operation, tenants
from shared.operations.base.operation import settle
from shared.operations.changes import key_revocation, srl
from shared.operations.lists import in_force, publication
from shared.operations.operator import consistency, doctor, onboarding
from shared.ports import Ports
from shared.ports.store import Address, Change, Check, Delete, Expect, Put, Table
from tests.kit.faults import Script, meeting, scripted
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant, item_at
from tests.kit.worlds import Clock
from tests.operations.mutations import CASES, Case
from tests.world.explore import Start, in_memory

pytestmark = pytest.mark.usefixtures("at_once", "few_partitions")


class Torn(Intercepted):
    """A store of which one write loses one of its changes; `missing` says which, from 0.

    It is write number `of`, from 1. `lost` is what no later write has stored after all.
    """

    def __init__(self, ports: Ports, missing: int | None, of: int) -> None:
        super().__init__(ports.store)
        self._missing, self._of = missing, of
        self.lost: list[Change] = []
        self.written: Sequence[Change] = []
        self.writes = 0

    def write(self, *changes: Change) -> None:
        effective = [each for each in changes if not isinstance(each, Check)]
        self.written = effective
        self.writes += 1
        stored = {each.address for each in effective if isinstance(each, Put)}
        self.lost = [each for each in self.lost if each.address not in stored]
        is_torn = self._missing is not None and self.writes == self._of
        lost = effective[self._missing :][:1] if is_torn else []
        self.lost += lost
        self.inner.write(*(each for each in changes if each not in lost))


def torn(ports: Ports, missing: int | None, *, of: int = 1) -> tuple[Ports, Torn]:
    store = Torn(ports, missing, of)
    return replace(ports, store=store), store


def _owned_key(ports: Ports, tenant: Tenant) -> str:
    account = tenant.account(ports, "ci")
    created = tenant.api_key(ports, Scope.READ_ONLY, account=account)
    return created.api_key.id


def _family(ports: Ports, tenant: Tenant) -> str:
    """A key that signed, with a child that signed."""
    root = tenant.key(ports)
    for key in (root, tenant.key(ports, root)):
        tenant.sign(ports, key)
    return root.id


def _revoke_family(ports: Ports, tenant: Tenant, key_id: str) -> object:
    return key_revocation.revoke(ports, tenant.operator, key_id=key_id, reason="lost", cascade=True)


REGENERATE = "srl.regenerate"
MORE = [
    Case("api_key.delete", _owned_key, lambda p, t, i: api_keys.delete(p, t.operator, key_id=i)),
    Case("key.revoke", _family, _revoke_family),
    Case(REGENERATE, _family, lambda p, t, _: srl.regenerate(p, t.operator)),
]
# The doctor does not compare what is stored of authorizers, webhooks and identities, because no
# warrant depends on it: a heartbeat registers again what is gone (FLEET-5), what remains is counted
# daily (FLEET-9), a webhook that is gone is missing from the list of webhooks, and a session that
# lacks an item is refused (IDENTITY-5). A status list that lacks one gives out nothing, and after a
# restore no other does (TOKEN-6).
_APART = ("authorizer.", "identity_provider.", "person.", "session.", "status_list.", "webhook.")
ALL = [case for case in (*CASES, *MORE) if not case.action.startswith(_APART)]
_EACH = pytest.mark.parametrize(
    "case", ALL, ids=[f"{case.action}-{case.prepare.__name__}" for case in ALL]
)


_ALONE = ("settings", "access", "protected-acts")


def _harmless(case: Case, tenant: Tenant, change: Change, said: set[str]) -> bool:
    """What need not be found: it only informs, or the next run makes it good."""
    pk = change.address.pk
    return (
        change.address.table is Table.AUDIT
        # The entry of a list in the history of lists.
        or pk == versions(tenant.id).pk
        # The note on a revoked key only tells its holder.
        or (pk.startswith("api-key#") and change.address.sk == "revoked")
        # What was deleted leaves nothing else that could be wrong.
        or pk == tombstones.deleted_partition(tenant.id).pk
        # The index of a batch. Without it a warrant stays revoked that was to be taken back.
        or pk.startswith(f"{tenant.id}#batch#")
        # A mark on the tenant besides that on the warrant, for a publication that comes anyway.
        or (pk.startswith("srl-marks#") and isinstance(change, Put))
        # The turn of a list that is no longer in force, at which the schedule finds nothing due.
        or (pk in {"srl-turns", "srl-issues"} and isinstance(change, Delete))
        # The next list has its signers beside it, whenever it comes.
        or (
            change.address == tombstones.counter_address(tenant.id)
            and case.action.startswith("srl.")
        )
        # The write has a mark on the tenant too, or new keys have, so the schedule looks and finds
        # a list due.
        or (
            change.address == feed_model.head_address(tenant.id)
            and (case.action != REGENERATE or case.prepare.__name__ == "_family")
        )
        # The break after a theft, which the base in the same write covers: clients begin with that.
        or (case.action == "srl.revoke_key" and _is_entry(tenant, change.address))
        # A mark on signers that signed nothing.
        or (change.address.pk == srl_schedule.signers_marks(tenant.id).pk and not said)
        # Settings, roles, protected actions, or an approval, that stay as they were.
        or change.address in {Address(Table.KEYS, tenant.id, each) for each in _ALONE}
        or pk == f"{tenant.id}#approvals"
    )


def _is_entry(tenant: Tenant, address: Address) -> bool:
    head = feed_model.head_address(tenant.id)
    return address.pk == head.pk and address != head


def said_to_be_revoked(ports: Ports, tenant: Tenant) -> set[str]:
    """The warrants that a record, a shard, a standing or the marker of a key tells of."""
    store, said = ports.store, set[str]()
    for shard in revocation_model.shards(tenant.id):
        said |= {e.sk for e in store.query(shard, after="svc_wrt_")}
    for partition in revocation_model.records(tenant.id):
        said |= {str(e.item["warrant_id"]) for e in store.query(partition)}
    marked = {e.sk for e in store.query(signer_model.markers(tenant.id))}
    keys = [SigningKey.from_item(e.item) for e in store.query(key_model.keys(tenant.id))]
    for key in keys:
        if str(key.signer) in marked or key.status is KeyStatus.REVOKED:
            for entry in store.query(warrants.signed_by(tenant.id, key.signer.key_id)):
                if key.signer.key_version in (None, entry.item["key_version"]):
                    said.add(str(entry.item["warrant_id"]))
    changed = srl_schedule.warrant_marks(tenant.id)
    known = [e.sk for partition in changed for e in store.query(partition)]
    for warrant_id in known:
        item = store.get(warrants.warrant_address(tenant.id, warrant_id)) or {}
        said |= {warrant_id} if item.get("revocation_id") else set()
    return said


@pytest.fixture
def ports(tmp_path: Path, clock: Clock) -> Ports:
    """In memory, so that they can be put back after each step."""
    return in_memory(tmp_path, clock)


def problems(ports: Ports, tenant: Tenant) -> list[str]:
    return [each.problem for each in consistency.examine(ports, tenant.id)]


def half_done(ports: Ports, case: Case) -> Iterator[tuple[Tenant, list[Change]]]:
    """A tenant that lacks another change of the mutation each time, and what that was."""
    tenant = Tenant.create(ports)
    prepared = case.prepare(ports, tenant)
    # A list follows from the one before, so it makes a difference what that one has.
    publication.publish(ports, tenant.operator, prune=True)
    start = Start(ports)
    through, store = torn(ports, None)
    case.run(through, tenant, prepared)
    last = store.writes
    for missing in range(len(store.written)):
        start.restore()
        through, store = torn(ports, missing, of=last)
        case.run(through, tenant, prepared)
        yield tenant, store.lost


@pytest.mark.slow_on("_busy", "_family", "_superseded", "pending_signer")
@_EACH
def test_each_item_of_each_mutation_may_be_missing(ports: Ports, case: Case) -> None:
    """F58a, S6: The doctor finds a partly stored write and repairs it; revoked stays revoked."""
    for tenant, lost in half_done(ports, case):
        said = said_to_be_revoked(ports, tenant)
        found = problems(ports, tenant)
        assert found or all(_harmless(case, tenant, each, said) for each in lost), lost
        repaired = consistency.repair(ports, tenant.operator)
        assert bool(repaired) == bool(found), lost
        assert_whole(ports, tenant, said)


def assert_whole(ports: Ports, tenant: Tenant, said: set[str]) -> None:
    """All agrees, what was said to be revoked is so for check and list, and work goes on."""
    assert all(tenant.is_revoked(ports, each) for each in said)
    settle(lambda: publication.publish(ports, tenant.operator))
    assert set(tenant.published(ports).revoked_ids) >= said
    assert problems(ports, tenant) == []
    tenant.check_totals(ports)
    for warrant_id in said:
        tenant.revoke(ports, warrant_id)
    tenant.revoke(ports, "svc_wrt_after")
    tenant.check_totals(ports)


def test_no_note_is_kept_of_a_deleted_key(ports: Ports, tenant: Tenant) -> None:
    """F606c: The doctor finds a note on a revoked key that was deleted since, and removes it."""
    create = partial(api_keys.create, ports, tenant.operator, scopes=(Scope.SIGNER,))
    kept, gone = (create(name=name).api_key for name in ("kept", "gone"))
    for key in (kept, gone):
        api_keys.revoke(ports, tenant.operator, key_id=key.id)
    note, left = (api_key_model.revocation_note_address(key.digest) for key in (kept, gone))
    item = item_at(ports, left)
    api_keys.delete(ports, tenant.operator, key_id=gone.id)
    assert ports.store.get(left) is None
    ports.store.write(Put(left, item, Expect.ABSENT))
    (problem,) = problems(ports, tenant)
    assert gone.id in problem
    consistency.repair(ports, tenant.operator)
    assert problems(ports, tenant) == []
    assert ports.store.get(left) is None
    assert ports.store.get(note) is not None


@pytest.mark.parametrize("said", [None, "2030-01-01T00:00:00Z"])
def test_an_end_that_lists_have_otherwise_is_repaired(
    ports: Ports, tenant: Tenant, said: str | None
) -> None:
    """OPS-8, F568h: The doctor finds an end in a shard that differs from that of the warrant."""
    tenant.revoke(ports, "svc_wrt_a")
    tenant.regenerate(ports)
    standing = warrants.warrant_address(tenant.id, "svc_wrt_a")
    item = item_at(ports, standing)
    shard = revocation_model.shard_of(tenant.id, "svc_wrt_a").address("svc_wrt_a")
    if said:
        ports.store.write(Put(standing, {**item, "said_to_end_at": said}, Expect.PRESENT))
    else:
        false = {"ends_at": "2026-01-01T00:00:00Z"}
        ports.store.write(Put(shard, false, Expect.PRESENT))
    assert [each.remedy for each in doctor.examine(ports)] == ["run: rescind recover acme"]
    assert len(consistency.repair(ports, tenant.operator)) == 1
    assert ports.store.get(shard) == ({"ends_at": said} if said else {})
    assert list(doctor.examine(ports)) == []
    tenant.check_totals(ports)


def test_a_lost_record_comes_back_with_time_and_reason(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """F58: of a record that was lost, what check still knows is kept, and it can be deleted."""
    record_id = tenant.revoke(ports, "svc_wrt_a")
    address = revocation_model.record_address(tenant.id, record_id)
    lost = item_at(ports, address)
    ports.store.write(Delete(address, Expect.PRESENT))
    clock.advance(hours=1)
    consistency.repair(ports, tenant.operator)
    assert ports.store.get(address) == {**lost, "created_by": "system+repair@acme.svc"}
    tenant.unrevoke(ports, record_id)
    assert not tenant.is_revoked(ports, "svc_wrt_a")
    tenant.check_totals(ports)


def test_a_repair_that_shows_leaves_its_entry(ports: Ports, tenant: Tenant) -> None:
    """F58: what a repair revokes is in the audit log, under the operator's name."""
    tenant.revoke(ports, "svc_wrt_a")
    ports.store.write(Delete(warrants.warrant_address(tenant.id, "svc_wrt_a"), Expect.PRESENT))
    consistency.repair(ports, tenant.operator)
    assert tenant.actions(ports).count("revocation.create") == 2


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_tenant_that_is_half_created(ports: Ports, stride: int) -> None:
    """F58: whatever is missing of a tenant's creation is named, and no other tenant is touched."""
    other = Tenant.create(ports, "other")
    through, store = torn(ports, None)
    onboarding.create_tenant(through, handle="rehearsal")
    for missing in range(0, len(store.written), stride):
        through, store = torn(ports, missing)
        settings, _ = onboarding.create_tenant(through, handle=f"t{missing}")
        assert {each.subject for each in doctor.examine(ports)} <= {settings.handle}, store.lost
        operator = onboarding.operator(ports, handle=settings.handle)
        consistency.repair(ports, operator)
        settle(partial(publication.publish, ports, operator))
        assert list(consistency.examine(ports, settings.tenant_id)) == [], store.lost
        assert list(doctor.examine(ports)) == [], store.lost
        assert tenants.find(ports, settings.handle).tenant_id == settings.tenant_id
    assert consistency.repair(ports, other.operator) == []


@pytest.mark.parametrize("stride", [23, pytest.param(4, marks=pytest.mark.slow)])
def test_a_write_in_flight_is_no_finding(ports: Ports, tenant: Tenant, stride: int) -> None:
    """F58: whatever is written between any two reads is not taken for half a transaction."""
    key = tenant.key(ports)
    rehearsal = Script()
    assert list(consistency.examine(scripted(ports, rehearsal), tenant.id)) == []
    numbers = count()

    def work() -> None:
        number = next(numbers)
        tenant.revoke(ports, f"svc_wrt_{number}")
        tenant.sign(ports, key)
        revoked = tenant.revoke(ports, f"svc_wrt_back-{number}")
        tenant.unrevoke(ports, revoked)
        created = tenant.api_key(ports, Scope.READ_ONLY)
        api_keys.delete(ports, tenant.operator, key_id=created.api_key.id)
        tenant.revoke_key(ports, tenant.key(ports))
        if number % 3 == 0:
            tenant.regenerate(ports)

    for step in range(0, len(rehearsal.calls), stride):
        through = meeting(ports, step, work)
        assert list(consistency.examine(through, tenant.id)) == []
        assert consistency.repair(meeting(ports, step, work), tenant.operator) == []
    tenant.check_totals(ports)


def test_items_that_become_visible_one_by_one(
    ports: Ports, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F58b: The doctor does not report or repair a write that is still in flight."""
    for missing in range(6):
        through, store = torn(ports, missing)
        tenant.revoke(through, f"svc_wrt_{missing}")
        waited: list[float] = []

        def finish(_seconds: float, store: Torn = store, waited: list[float] = waited) -> None:
            if not waited:
                ports.store.write(*store.lost)
            waited.append(_seconds)

        monkeypatch.setattr(operation, "PACING", operation.RetryPacing(pause=0, sleep=finish))
        assert problems(ports, tenant) == []
        assert waited or _harmless(CASES[0], tenant, store.lost[0], set())
        if not waited:
            finish(0)
    tenant.check_totals(ports)


def test_a_publication_while_a_turn_is_repaired(ports: Ports, clock: Clock, tenant: Tenant) -> None:
    """F317a: A repair gives no turn in the schedule to a list that was replaced meanwhile."""
    lost = srl_schedule.PublicationDeadline.after_publication(
        in_force.read_srl_head(ports, tenant.id), tenant.id
    )
    ports.store.write(Delete(lost.address, Expect.PRESENT))
    clock.advance(minutes=1)
    published: list[SrlHead] = []

    def meanwhile(call: Call) -> Any:
        if call.verb == "write" and not published:
            published.append(publication.publish(ports, tenant.operator))
        return call()

    store = Intercepted(ports.store, meanwhile)
    consistency.repair(replace(ports, store=store), tenant.operator)
    (head,) = published
    turns = [row.sk for row in ports.store.query(srl_schedule.TURNS)]
    assert turns == [srl_schedule.PublicationDeadline.after_publication(head, tenant.id).address.sk]
