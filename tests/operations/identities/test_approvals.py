"""Approvals when two act at once, and when the outcome of a write is unknown (APPROVAL-2)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from functions.transparency_log import sealing
from shared.errors import ApprovalRequired, InvalidState, NotFound, TooFewApprovers, Unavailable
from shared.model.callers import ApprovalHeader, Caller
from shared.model.identities.approvals import (
    ApprovalStatus,
    ProtectedAction,
    ProtectedActions,
    UnrevokeUsage,
    protected_address,
    restores_address,
)
from shared.model.identities.people import Person, PersonStatus
from shared.model.identities.people import people as people_of
from shared.operations.changes import revocations
from shared.operations.identities import approvals, people, protected_acts
from shared.operations.operator import removal, tenants
from shared.ports import Ports
from shared.ports.store import Expect, Put, VersionIs
from tests.kit.faults import Script, broken_at, scripted
from tests.kit.identities import bound, signed_in
from tests.kit.log_lines import lines, metrics
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.mutations import person
from tests.operations.races import races


def protect(
    ports: Ports, tenant: Tenant, *actions: ProtectedAction, above: int | None = None
) -> None:
    item = ProtectedActions(actions, above, version=1).to_item()
    ports.store.write(Put(protected_address(tenant.id), item, Expect.ABSENT))


def header(**said: Any) -> ApprovalHeader:
    return ApprovalHeader("DELETE", "/v1/revocations/x", "0" * 64, **said)


@dataclass(frozen=True)
class Scene:
    """A tenant that protects actions, what was revoked, and an approval for Alice."""

    tenant: Tenant
    alice: Caller
    bob: Caller
    revoked: tuple[str, ...]
    approval: str = ""

    def remaining(self, ports: Ports) -> int:
        return approvals.get(ports, self.bob, approval_id=self.approval).remaining

    def left(self, ports: Ports) -> int:
        """How many are still revoked."""
        return revocations.page(ports, self.tenant.operator, before=None, limit=100).total or 0


def scene(ports: Ports, number: int, *actions: ProtectedAction, above: int | None = None) -> Scene:
    tenant = Tenant.another(ports)
    revoked = tuple(tenant.revoke(ports, f"svc_wrt_{each}") for each in range(number))
    protect(ports, tenant, *actions, above=above)
    return Scene(tenant, person(ports, tenant, "alice"), person(ports, tenant, "bob"), revoked)


def approved(ports: Ports, made: Scene, count: int, subject: str = "") -> Scene:
    """The same, with an approval to take `count` revocations back."""
    asked = approvals.create_request(
        ports,
        made.alice,
        ProtectedAction.UNREVOKE,
        subject or made.revoked[0],
        reason="r",
        count=count,
        details={},
    )
    approval = asked.id
    approvals.approve(ports, made.bob, approval_id=approval)
    using = replace(made.alice, approval=header(id=approval))
    return replace(made, alice=using, approval=approval)


def unrevoke(ports: Ports, made: Scene, at: int = 0, *, by: Caller | None = None) -> str:
    revocations.delete(ports, by or made.alice, revocation_id=made.revoked[at])
    return "taken back"


def test_two_at_once_under_a_limit_of_one(ports: Ports, at_once: None) -> None:
    """APPROVAL-1, F1288a: Of two who take back at once under a limit of one, one does.

    The second runs between any two steps of the first.
    """
    found = races(
        ports,
        lambda ports: scene(ports, 2, above=1),
        unrevoke,
        lambda ports, made: unrevoke(ports, made, 1, by=made.bob),
    )
    for race in found:
        both = (race.first, race.second)
        assert both.count("taken back") == 1
        assert isinstance(next(each for each in both if each != "taken back"), ApprovalRequired)
        assert race.world.left(ports) == 1


def test_an_approval_used_twice_at_once(ports: Ports, at_once: None) -> None:
    """APPROVAL-2, F1288b: Of two uses of one approval at once, one succeeds."""
    for race in races(ports, lambda p: approved(p, scene(p, 1, above=0), 1), unrevoke, unrevoke):
        both = (race.first, race.second)
        assert both.count("taken back") == 1
        other = next(each for each in both if each != "taken back")
        assert isinstance(other, NotFound | ApprovalRequired)
        assert (race.world.left(ports), race.world.remaining(ports)) == (0, 0)


def test_a_rejection_while_it_is_used(ports: Ports, at_once: None) -> None:
    """APPROVAL-3, F1288c: A use either comes before the rejection, or is refused."""

    def reject(ports: Ports, made: Scene) -> object:
        return approvals.reject(ports, made.bob, approval_id=made.approval).status

    for race in races(ports, lambda p: approved(p, scene(p, 1, above=0), 1), unrevoke, reject):
        assert race.second is ApprovalStatus.REJECTED
        is_used = race.world.remaining(ports) == 0
        assert is_used is (race.first == "taken back") is (race.world.left(ports) == 0)
        assert is_used or isinstance(race.first, ApprovalRequired)


def test_two_decisions_at_once(ports: Ports, at_once: None) -> None:
    """APPROVAL-3, F1288d: What one person rejects stays rejected, if another approves at once."""

    def make(ports: Ports) -> Scene:
        made = scene(ports, 1, above=0)
        asked = approvals.create_request(
            ports, made.alice, ProtectedAction.UNREVOKE, made.revoked[0], reason="r", details={}
        )
        return replace(made, approval=asked.id)

    def approve(ports: Ports, made: Scene) -> object:
        return approvals.approve(ports, made.bob, approval_id=made.approval).status

    def reject(ports: Ports, made: Scene) -> object:
        carol = person(ports, made.tenant, "carol")
        return approvals.reject(ports, carol, approval_id=made.approval).status

    for race in races(ports, make, approve, reject):
        assert race.second is ApprovalStatus.REJECTED
        assert isinstance(race.first, InvalidState) or race.first is ApprovalStatus.APPROVED
        last = approvals.get(ports, race.world.bob, approval_id=race.world.approval)
        assert last.status is ApprovalStatus.REJECTED


def test_a_use_while_the_approver_is_disabled(ports: Ports, at_once: None) -> None:
    """APPROVAL-5, F2130b: A use either comes before the approver is disabled, or is refused."""

    def disable(ports: Ports, scene: Scene) -> object:
        address = people_of(scene.tenant.id).address(scene.bob.person_id or "")
        bob = Person.from_item(ports.store.get(address) or {})
        ports.store.write(Put(address, bob.disable().to_item(), VersionIs(bob.version)))
        return scene.remaining(ports) == 0

    for race in races(ports, lambda p: approved(p, scene(p, 1, above=0), 1), unrevoke, disable):
        is_used = race.world.remaining(ports) == 0
        assert is_used is race.second, "a write that comes after the disabling is refused"
        assert is_used is (race.first == "taken back") is (race.world.left(ports) == 0)
        assert is_used or isinstance(race.first, ApprovalRequired)


def test_two_approvers_are_disabled_at_once(ports: Ports, at_once: None) -> None:
    """APPROVAL-5, F2131f: Of three approvers, one of two is disabled if both are at once.

    The second runs between any two steps of the first.
    """

    def make(ports: Ports) -> tuple[Scene, list[str]]:
        tenant = Tenant.another(ports)
        provider = bound(ports, tenant.operator)
        found = [signed_in(ports, provider, sub=each).session.owner for each in "abc"]
        protect(ports, tenant, ProtectedAction.REMOVE_TENANT)
        alice = replace(person(ports, tenant, "alice"), owner_id=found[2])
        return Scene(tenant, alice, alice, ()), found

    def disable(at: int) -> Callable[[Ports, tuple[Scene, list[str]]], object]:
        def run(ports: Ports, made: tuple[Scene, list[str]]) -> object:
            return people.disable(ports, made[0].alice, person_id=made[1][at]).status

        return run

    for race in races(ports, make, disable(0), disable(1)):
        both = [race.first, race.second]
        assert both.count(PersonStatus.DISABLED) == 1
        assert any(isinstance(each, TooFewApprovers) for each in both)


def test_thirty_at_once_under_a_limit_of_twenty(ports: Ports, at_once: None) -> None:
    """APPROVAL-1, F1288e: Thirty who take back at once under a limit of twenty make twenty."""
    made = scene(ports, 30, above=20)

    def one(at: int) -> bool:
        try:
            unrevoke(ports, made, at, by=made.bob)
        except ApprovalRequired:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(one, range(30))) == 20
    assert made.left(ports) == 10


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("is_approved", [False, True])
def test_an_unknown_outcome(ports: Ports, at_once: None, late: bool, is_approved: bool) -> None:
    """APPROVAL-2, F1289a: A write whose answer is lost counts if, and only if, it was applied.

    So the approval, or the number of the hour, has neither more nor less left after any fault.
    """

    def make() -> Scene:
        made = scene(ports, 2, above=0 if is_approved else 1)
        return approved(ports, made, 1) if is_approved else made

    def spent(made: Scene) -> int:
        if is_approved:
            return 1 - made.remaining(ports)
        item = ports.store.get(restores_address(made.tenant.id))
        return UnrevokeUsage.from_item(item).within_hour(ports.now()) if item else 0

    rehearsal = Script()
    unrevoke(scripted(ports, rehearsal), make())
    for step in range(len(rehearsal.calls)):
        made = make()
        with pytest.raises(Unavailable):
            unrevoke(broken_at(ports, step, Unavailable(), late=late), made)
        assert spent(made) == 2 - made.left(ports)
        # It may have been done before.
        with suppress(NotFound):
            unrevoke(ports, made)
        assert (spent(made), made.left(ports)) == (1, 1)


def test_a_clock_that_was_set_back(ports: Ports, clock: Clock) -> None:
    """APPROVAL-1, F1289b: What was taken back in what is now the future counts too."""
    made = scene(ports, 2, above=1)
    unrevoke(ports, made)
    clock.advance(hours=-3)
    with pytest.raises(ApprovalRequired):
        unrevoke(ports, made, 1)


def test_a_removal_needs_a_person(ports: Ports, clock: Clock) -> None:
    """APPROVAL-1, F1287b: A protected tenant is removed only with a person's approval."""
    made = scene(ports, 0, ProtectedAction.REMOVE_TENANT)
    handle = made.tenant.operator.identity.rpartition("@")[2].removesuffix(".svc")
    tenants.delete(ports, handle=handle)
    clock.advance(days=30)
    with pytest.raises(ApprovalRequired):
        removal.remove(ports, handle=handle)
    asked = removal.request(ports, handle=handle, reason="gone")
    with pytest.raises(ApprovalRequired):
        removal.remove(ports, handle=handle, approval_id=asked.id)
    approvals.approve(ports, person(ports, made.tenant), approval_id=asked.id)
    assert removal.remove(ports, handle=handle, approval_id=asked.id)


def test_a_removal_that_needs_none(ports: Ports, clock: Clock) -> None:
    """APPROVAL-1, F1287c: Nobody is asked about a removal that is not protected."""
    made = Tenant.create(ports)
    tenants.delete(ports, handle="acme")
    clock.advance(days=30)
    with pytest.raises(InvalidState):
        removal.request(ports, handle="acme", reason="gone")
    assert removal.remove(ports, handle="acme")
    assert not protected_acts.read_protected_actions(ports, made.id).protects


def test_an_override_raises_the_alarm(ports: Ports, caplog: pytest.LogCaptureFixture) -> None:
    """APPROVAL-4, F1287d: The service counts the operator's overrides, for an alarm."""
    made = scene(ports, 1, above=0)
    protected_acts.clear(ports, made.tenant.operator, reason="nobody can sign in")
    assert not protected_acts.read_protected_actions(ports, made.tenant.id).protects
    unrevoke(ports, made, by=made.bob)
    with caplog.at_level("WARNING"):
        sealing.extend(ports, made.tenant.id)
    (line,) = lines(caplog, "the operator overrode approvals")
    assert metrics(line)["ApprovalsOverridden"] == (1, "Count")
