"""A restore from a backup of any age ends without a problem (OPS-9)."""

from datetime import timedelta

import pytest

from functions.transparency_log import sealing
from shared.operations.operator import doctor, restored
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from tests.kit.sealed_log import many_sealed
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.restores import Deployment

AGES = [timedelta(seconds=1), timedelta(minutes=11), timedelta(hours=30), timedelta(days=3)]


@pytest.mark.slow_on("300")
@pytest.mark.parametrize("sealed", [0, 300])
@pytest.mark.parametrize("age", AGES, ids=str)
def test_a_restore_of_any_age_leaves_no_entry_out_of_the_log(
    deployment: Deployment, ports: Ports, tenant: Tenant, clock: Clock, age: timedelta, sealed: int
) -> None:
    """F1710a: A recovery appends all entries to the log, so that the doctor finds no cut after it.

    The backup has entries that were not appended when it was made, as each backup may have.
    """
    many_sealed(ports, clock, tenant.id, sealed)
    for number in range(3):
        tenant.revoke(ports, f"svc_wrt_{number}")
    copy = deployment.copy()
    clock.advance(seconds=30)
    tenant.revoke(ports, "svc_wrt_late")
    tenant.regenerate(ports)
    clock.advance(seconds=age.total_seconds())
    deployment.restore(copy)
    restored.mark(ports, copied_at=None)
    said = list[str]()
    recovery.recover(ports, tenant.operator, report=said.append)
    assert any("to the transparency log" in line for line in said)
    recovery.recover(ports, tenant.operator, reviewed=True)
    found = [(each.problem, each.remedy) for each in doctor.examine(ports) if not each.is_remark]
    assert found == []
    # No entry of the recovery itself is left either.
    appended = sealing.extend(ports, tenant.id, overlap=sealing.SWEEP)
    assert appended.size == appended.first
