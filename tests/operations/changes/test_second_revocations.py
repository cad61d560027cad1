"""A second revocation while the first one is taken back (APPROVAL-1, REVOKE-9)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from functions.batches import operations as revocation_batches
from shared.errors import ApprovalRequired, InsufficientScope
from shared.model.callers import Caller, Scope
from shared.model.identities.approvals import ProtectedAction, ProtectedActions, protected_address
from shared.model.revocation_batches import BatchAction, BatchOutcome, BatchRequest
from shared.model.tenants import SettingsChange, UnrevokePolicy
from shared.operations.access import tenant_settings
from shared.operations.changes import revocations
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.tenants import Tenant
from tests.operations.mutations import person
from tests.operations.races import races

NAME = "svc_wrt_a"


@dataclass(frozen=True)
class Scene:
    """A tenant, who revoked the warrant there, and who does so second."""

    tenant: Tenant
    first: Caller
    second: Caller
    record: str


def _scene(ports: Ports, tenant: Tenant) -> Scene:
    scopes = (Scope.REVOKER,)
    people = (person(ports, tenant, each) for each in ("mary", "quinn"))
    first, second = (replace(each, scopes=scopes) for each in people)
    record, _ = revocations.create(ports, first, warrant_id=NAME, reason="routine")
    return Scene(tenant, first, second, record.id)


def approving(ports: Ports) -> Scene:
    """One where taking back what others revoked needs an approval."""
    tenant = Tenant.another(ports)
    item = ProtectedActions((ProtectedAction.UNREVOKE_OTHERS,), version=1).to_item()
    ports.store.write(Put(protected_address(tenant.id), item, Expect.ABSENT))
    tenant_settings.update(
        ports, tenant.operator, change=SettingsChange(unrevoke_policy=UnrevokePolicy.ANY)
    )
    return _scene(ports, tenant)


def owning(ports: Ports) -> Scene:
    """One where revokers take back their own revocations alone."""
    tenant = Tenant.another(ports)
    tenant_settings.update(
        ports, tenant.operator, change=SettingsChange(unrevoke_policy=UnrevokePolicy.OWN)
    )
    return _scene(ports, tenant)


def delete(ports: Ports, made: Scene) -> object:
    return revocations.delete(ports, made.first, revocation_id=made.record)


def unrevoke(ports: Ports, made: Scene) -> object:
    batch = BatchRequest(BatchAction.UNREVOKE, (made.record,), "r", by_revocation=True)
    (result,) = revocation_batches.apply(ports, made.first, batch=batch).results
    return result.error or result.outcome


def revoke(ports: Ports, made: Scene) -> object:
    _, is_new = revocations.create(ports, made.second, warrant_id=NAME, reason="INCIDENT")
    return is_new


def revoke_all(ports: Ports, made: Scene) -> object:
    batch = BatchRequest(BatchAction.REVOKE, (NAME,), "INCIDENT")
    (result,) = revocation_batches.apply(ports, made.second, batch=batch).results
    return result.outcome is BatchOutcome.REVOKED


@pytest.mark.parametrize("second", [revoke, revoke_all])
@pytest.mark.parametrize("first", [delete, unrevoke])
@pytest.mark.parametrize("make", [approving, owning])
def test_a_second_revocation_during_the_taking_back(
    ports: Ports,
    at_once: None,
    make: Callable[[Ports], Scene],
    first: Callable[[Ports, Scene], object],
    second: Callable[[Ports, Scene], object],
) -> None:
    """APPROVAL-1, REVOKE-9, F2860i: It lasts, wherever it comes: the taking back decides again."""
    refused = 0
    for race in races(ports, make, first, second):
        assert race.world.tenant.is_revoked(ports, NAME)
        race.world.tenant.check_totals(ports)
        if race.second is False:
            refused += 1
            assert isinstance(race.first, ApprovalRequired | InsufficientScope)
        else:
            assert race.second is True
    assert refused


@pytest.mark.parametrize("second", [revoke, revoke_all])
def test_two_revoke_second_at_once(
    ports: Ports, at_once: None, second: Callable[[Ports, Scene], object]
) -> None:
    """REVOKE-2, F2860j: Of two that come second at once, one is noted, and both are answered."""
    for race in races(ports, approving, second, revoke):
        assert (race.first, race.second) == (False, False)
        actions = race.world.tenant.actions(ports)
        assert sum(each.startswith("revocation.extend") for each in actions) == 1
