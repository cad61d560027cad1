"""Expired audit entries leave the store on one machine."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from infra.server.timer import Retention
from shared.adapters.local.sqlite import SqliteStore
from shared.model.audit.audit_log import month
from shared.model.tenants import SettingsChange
from shared.operations.access import tenant_settings
from shared.ports import Ports
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock, close, embedded

READINGS = 3


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ports(tmp_path: Path, clock: Clock) -> Iterator[Ports]:
    ports = embedded(tmp_path, clock, store=str(tmp_path / "svc.db"))
    yield ports
    close(ports)


def apply(retention: Retention, times: int) -> None:
    for _ in range(times):
        retention.apply()


def entries(ports: Ports, tenant: Tenant, *moments: datetime) -> int:
    """How many entries are stored in the months of these moments, expired or not."""
    months = {each for moment in moments for each in month(tenant.id, moment)}
    return sum(1 for each in months for _ in ports.store.query(each))


def test_what_has_expired_is_removed(ports: Ports, clock: Clock) -> None:
    """F71: entries are gone from the file the day after they expired, others stay."""
    made_at = clock()
    tenant = Tenant.create(ports)
    tenant_settings.update(ports, tenant.operator, change=SettingsChange(audit_retention_days=30))
    for number in range(40):
        tenant.revoke(ports, f"svc_wrt_{number}")
    assert entries(ports, tenant, made_at) == 42
    retention = Retention(ports, readings=READINGS)
    clock.advance(days=30)
    apply(retention, READINGS + 1)
    assert entries(ports, tenant, made_at) == 42
    clock.advance(days=1)
    apply(retention, READINGS)
    # Those of the tenant's creation and of the shorter retention are kept for 400 days.
    assert entries(ports, tenant, made_at) == 2
    assert sum(map(ports.store.count, month(tenant.id, made_at))) == 2
    assert isinstance(ports.store, SqliteStore)
    assert list(ports.store.problems()) == []
    clock.advance(days=400)
    apply(retention, READINGS)
    assert entries(ports, tenant, made_at) == 0


@pytest.mark.parametrize("readings_ahead", range(1, READINGS))
def test_a_clock_that_is_ahead_for_a_while_removes_nothing(
    ports: Ports, clock: Clock, readings_ahead: int
) -> None:
    """F71b: A clock that is ahead for less than an hour removes no audit entry."""
    made_at = clock()
    tenant = Tenant.create(ports)
    retention = Retention(ports, readings=READINGS)
    apply(retention, READINGS)
    clock.advance(days=3650)
    apply(retention, readings_ahead)
    clock.advance(days=-3650)
    apply(retention, READINGS)
    assert entries(ports, tenant, made_at) == 1


def test_it_begins_with_no_trust_in_the_clock(ports: Ports, clock: Clock) -> None:
    """F71: a server that is started under a wrong clock removes nothing in its first hour."""
    made_at = clock()
    tenant = Tenant.create(ports)
    clock.advance(days=3650)
    retention = Retention(ports, readings=READINGS)
    apply(retention, READINGS - 1)
    assert entries(ports, tenant, made_at) == 1
    retention.apply()
    assert entries(ports, tenant, made_at) == 0
