"""Manifests when two apply a part at once, and when a process dies between its writes."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from functions.batches import manifests as unrevoke_manifests
from functions.batches import operations as revocation_batches
from shared.errors import ApprovalRequested, ApprovalRequired, InvalidRequest, Unavailable
from shared.model import unrevoke_manifests as model
from shared.model.audit import audit_log
from shared.model.audit.audit_log import AuditAction, AuditEntry
from shared.model.callers import ApprovalHeader, Caller
from shared.model.identities.approvals import ProtectedAction, ProtectedActions, protected_address
from shared.model.revocation_batches import BatchAction, BatchOutcome, BatchRequest
from shared.model.revocations import Revocation, record_address, shard_number
from shared.model.unrevoke_manifests import UnrevokeManifest
from shared.operations.changes import revocations
from shared.operations.identities import approvals
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.faults import Crash, Script, broken_at, scripted
from tests.kit.tenants import Tenant
from tests.operations.mutations import person
from tests.operations.races import races

# Two writes, as these are of two shards.
NAMES = [f"svc_wrt_{number}" for number in (0, 27, 2, 13)]


@dataclass(frozen=True)
class Scene:
    """A tenant, who acts there, what was revoked, and a manifest of it."""

    tenant: Tenant
    caller: Caller
    revoked: tuple[str, ...]
    manifest: UnrevokeManifest
    approval: str = ""

    def left(self, ports: Ports) -> int:
        """How many warrants are still revoked."""
        return sum(self.tenant.is_revoked(ports, each) for each in NAMES)

    def check(self, ports: Ports, undone: int) -> None:
        """The audit log has each member that was unrevoked once."""
        self.tenant.check_totals(ports)
        rows: Iterator[Any] = (
            AuditEntry.from_item(row.item)
            for each in audit_log.month(self.tenant.id, ports.now())
            for row in ports.store.query(each)
        )
        named = [
            each["id"]
            for entry in rows
            if entry.action is AuditAction.REVOCATION_DELETE_BATCH
            for each in entry.details["revocations"]
        ]
        assert len(named) == len({*named}) == undone

    def remaining(self, ports: Ports) -> int:
        caller = self.tenant.operator
        return approvals.get(ports, caller, approval_id=self.approval).remaining


def scene(ports: Ports) -> Scene:
    tenant = Tenant.another(ports)
    revoked = tuple(tenant.revoke(ports, each) for each in NAMES)
    manifest, _ = unrevoke_manifests.create(ports, tenant.operator, revocation_ids=revoked)
    return Scene(tenant, tenant.operator, revoked, manifest)


def approved(ports: Ports) -> Scene:
    """The same in a tenant that protects it, with an approval for Alice."""
    made = scene(ports)
    policy = ProtectedActions(unrevoke_threshold=0, version=1)
    ports.store.write(Put(protected_address(made.tenant.id), policy.to_item(), Expect.ABSENT))
    alice, bob = person(ports, made.tenant, "alice"), person(ports, made.tenant, "bob")
    header = ApprovalHeader("POST", "/v1/x", "0" * 64, reason="r")
    with pytest.raises(ApprovalRequested) as found:
        apply(ports, replace(made, caller=replace(alice, approval=header)))
    approval = found.value.approval.id
    approvals.approve(ports, bob, approval_id=approval)
    using = replace(alice, approval=replace(header, id=approval))
    return replace(made, caller=using, approval=approval)


def counted(ports: Ports) -> Scene:
    """The same in a tenant that lets four be unrevoked in an hour."""
    made = scene(ports)
    policy = ProtectedActions(unrevoke_threshold=4, version=1)
    ports.store.write(Put(protected_address(made.tenant.id), policy.to_item(), Expect.ABSENT))
    return replace(made, caller=person(ports, made.tenant, "alice"))


def apply(ports: Ports, made: Scene) -> list[BatchOutcome]:
    answer = unrevoke_manifests.apply(
        ports, made.caller, manifest_id=made.manifest.id, number=1, reason="mistake"
    )
    return [each.outcome for each in answer.results]


TAKEN = [BatchOutcome.UNREVOKED] * 4


@pytest.mark.slow_on("approved")
@pytest.mark.parametrize("make", [scene, counted, approved])
def test_a_part_is_applied_twice_at_once(
    ports: Ports, at_once: None, make: Callable[[Ports], Scene]
) -> None:
    """REVOKE-27, F2502a: Two calls for one part both succeed, and each member is undone once.

    The second runs between any two steps of the first; both report what both have done.
    """
    for race in races(ports, make, apply, apply):
        assert race.first == race.second == TAKEN
        race.world.check(ports, 4)
        assert race.world.left(ports) == 0
        if race.world.approval:
            assert race.world.remaining(ports) == 0


def test_an_apply_beside_an_unrevoke(ports: Ports, at_once: None) -> None:
    """REVOKE-27, F2502b: What another call takes back at once is reported as changed, or refused.

    A batch is undone by one of both, and is in the audit log once.
    """

    def unrevoke(ports: Ports, made: Scene) -> object:
        batch = BatchRequest(BatchAction.UNREVOKE, made.revoked[:2], "r", by_revocation=True)
        answer = revocation_batches.apply(ports, made.tenant.operator, batch=batch)
        return [each.outcome for each in answer.results]

    for race in races(ports, scene, apply, unrevoke):
        assert isinstance(race.first, list)
        assert isinstance(race.second, list)
        both = zip(race.first[:2], race.second, strict=True)
        order = sorted(race.world.revoked)
        assert order == [*race.world.revoked]
        assert all({*pair} == {BatchOutcome.UNREVOKED, BatchOutcome.NOT_REVOKED} for pair in both)
        race.world.check(ports, 4)


def test_an_apply_beside_a_revocation(ports: Ports, at_once: None) -> None:
    """REVOKE-27, F2502c: A warrant that is revoked anew at once stays revoked."""

    def again(ports: Ports, made: Scene) -> object:
        revocations.delete(ports, made.tenant.operator, revocation_id=made.revoked[0])
        return made.tenant.revoke(ports, NAMES[0])

    for race in races(ports, scene, apply, again):
        if isinstance(race.second, str):
            assert race.first == [BatchOutcome.NOT_REVOKED, *TAKEN[1:]]
        is_revoked = race.world.tenant.is_revoked(ports, NAMES[0])
        assert is_revoked is isinstance(race.second, str)
        race.world.tenant.check_totals(ports)


@pytest.mark.slow_on("fault0", "counted")
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("make", [scene, counted, approved])
@pytest.mark.parametrize("fault", [Unavailable(), Crash()])
def test_a_part_whose_process_dies(
    ports: Ports,
    at_once: None,
    late: bool,
    make: Callable[[Ports], Scene],
    fault: BaseException,
) -> None:
    """REVOKE-27, F2502d: After a crash at any step, the same call completes the part.

    What remains of an approval is what remains to be undone, after each step.
    """
    rehearsal = Script()
    apply(scripted(ports, rehearsal), make(ports))
    for step in range(len(rehearsal.calls)):
        made = make(ports)
        with suppress(Unavailable, Crash):
            apply(broken_at(ports, step, fault, late=late), made)
        if made.approval:
            assert made.remaining(ports) == made.left(ports)
        assert apply(ports, made) == TAKEN
        made.check(ports, 4)
        assert made.left(ports) == 0


def test_an_approval_that_ends_between_parts(
    ports: Ports, at_once: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """APPROVAL-2, F2502e: A rejection between two parts leaves the rest revoked."""
    monkeypatch.setattr(model, "PART_SIZE", 2)
    made = approved(ports)
    assert apply(ports, made) == TAKEN[:2]
    approvals.reject(ports, person(ports, made.tenant, "bob"), approval_id=made.approval)
    with pytest.raises(ApprovalRequired, match="rejected"):
        unrevoke_manifests.apply(
            ports, made.caller, manifest_id=made.manifest.id, number=2, reason="r"
        )
    assert (made.left(ports), made.remaining(ports)) == (2, 2)


@pytest.mark.slow
def test_an_approval_that_ends_before_a_write(ports: Ports, at_once: None) -> None:
    """APPROVAL-2, F2841a: After a rejection at any step, an apply unrevokes nothing more.

    The call is refused before its first write. Later, the members of the other writes have failed.
    """

    def reject(ports: Ports, made: Scene) -> object:
        bob = person(ports, made.tenant, "bob")
        return approvals.reject(ports, bob, approval_id=made.approval)

    seen = set[int]()
    for race in races(ports, approved, apply, reject):
        left = race.world.left(ports)
        if isinstance(race.first, list):
            assert sorted(race.first) == [BatchOutcome.FAILED] * left + TAKEN[left:]
            seen.add(left)
        else:
            assert isinstance(race.first, ApprovalRequired)
            assert left == 4
        race.world.check(ports, 4 - left)
        assert race.world.remaining(ports) == left
    assert seen == {2, 4}


def test_the_number_of_an_hour_beside_an_apply(ports: Ports, at_once: None) -> None:
    """APPROVAL-1, F2841b: Two calls at once unrevoke no more than an hour may have.

    What the other call took of the number, the first reports as failed.
    """

    def unrevoke(ports: Ports, made: Scene) -> object:
        revoked = made.tenant.revoke(ports, "svc_wrt_other")
        return revocations.delete(ports, made.caller, revocation_id=revoked)

    for race in races(ports, counted, apply, unrevoke):
        left = race.world.left(ports)
        if isinstance(race.first, list):
            assert [each is BatchOutcome.FAILED for each in race.first].count(True) == left
            assert left == int(race.second is None)
        else:
            assert isinstance(race.first, ApprovalRequired)
            assert left == 4
        race.world.tenant.check_totals(ports)


def test_an_approval_of_fewer(ports: Ports, at_once: None) -> None:
    """APPROVAL-2, F2502f: No more members are unrevoked than an approval has left."""
    made = approved(ports)
    caller = made.caller
    asked = approvals.create_request(
        ports, caller, ProtectedAction.UNREVOKE, made.manifest.id, reason="r", count=1, details={}
    )
    approvals.approve(ports, person(ports, made.tenant, "bob"), approval_id=asked.id)
    header = ApprovalHeader("POST", "/v1/x", "0" * 64, id=asked.id)
    fewer = replace(made, caller=replace(caller, approval=header), approval=asked.id)
    # A write may have more members than the approval has left.
    assert [shard_number(each) for each in NAMES] == [14, 14, 10, 10]
    assert sorted(apply(ports, fewer)) == [*[BatchOutcome.FAILED] * 3, BatchOutcome.UNREVOKED]
    assert (fewer.left(ports), fewer.remaining(ports)) == (3, 0)
    fewer.check(ports, 1)


@pytest.mark.slow
def test_the_largest_manifest(ports: Ports) -> None:
    """REVOKE-26, F2503a: A manifest has 50,000 members in 100 parts, and not one more."""
    tenant = Tenant.another(ports)
    now = ports.now()
    ids = [ports.new_id("rev") for _ in range(50_001)]
    puts = [
        Put(
            record_address(tenant.id, each),
            Revocation(each, f"svc_wrt_{number:064}", "r", now, "a@acme.svc").to_item(),
            Expect.ABSENT,
        )
        for number, each in enumerate(ids)
    ]
    for start in range(0, len(puts), 100):
        ports.store.write(*puts[start : start + 100])
    script = Script()
    manifest, missing = unrevoke_manifests.create(
        scripted(ports, script), tenant.operator, revocation_ids=ids[:-1]
    )
    assert (manifest.count, manifest.parts, missing) == (50_000, 100, [])
    items = [each for call in script.made if call.verb == "write" for each in call.arguments]
    assert len(items) == 101
    assert max(len(str(each.item)) for each in items) < 400_000
    for call in script.made:
        if call.verb == "write":
            assert sum(len(str(each.item)) for each in call.arguments) < 4_000_000
    page = unrevoke_manifests.members(
        ports, tenant.operator, manifest_id=manifest.id, before="49990", limit=100
    )
    assert [each.revocation_id for each in page.entries] == sorted(ids[:-1])[49_990:]
    assert page.next_before is None
    with pytest.raises(InvalidRequest, match="50000"):
        unrevoke_manifests.create(ports, tenant.operator, revocation_ids=ids)
