"""No schedule of two losses leaves a tenant without an admin key."""

from contextlib import suppress
from datetime import timedelta
from functools import partial

import pytest

from shared.errors import RequestConflict
from shared.model.callers import Scope
from shared.operations import api_keys
from shared.operations.operation import Operation
from shared.ports import Ports
from tests.faults import Script, scripted
from tests.operations.tenants import Tenant
from tests.worlds import Clock


def _admins(ports: Ports, tenant: Tenant) -> list[str]:
    page = api_keys.page(ports, tenant.operator, before=None, limit=100)
    return [key.id for key, _ in page.entries if key.is_live_admin(ports.now())]


@pytest.mark.parametrize("loss", [api_keys.revoke, api_keys.delete], ids=["revoke", "delete"])
@pytest.mark.parametrize("step", range(5))
@pytest.mark.parametrize("earlier", [0, 1])
def test_two_last_admins_do_not_go_at_once(
    ports: Ports, loss: Operation[..., object], step: int, earlier: int
) -> None:
    """F28, F91: of two losses at once, the second sees the first, after earlier losses too."""
    tenant = Tenant.create(ports)
    for _ in range(earlier):
        lost = api_keys.create(ports, tenant.operator, name="lost", scopes=(Scope.ADMIN,))
        api_keys.revoke(ports, tenant.operator, key_id=lost.api_key.id)
    api_keys.create(ports, tenant.operator, name="second", scopes=(Scope.ADMIN,))
    first, second = _admins(ports, tenant)
    script = Script(before={step: lambda: loss(ports, tenant.operator, key_id=second)})
    with suppress(RequestConflict):
        loss(scripted(ports, script), tenant.operator, key_id=first)
    assert len(_admins(ports, tenant)) == 1


def test_an_expired_admin_key_is_no_way_back_in(ports: Ports, clock: Clock) -> None:
    """Another key counts only while it is accepted."""
    tenant = Tenant.create(ports)
    soon = clock() + timedelta(hours=1)
    api_keys.create(ports, tenant.operator, name="k", scopes=(Scope.ADMIN,), expires_at=soon)
    clock.advance(hours=2)
    (last,) = _admins(ports, tenant)
    with pytest.raises(RequestConflict, match="last active admin key"):
        api_keys.revoke(ports, tenant.operator, key_id=last)


@pytest.mark.parametrize("loss", [api_keys.revoke, api_keys.delete], ids=["revoke", "delete"])
def test_a_key_about_to_expire_does_not_replace_the_last(
    ports: Ports, clock: Clock, loss: Operation[..., object]
) -> None:
    """F83: the admin key that stays must live for a day more, or the tenant is locked out."""
    tenant = Tenant.create(ports)
    (last,) = _admins(ports, tenant)
    day = clock() + timedelta(days=1)
    create = partial(api_keys.create, ports, tenant.operator, name="k", scopes=(Scope.ADMIN,))
    create(expires_at=day)
    with pytest.raises(RequestConflict, match="24 hours"):
        loss(ports, tenant.operator, key_id=last)
    create(expires_at=day + timedelta(seconds=1))
    loss(ports, tenant.operator, key_id=last)
