"""Every mutation, broken at every call: all of it happened, or none of it."""

from functools import partial
from pathlib import Path

import pytest

from functions.authorizers import operations as authorizers
from functions.authorizers.records import Heartbeat
from shared.errors import RescindError, Unavailable
from shared.ports import Ports
from tests.kit.endpoints import ENDPOINTS
from tests.kit.faults import Crash, Script, broken_at, scripted
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.mutations import CASES, EACH_CASE, Case, register
from tests.world.explore import Start, in_memory

pytestmark = pytest.mark.usefixtures("few_partitions")


@pytest.fixture
def ports(tmp_path: Path, clock: Clock) -> Ports:
    """In memory, so that they can be put back after each step."""
    return in_memory(tmp_path, clock)


def _calls(ports: Ports, case: Case, tenant: Tenant, prepared: str) -> list[str]:
    script = Script()
    case.run(scripted(ports, script), tenant, prepared)
    return script.calls


def _attempt(ports: Ports, tenant: Tenant, case: Case, prepared: str) -> bool:
    try:
        case.run(ports, tenant, prepared)
    except (RescindError, Crash):
        return False
    return True


def test_every_change_is_in_the_table() -> None:
    """A change over HTTP without a case fails here; three that publish are tested elsewhere."""
    changes = {endpoint.action for endpoint in ENDPOINTS.values() if endpoint.action}
    publish = {"audit_log.rotate_key", "srl.regenerate", "trust.publish"}
    assert changes - {case.action for case in CASES} == publish


@pytest.mark.slow_on("before-fault", "after-crash")
@EACH_CASE
@pytest.mark.parametrize("error", [Unavailable("down"), Crash()], ids=["fault", "crash"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_broken_at_every_call(
    ports: Ports, tenant: Tenant, case: Case, error: BaseException, late: bool
) -> None:
    """AUDIT-1, F25a, F31a, S7: At any fault, change, entry and totals stand or fall together."""
    prepared = case.prepare(ports, tenant)
    before = tenant.actions(ports).count(case.action)
    start = Start(ports)
    calls = _calls(ports, case, tenant, prepared)
    assert calls.count("write") == 1
    for number, call in enumerate(calls):
        start.restore()
        broken = broken_at(ports, number, error, late=late)
        assert not _attempt(broken, tenant, case, prepared)
        took_effect = int("write" in calls[:number] or (late and call == "write"))
        assert tenant.actions(ports).count(case.action) == before + took_effect
        tenant.check_totals(ports)


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_a_heartbeat_is_broken_at_every_call(ports: Ports, tenant: Tenant, late: bool) -> None:
    """F255d: At any fault of a heartbeat, the authorizer is stored and counted, or neither."""
    beat = partial(authorizers.heartbeat, beat=Heartbeat(sequence=0))
    script = Script()
    beat(scripted(ports, script), tenant.operator, authorizer_id=register(ports, tenant))
    assert len(script.calls) > 2
    for number in range(len(script.calls)):
        tenant = Tenant.another(ports)
        made = register(ports, tenant)
        broken = broken_at(ports, number, Unavailable("down"), late=late)
        with pytest.raises(Unavailable):
            beat(broken, tenant.operator, authorizer_id=made)
        tenant.check_totals(ports)
        assert beat(ports, tenant.operator, authorizer_id=made).status == "ok"
        tenant.check_totals(ports)


def test_two_authorizers_register_by_one_name(ports: Ports, tenant: Tenant) -> None:
    """F252c: Two simultaneous registrations of one authorizer both return the same identifier."""
    first: list[str] = []
    (case, *_) = [each for each in CASES if each.action == "authorizer.register"]
    rehearsal = Tenant.create(ports, "rehearsal")
    calls = _calls(ports, case, rehearsal, case.prepare(ports, rehearsal))
    number = calls.index("write")
    script = Script(before={number: lambda: first.append(register(ports, tenant))})
    assert register(scripted(ports, script), tenant) == first[0]
    assert tenant.actions(ports).count("authorizer.register") == 1
    tenant.check_totals(ports)
