"""Who can write to the store alone cannot make the service sign another history (LOG-12)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from functions.transparency_log import checkpoint, log, sealing
from functions.transparency_log import head as model
from functions.transparency_log import operations as sealed_log
from functions.transparency_log.head import LogHead
from shared.errors import DataCorrupt, Unavailable
from shared.model.audit import audit_log
from shared.model.items import Table
from shared.operations.operator import doctor
from shared.operations.operator.recovery import recovery
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.kit import faults
from tests.kit.sealed_log import entered, head_of, many_sealed, sealed
from tests.kit.tenants import Tenant, item_at
from tests.kit.worlds import Clock
from tests.operations.restores import Deployment

pytestmark = pytest.mark.usefixtures("at_once")


def remove_the_head(ports: Ports, tenant: Tenant) -> None:
    ports.store.write(Delete(model.address(tenant.id), Expect.PRESENT))


def remove_the_log(ports: Ports, tenant: Tenant) -> None:
    """The head, the tiles, and all that was kept in the folder of checkpoints."""
    remove_the_head(ports, tenant)
    for folder in (model.folder(tenant.id), checkpoint.folder(tenant.id)):
        for name in list(ports.blobs.names(folder)):
            ports.blobs.remove(name)


def remove_log_and_signers(ports: Ports, tenant: Tenant) -> None:
    """The same, and the signers: only the state of the newest list still tells."""
    remove_the_log(ports, tenant)
    for row in list(ports.store.query(checkpoint.signers(tenant.id))):
        ports.store.write(Delete(checkpoint.signers(tenant.id).address(row.sk), Expect.PRESENT))


def begin_anew(ports: Ports, tenant: Tenant) -> None:
    """A head as `recover` writes it."""
    _replace(ports, tenant, LogHead.empty(2, ports.now()))


def empty(ports: Ports, tenant: Tenant) -> None:
    _replace(ports, tenant, LogHead.empty(1, ports.now()))


def _replace(ports: Ports, tenant: Tenant, head: LogHead) -> None:
    item = replace(head, version=1).to_item()
    ports.store.write(Put(model.address(tenant.id), item, Expect.PRESENT))


@pytest.mark.slow_on("300")
@pytest.mark.parametrize("entries", [3, 300])
@pytest.mark.parametrize(
    "cut", [remove_the_head, remove_the_log, remove_log_and_signers, begin_anew, empty]
)
def test_a_log_that_was_cut_is_not_begun_anew(
    deployment: Deployment,
    ports: Ports,
    tenant: Tenant,
    clock: Clock,
    entries: int,
    cut: Callable[[Ports, Tenant], None],
) -> None:
    """LOG-12, F576a: If its head is removed or replaced, a log is neither extended nor shown."""
    made = many_sealed(ports, clock, tenant.id, entries)
    tenant.regenerate(ports)
    sealing.extend(ports, tenant.id)
    clock.advance(minutes=20)
    assert [*doctor.examine(ports)] == []
    for entry_id in made[:2]:
        address = audit_log.address(tenant.id, entry_id, clock())
        ports.store.write(Delete(address, Expect.PRESENT))
    cut(ports, tenant)
    with pytest.raises(DataCorrupt, match="was truncated, or its store is an older copy"):
        sealing.extend(ports, tenant.id)
    with pytest.raises(DataCorrupt, match="was truncated"):
        sealed_log.checkpoint(ports, tenant.operator)
    assert [each for each in doctor.examine(ports) if "was truncated" in each.problem]
    recovery.recover(ports, tenant.operator)
    sealing.extend(ports, tenant.id)
    head = head_of(ports, tenant.id)
    assert head.generation > 1
    assert "audit_log.start_generation" in {
        each.action for _, each in log.entries(ports, tenant.id, 0, head.size) if each
    }
    assert [*doctor.examine(ports)] == []


def test_an_older_log_is_neither_extended_nor_forked(
    deployment: Deployment, ports: Ports, tenant: Tenant, clock: Clock
) -> None:
    """LOG-12, F576b: On an older audit table, no pass signs another tree of a size signed before.

    That is so also if no tile and no list is newer.
    """
    sealing.extend(ports, tenant.id)
    copy = deployment.copy()
    clock.advance(minutes=1)
    entered(ports, clock, tenant.id)
    sealing.extend(ports, tenant.id)
    deployment.restore(copy, Table.AUDIT)
    entered(ports, clock, tenant.id)
    with pytest.raises(DataCorrupt, match="it has 1 leaves in generation 1, but an anchor has 2"):
        sealing.extend(ports, tenant.id)
    for_two = next(iter(ports.blobs.names(checkpoint.folder(tenant.id))))
    ports.blobs.remove(for_two)
    sealing.extend(ports, tenant.id)
    ports.blobs.put(for_two, b"")
    entered(ports, clock, tenant.id)
    clock.advance(minutes=1)
    with pytest.raises(DataCorrupt, match="its first 2 leaves differ from the leaves of an anchor"):
        log_of_two_roots(ports, tenant)


def log_of_two_roots(ports: Ports, tenant: Tenant) -> None:
    """Let the newest name be that of the other tree."""
    names = list(ports.blobs.names(checkpoint.folder(tenant.id)))
    own = {
        checkpoint.PinnedCheckpoint.of(head).name(tenant.id)
        for head in [log.head(ports, tenant.id)]
        if head
    }
    for each in own.intersection(names):
        ports.blobs.remove(each)
    sealing.extend(ports, tenant.id)


def test_a_pass_may_end_before_its_checkpoint_is_kept(
    ports: Ports, clock: Clock, tenant: Tenant
) -> None:
    """LOG-12, F576c: A pass that stops before it keeps its checkpoint is no cut."""
    sealing.extend(ports, tenant.id)
    entered(ports, clock, tenant.id)
    script = faults.Script()
    sealing.extend(faults.scripted(ports, script), tenant.id)
    (at,) = (number for number, call in enumerate(script.calls) if call == "put")
    entered(ports, clock, tenant.id)
    broken = faults.Script(before={at: faults.raises(Unavailable())})
    with pytest.raises(Unavailable):
        sealing.extend(faults.scripted(ports, broken), tenant.id)
    entered(ports, clock, tenant.id)
    sealing.extend(ports, tenant.id)
    assert len(sealed(ports, tenant.id)) == 4
    name = next(ports.blobs.names(checkpoint.folder(tenant.id)))
    assert checkpoint.PinnedCheckpoint.parse(name).size == 4


def change(ports: Ports, tenant: Tenant, made: list[str], clock: Clock) -> str:
    address = audit_log.address(tenant.id, made[5], clock())
    item = item_at(ports, address)
    ports.store.write(Put(address, {**item, "actor": "nobody"}, Expect.PRESENT))
    return f"the audit entry {made[5]} (leaf 6) was changed"


def remove(ports: Ports, tenant: Tenant, made: list[str], clock: Clock) -> str:
    ports.store.write(Delete(audit_log.address(tenant.id, made[5], clock()), Expect.PRESENT))
    return f"the audit entry {made[5]} (leaf 6) was removed"


def insert(ports: Ports, tenant: Tenant, _made: list[str], clock: Clock) -> str:
    return (
        f"the audit entry {entered(ports, clock, tenant.id, ago=3600)} was never appended to the "
        "transparency log"
    )


def replace_a_tile(ports: Ports, tenant: Tenant, _made: list[str], _clock: Clock) -> str:
    name = f"{model.folder(tenant.id, 1)}/tile/0/000"
    ports.blobs.remove(name)
    ports.blobs.put(name, bytes(32 * 256))
    return "the tile 0/000 of its transparency log is missing or altered"


def replace_a_bundle(ports: Ports, tenant: Tenant, _made: list[str], _clock: Clock) -> str:
    name = f"{model.folder(tenant.id, 1)}/tile/entries/001"
    held = ports.blobs.get(name)
    assert held is not None
    ports.blobs.remove(name)
    ports.blobs.put(name, held[:-1] + bytes([held[-1] ^ 1]))
    return "the checkpoint of its transparency log does not match its leaves"


def forge_the_checkpoint(ports: Ports, tenant: Tenant, _made: list[str], _clock: Clock) -> str:
    head = head_of(ports, tenant.id)
    _replace(ports, tenant, head.with_checkpoint(head.checkpoint.replace("— rescind", "— other")))
    return "no audit signer signed the checkpoint of its transparency log"


def garble_the_checkpoint(ports: Ports, tenant: Tenant, _made: list[str], _clock: Clock) -> str:
    head = head_of(ports, tenant.id)
    _replace(ports, tenant, head.with_checkpoint("rescind"))
    return "the checkpoint of its transparency log is malformed"


@pytest.mark.slow_on(
    "change", "insert", "replace_a_tile", "replace_a_bundle", "garble_the_checkpoint"
)
@pytest.mark.parametrize(
    "tamper",
    [
        change,
        remove,
        insert,
        replace_a_tile,
        replace_a_bundle,
        forge_the_checkpoint,
        garble_the_checkpoint,
    ],
)
def test_the_doctor_verifies_the_log(
    ports: Ports,
    clock: Clock,
    tenant: Tenant,
    tamper: Callable[[Ports, Tenant, list[str], Clock], str],
) -> None:
    """LOG-13, F576d: The doctor names what was changed, removed, inserted or replaced in a log."""
    made = many_sealed(ports, clock, tenant.id, 600)
    sealing.extend(ports, tenant.id)
    when = Clock(clock())
    clock.advance(minutes=20)
    entered(ports, clock, tenant.id)
    assert [*doctor.examine(ports)] == []
    told = tamper(ports, tenant, made, when)
    assert told in [each.problem for each in doctor.examine(ports)]
