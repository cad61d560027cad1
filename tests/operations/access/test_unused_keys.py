"""API keys that nobody uses are revoked, if the tenant wants it (APIKEY-16)."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.errors import InvalidApiKey
from shared.model import api_keys as model
from shared.model.audit import audit_log
from shared.model.callers import Scope
from shared.model.tenants import SettingsChange
from shared.operations.access import api_keys, tenant_settings, unused_keys
from shared.operations.access.api_key_creation import CreatedKey
from shared.operations.operator import restored
from shared.ports import Ports
from shared.ports.token_buckets import UsageDelta
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock


@pytest.fixture
def tenant(ports: Ports) -> Tenant:
    return Tenant.create(ports)


def wants(ports: Ports, tenant: Tenant, days: int) -> None:
    change = SettingsChange(unused_key_days=days)
    tenant_settings.update(ports, tenant.operator, change=change)


def use(ports: Ports, tenant: Tenant, key: CreatedKey) -> None:
    ports.usage.add(UsageDelta(tenant.id, key.api_key.id, 1, ports.now()))


def is_accepted(ports: Ports, key: CreatedKey) -> bool:
    try:
        api_keys.authenticate(ports, key.secret)
    except InvalidApiKey:
        return False
    return True


def entries(ports: Ports, tenant: Tenant, moment: datetime) -> list[dict[str, Any]]:
    rows = [row for each in audit_log.month(tenant.id, moment) for row in ports.store.query(each)]
    return [dict(row.item) for row in rows if row.item["action"] == "api_key.revoke"]


def test_a_key_that_nobody_uses_is_revoked(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """APIKEY-16, F2304a: After `unused_key_days` without a use a key is revoked, and no sooner."""
    unused, used = tenant.api_key(ports, Scope.SIGNER), tenant.api_key(ports, Scope.SIGNER)
    once = tenant.api_key(ports, Scope.SIGNER)
    clock.advance(days=5)
    use(ports, tenant, once)
    wants(ports, tenant, 30)
    clock.advance(days=25, seconds=-1)
    use(ports, tenant, used)
    unused_keys.revoke_unused(ports, tenant.id)
    assert all(is_accepted(ports, each) for each in (unused, used, once))
    clock.advance(seconds=1)
    unused_keys.revoke_unused(ports, tenant.id)
    assert [is_accepted(ports, each) for each in (unused, used, once)] == [False, True, True]
    (entry,) = entries(ports, tenant, clock())
    assert entry["actor"] == "system+monitor@acme.svc"
    assert entry["details"]["unused_days"] == 30
    clock.advance(days=5)
    unused_keys.revoke_unused(ports, tenant.id)
    assert [is_accepted(ports, each) for each in (used, once)] == [True, False]


def test_no_unused_key_is_revoked_unless_the_tenant_wants_it(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """APIKEY-16, F2304b: Without the setting, which is off, no key is revoked."""
    key = tenant.api_key(ports, Scope.SIGNER)
    clock.advance(days=4000)
    unused_keys.revoke_unused(ports, tenant.id)
    assert is_accepted(ports, key)
    wants(ports, tenant, 30)
    wants(ports, tenant, 0)
    unused_keys.revoke_unused(ports, tenant.id)
    assert is_accepted(ports, key)


def test_the_last_admin_key_stays_though_unused(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """APIKEY-7, APIKEY-16, F2304c: The last admin key is never revoked because nobody uses it."""
    admins = [tenant.api_key(ports) for _ in range(2)]
    other = tenant.api_key(ports, Scope.SIGNER)
    wants(ports, tenant, 30)
    clock.advance(days=365)
    for _ in range(3):
        unused_keys.revoke_unused(ports, tenant.id)
    records = model.ApiKey.from_rows(ports.store.query(model.records(tenant.id)))
    assert sum(each.is_live_admin(clock()) for each in records) == 1
    assert not is_accepted(ports, other)
    assert sum(is_accepted(ports, each) for each in admins) <= 1


def test_no_key_is_revoked_after_a_restore(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """APIKEY-16, OPS-9, F2304d: Uses since a restore are unknown, so no key is revoked."""
    key = tenant.api_key(ports, Scope.SIGNER)
    wants(ports, tenant, 30)
    clock.advance(days=40)
    restored.mark(ports, copied_at=clock() - timedelta(days=35))
    unused_keys.revoke_unused(ports, tenant.id)
    assert is_accepted(ports, key)


def test_few_keys_are_revoked_at_once(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """APIKEY-16, F2304e: A pass revokes 50 keys at most, so that a wrong clock does not end all."""
    keys = [tenant.api_key(ports, Scope.SIGNER) for _ in range(60)]
    wants(ports, tenant, 30)
    clock.advance(days=31)
    unused_keys.revoke_unused(ports, tenant.id)
    # The first one that it tries is the last admin key.
    assert sum(is_accepted(ports, each) for each in keys) == 11
