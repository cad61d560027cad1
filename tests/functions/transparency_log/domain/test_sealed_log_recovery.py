"""The sealed log after a restore: a new generation, which names what was lost."""

import pytest

from functions.transparency_log import head as model
from functions.transparency_log import log, sealing, signers
from shared.model.items import Table
from shared.operations.operator import doctor
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from tests.kit.sealed_log import head_of, many_sealed, sealed
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock
from tests.operations.restores import Deployment

PROBLEM = "its transparency log has leaves that its records lack"


def problems(ports: Ports) -> list[str]:
    return [each.problem for each in doctor.examine(ports)]


@pytest.mark.slow
def test_a_restore_begins_a_new_generation(
    deployment: Deployment, ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """LOG-10, F334a: After a restore that lost leaves, a new log begins and names what is lost."""
    kept = many_sealed(ports, clock, tenant.id, 300)
    before = head_of(ports, tenant.id)
    copy = deployment.copy()
    clock.advance(minutes=10)
    lost = many_sealed(ports, clock, tenant.id, 300)
    assert PROBLEM not in problems(ports)
    deployment.restore(copy)
    assert PROBLEM in problems(ports)
    lines = list[str]()
    recovery.recover(ports, tenant.operator, report=lines.append)
    assert "The transparency log begins a new generation: 2" in lines
    assert PROBLEM not in problems(ports)
    sealing.extend(ports, tenant.id)
    head = head_of(ports, tenant.id)
    assert head.generation == 2
    assert {*kept} < {*sealed(ports, tenant.id)}
    assert list(ports.blobs.names(model.folder(tenant.id, 2)))
    entries = [each for _, each in log.entries(ports, tenant.id, 0, head.size) if each]
    (named,) = (each for each in entries if each.action == "audit_log.start_generation")
    assert named.resource_id == "audit_log/2"
    assert named.details["before"] == before.checkpoint
    # Those of the last, partial bundle were in the head alone.
    assert {*named.details["lost"]} < {*lost}  # type: ignore[misc]
    assert named.details["lost_count"] == 512 - 301
    # A repetition only appends its own entry.
    recovery.recover(ports, tenant.operator)
    after = head_of(ports, tenant.id)
    assert (after.generation, after.size) == (2, head.size + 1)


def test_a_restore_that_lost_few_leaves_is_known_by_the_list(
    deployment: Deployment, ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """LOG-10, F334b: Without newer tiles, an audit table older than the newest list is known."""
    sealing.extend(ports, tenant.id)
    copy = deployment.copy()
    clock.advance(minutes=10)
    tenant.regenerate(ports)
    sealing.extend(ports, tenant.id)
    deployment.restore(copy, Table.AUDIT)
    recovery.recover(ports, tenant.operator)
    head = head_of(ports, tenant.id)
    entries = [each for _, each in log.entries(ports, tenant.id, 0, head.size) if each]
    assert head.generation == 2
    assert "audit_log.start_generation" in {each.action for each in entries}


@pytest.mark.parametrize("is_sealed", [True, False])
def test_a_recovery_without_a_restore_keeps_the_log(
    deployment: Deployment, ports: Ports, tenant: Tenant, clock: Clock, is_sealed: bool
) -> None:
    """LOG-10, F334c: A recovery that restores no audit table goes on with the same log.

    It begins the first one if no entry was appended before.
    """
    if is_sealed:
        many_sealed(ports, clock, tenant.id, 300)
    clock.advance(minutes=10)
    tenant.regenerate(ports)
    recovery.recover(ports, tenant.operator)
    assert head_of(ports, tenant.id).generation == 1
    assert signers.find_unknown_tiles(ports, tenant.id) is None
