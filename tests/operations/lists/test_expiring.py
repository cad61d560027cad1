"""Keys that expire soon: who is announced, when, how often, and to whom."""

import logging
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any

import pytest

from shared.errors import Unavailable
from shared.model import expiring as model
from shared.model.audit import audit_log
from shared.model.callers import Scope
from shared.model.signing_keys import SigningKeyType
from shared.operations.access import api_key_rotation, api_keys
from shared.operations.changes import signing_keys
from shared.operations.lists import expiring
from shared.operations.operator import doctor
from shared.ports import Ports
from tests.kit.faults import Script, scripted
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.web.outages import breaking

pytestmark = pytest.mark.usefixtures("few_partitions")
_NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def api_key(ports: Ports, tenant: Tenant, *, days: float) -> str:
    end = ports.now() + timedelta(days=days)
    scopes = (Scope.AUTHORIZER,)
    return api_keys.create(
        ports, tenant.operator, name="gateway", scopes=scopes, expires_at=end
    ).api_key.id


def signing_key(ports: Ports, tenant: Tenant, *, days: float) -> str:
    end = ports.now() + timedelta(days=days)
    return signing_keys.create(
        ports, tenant.operator, type_=SigningKeyType.ROOT, name="root", expires_at=end
    ).id


def announced(ports: Ports, tenant: Tenant) -> list[Any]:
    """The entries that announce a key, since the beginning of the tests."""
    months = {f"{_NOW + timedelta(days=days):%Y-%m}": days for days in range(100)}.values()
    partitions = chain.from_iterable(
        audit_log.month(tenant.id, _NOW + timedelta(days=days)) for days in months
    )
    items = [row.item for each in partitions for row in ports.store.query(each)]
    return [each for each in items if str(each["action"]).endswith(".expiring")]


@pytest.mark.parametrize(
    ("life", "left", "days"),
    [
        (90, 31, None),
        (90, 30, 30),
        (90, 7.01, 30),
        (90, 7, 7),
        (90, 1.01, 7),
        (90, 1, 1),
        (90, 0.001, 1),
        (90, 0, None),
        (30, 30, None),
        (20, 8, None),
        (20, 7, 7),
        (1, 0.5, None),
    ],
)
def test_when_a_key_expires_soon(life: float, left: float, days: int | None) -> None:
    """APIKEY-11: A key expires soon 30, 7 and 1 days before its end, if it was made for longer."""
    end = _NOW + timedelta(days=left)
    assert model.days_left(end - timedelta(days=life), end, _NOW) == days
    assert model.days_left(_NOW, None, _NOW) is None


def test_each_key_is_announced_once_for_each_number_of_days(
    ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """APIKEY-11, F379a: The audit log announces a key once, each 30, 7 and 1 days before its end.

    A key that is revoked, suspended or was rotated is not announced any more.
    """
    long, short = api_key(ports, tenant, days=60), signing_key(ports, tenant, days=20)
    ended = {name: api_key(ports, tenant, days=60) for name in ("revoked", "rotated")}
    suspended = signing_key(ports, tenant, days=60)
    api_keys.revoke(ports, tenant.operator, key_id=ended["revoked"])
    signing_keys.suspend(ports, tenant.operator, key_id=suspended)
    clock.advance(days=20)
    later = clock() + timedelta(days=400)
    api_key_rotation.rotate(
        ports, tenant.operator, key_id=ended["rotated"], grace_seconds=604_800, expires_at=later
    )
    clock.advance(days=-20)
    for _ in range(62 * 2):
        expiring.announce_expiring(ports, tenant.id)
        clock.advance(hours=12)
    found = announced(ports, tenant)
    seen = [(each["action"], each["resource_id"], each["details"]["days"]) for each in found]
    wanted = [("api_key.expiring", long, days) for days in (30, 7, 1)]
    wanted += [("key.expiring", short, days) for days in (7, 1)]
    assert sorted(seen) == sorted(wanted)


def test_what_an_announcement_says(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """AUDIT-3: The entry is of the monitor, and names the key, its end and the days."""
    key_id = api_key(ports, tenant, days=60)
    clock.advance(days=55)
    assert [each.id for each in expiring.announce_expiring(ports, tenant.id)] == [key_id]
    (entry,) = announced(ports, tenant)
    assert (entry["action"], entry["resource_id"]) == ("api_key.expiring", key_id)
    assert entry["actor"] == "system+monitor@acme.svc"
    assert entry["details"] == {"name": "gateway", "expires_at": "2027-01-20T12:00:00Z", "days": 7}
    (notice,) = ports.store.query(model.notices(tenant.id))
    assert notice.item == {"expires": int(datetime(2027, 1, 20, 12, tzinfo=UTC).timestamp())}


def test_two_runs_at_once_announce_a_key_once(ports: Ports, clock: Clock) -> None:
    """F379b: Two runs of the schedule at the same time announce a key once."""
    tenants = [Tenant.create(ports, f"t{number}") for number in range(10)]
    for tenant in tenants:
        api_key(ports, tenant, days=60)
    clock.advance(days=55)
    calls = 0
    for step, tenant in enumerate(tenants):
        script = Script(before={step: partial(expiring.announce_expiring, ports, tenant.id)})
        expiring.announce_expiring(scripted(ports, script), tenant.id)
        calls = len(script.calls)
        expiring.announce_expiring(ports, tenant.id)
        assert len(announced(ports, tenant)) == 1
    # Another run met each of its calls.
    assert calls < len(tenants)


def test_a_fault_of_one_tenant_does_not_silence_the_others(
    ports: Ports, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """F379c: Each tenant has its turn once an hour, whatever fails for another one."""
    tenants = [Tenant.create(ports, f"t{number}") for number in range(3)]
    for tenant in tenants:
        api_key(ports, tenant, days=60)
    clock.advance(days=55)
    broken, *others = tenants
    down = Unavailable("throttled")
    store = breaking(ports.store, down, lambda _verb, pk: pk == f"{broken.id}#api-keys")
    counted = Counter[tuple[model.ExpiringKind, int]]()
    for _ in range(60):
        counted += expiring.announce_due(replace(ports, store=store))
        clock.advance(minutes=1)
    assert counted == {(model.ExpiringKind.API_KEY, 7): 2}
    assert [len(announced(ports, each)) for each in tenants] == [0, 1, 1]
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert [broken.id in each.getMessage() for each in errors] == [True]
    assert all(each.id not in errors[0].getMessage() for each in others)


def test_the_doctor_names_keys_that_expire_soon(ports: Ports, tenant: Tenant, clock: Clock) -> None:
    """APIKEY-11, F380a: The doctor names keys that expire soon, ten of a tenant at most."""
    key_id = signing_key(ports, tenant, days=50)
    for _ in range(11):
        api_key(ports, tenant, days=60)
    clock.advance(days=49)
    tenant.regenerate(ports)
    found = [each.problem for each in doctor.examine(ports)]
    when = "2027-01-10T12:00:00Z"
    assert found[0] == f'its signing key {key_id} "root" expires within 1 day, at {when}'
    assert (len(found), found[-1]) == (11, "the same is true of 2 more of its keys")
