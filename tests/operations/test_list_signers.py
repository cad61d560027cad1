"""List signers change one after another, also if two changes are asked for at once."""

from dataclasses import replace
from typing import Any

import pytest

from functions.trust import publishing
from shared.errors import InvalidState, NotFound
from shared.model.items import Item
from shared.model.lists.signers import SrlSigner, SrlSignerStatus, standby_address
from shared.operations.changes import list_signers
from shared.operations.lists import signers
from shared.operations.operator import doctor
from shared.ports import Ports
from tests.kit.intercepted import Call, Intercepted
from tests.kit.tenants import Tenant
from tests.operations.races import races

pytestmark = pytest.mark.usefixtures("few_partitions", "at_once")


def _create(ports: Ports, tenant: Tenant) -> object:
    return list_signers.create(ports, tenant.operator)


def _rotate(ports: Ports, tenant: Tenant) -> object:
    return list_signers.rotate(ports, tenant.operator)


def _with_document(ports: Ports) -> Tenant:
    tenant = Tenant.another(ports)
    publishing.keep(ports, tenant.id)
    return tenant


def _of(ports: Ports, tenant: Tenant, status: SrlSignerStatus) -> list[SrlSigner]:
    return [each for each in signers.read_unarchived(ports, tenant.id) if each.status is status]


def test_of_two_pending_signers_one_is_refused(ports: Ports) -> None:
    """SIGNER-3: If two pending signers are asked for at once, there is one."""
    for race in races(ports, Tenant.another, _create, _create):
        assert sum(isinstance(each, InvalidState) for each in (race.first, race.second)) == 1
        (pending,) = _of(ports, race.world, SrlSignerStatus.PENDING)
        (active,) = _of(ports, race.world, SrlSignerStatus.ACTIVE)
        assert active.pending_id == pending.id


def test_a_theft_meets_a_rotation(ports: Ports) -> None:
    """SIGNER-5, F902a: A standby that was stolen, and becomes active meanwhile, is replaced."""
    stolen = list[SrlSigner]()

    def make(ports: Ports) -> Tenant:
        tenant = _with_document(ports)
        found = signers.read_standby(ports, tenant.id)
        assert found is not None
        stolen.append(found)
        return tenant

    def revoke(ports: Ports, tenant: Tenant) -> object:
        return list_signers.revoke(ports, tenant.operator, key_id=stolen[-1].id)

    for race in races(ports, make, revoke, _rotate):
        (active,) = _of(ports, race.world, SrlSignerStatus.ACTIVE)
        is_revoked = not isinstance(race.first, NotFound)
        assert is_revoked == (active.id != stolen[-1].id)
        publishing.keep(ports, race.world.id)
    assert list(doctor.examine(ports)) == []


@pytest.mark.slow
def test_a_theft_meets_a_new_pending_signer(ports: Ports) -> None:
    """SIGNER-5, F924a: While the active signer is revoked, no other one stays pending unnamed."""

    def revoke(ports: Ports, tenant: Tenant) -> object:
        (active,) = _of(ports, tenant, SrlSignerStatus.ACTIVE)
        return list_signers.revoke(ports, tenant.operator, key_id=active.id)

    for race in races(ports, _with_document, revoke, _create):
        (active,) = _of(ports, race.world, SrlSignerStatus.ACTIVE)
        pending = [each.id for each in _of(ports, race.world, SrlSignerStatus.PENDING)]
        assert pending == ([active.pending_id] if active.pending_id else [])


@pytest.mark.parametrize("verb", ["rotate", "revoke"])
def test_a_rotation_after_one_that_is_visible_in_part(ports: Ports, verb: str) -> None:
    """SIGNER-4, F925a: A change of signers waits for the standby of the rotation before it."""
    tenant, shown = _with_document(ports), list[Item | None]()
    before = ports.store.get(standby_address(tenant.id))
    _rotate(ports, tenant)
    publishing.keep(ports, tenant.id)

    def late(call: Call) -> Any:
        if call.arguments[:1] == (standby_address(tenant.id),) and not shown:
            shown.append(before)
            return before
        return call()

    elsewhere = replace(ports, store=Intercepted(ports.store, late))
    (active,) = _of(ports, tenant, SrlSignerStatus.ACTIVE)
    if verb == "rotate":
        _rotate(elsewhere, tenant)
    else:
        list_signers.revoke(elsewhere, tenant.operator, key_id=active.id)
    (next_,) = _of(ports, tenant, SrlSignerStatus.ACTIVE)
    assert shown
    assert next_.id != active.id
