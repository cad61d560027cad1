"""No schedule of two losses leaves a tenant without an admin key."""

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from shared.errors import Conflict
from shared.model.api_keys import ApiKey
from shared.model.callers import Scope
from shared.operations.access import api_key_rotation, api_keys, service_accounts
from shared.operations.base.operation import Operation
from shared.ports import Ports
from shared.ports.store import Expect, Put
from tests.kit.faults import Script, scripted
from tests.kit.reads import reading
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock


def _admins(ports: Ports, tenant: Tenant) -> list[str]:
    page = api_keys.page(ports, tenant.operator, before=None, limit=100)
    return [key.id for key, _ in page.entries if key.is_live_admin(ports.now())]


@pytest.mark.parametrize("step", range(6))
def test_a_rotation_and_a_loss_leave_an_admin(
    ports: Ports, tenant: Tenant, clock: Clock, step: int
) -> None:
    """F482c: One admin key cannot go while the other one is rotated to a key that ends soon."""
    tenant.api_key(ports, name="second")
    first, second = _admins(ports, tenant)
    script = Script(before={step: lambda: api_keys.revoke(ports, tenant.operator, key_id=second)})
    with suppress(Conflict):
        api_key_rotation.rotate(
            scripted(ports, script),
            tenant.operator,
            key_id=first,
            grace_seconds=0,
            expires_at=clock() + timedelta(minutes=1),
        )
    clock.advance(hours=1)
    assert len(_admins(ports, tenant)) == 1


@pytest.mark.parametrize("loss", [api_keys.revoke, api_keys.delete], ids=["revoke", "delete"])
def test_a_key_about_to_expire_does_not_replace_the_last(
    ports: Ports, tenant: Tenant, clock: Clock, loss: Operation[..., object]
) -> None:
    """APIKEY-7, F83a: An admin key may go only if another one remains valid for at least a day."""
    (last,) = _admins(ports, tenant)
    day = clock() + timedelta(days=1)
    create = partial(api_keys.create, ports, tenant.operator, name="k", scopes=(Scope.ADMIN,))
    create(expires_at=day)
    with pytest.raises(Conflict, match="24 hours"):
        loss(ports, tenant.operator, key_id=last)
    create(expires_at=day + timedelta(seconds=1))
    loss(ports, tenant.operator, key_id=last)


@pytest.mark.parametrize("loss", [api_keys.revoke, api_keys.delete], ids=["revoke", "delete"])
def test_the_key_of_the_caller_is_the_one_that_stays(
    ports: Ports, tenant: Tenant, loss: Operation[..., object]
) -> None:
    """F130a: The removal of an admin key reads the caller's key and not all keys."""
    (first,) = _admins(ports, tenant)
    second = tenant.api_key(ports).api_key
    for number in range(10):
        changes = [_record(second, f"svc_ak_{number}{each:02}") for each in range(100)]
        ports.store.write(*changes)
    caller = replace(tenant.operator, key_id=first, name="first")
    with reading(ports) as (watched, reads):
        loss(watched, caller, key_id=second.id)
    assert reads.items <= 4
    with pytest.raises(Conflict):
        loss(ports, caller, key_id=first)


def _record(key: ApiKey, id_: str) -> Put:
    """The record of a newer key, which is no admin key."""
    other = replace(key, id="svc_ak_z" + id_, scopes=(Scope.AUTHORIZER,))
    return Put(other.address, other.to_item(), Expect.ABSENT)


def test_the_key_of_the_caller_does_not_stay_if_its_account_goes(
    ports: Ports, tenant: Tenant
) -> None:
    """F130b: The caller's key does not count as the remaining one if it goes or expires."""
    (last,) = _admins(ports, tenant)
    account = tenant.account(ports)
    own = tenant.api_key(ports, account=account).api_key
    soon = tenant.api_key(ports, expires_at=ports.now() + timedelta(hours=1)).api_key
    service_accounts.disable(ports, tenant.operator, account_id=account.id)
    with pytest.raises(Conflict):
        api_keys.revoke(ports, replace(tenant.operator, key_id=own.id), key_id=last)
    with pytest.raises(Conflict):
        api_keys.revoke(ports, replace(tenant.operator, key_id=soon.id), key_id=last)
