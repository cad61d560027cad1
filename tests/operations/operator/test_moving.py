"""A move of all data from one store to another and back, and what may go wrong on the way."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from functions.transparency_log import log, sealing
from shared.adapters.fenced import AGE_SECONDS_MAX
from shared.errors import DataCorrupt, InvalidSettings, InvalidState
from shared.model.deployment import ADDRESS, SCHEMA, DeploymentPart
from shared.model.items import Address, Table
from shared.model.lists import content
from shared.operations.base import operation
from shared.operations.lists import in_force
from shared.operations.operator import deployment, moving
from shared.ports import Ports
from shared.ports.store import Delete, Expect, Put
from tests.kit import tour
from tests.kit.api import Client, Tenant, serve
from tests.kit.faults import Crash, broken_at
from tests.kit.tenants import item_at
from tests.kit.worlds import Clock, close, embedded

pytestmark = pytest.mark.usefixtures("at_once")

WARRANTS = ("svc_wrt_before", "svc_wrt_between", "svc_wrt_after")


@contextmanager
def _machine(folder: Path, clock: Clock) -> Iterator[Ports]:
    folder.mkdir()
    ports = embedded(folder, clock)
    yield ports
    close(ports)


def _move(source: Ports, target: Ports) -> int:
    moving.begin(source, target)
    moving.copy(source, target)
    ((_, version),) = moving.finish(source, target)
    return version


def _moved(tenant: Tenant, ports: Ports) -> Tenant:
    """The same tenant, with the same keys, served from other ports."""
    made = object.__new__(Tenant)
    made.__dict__ |= tenant.__dict__
    made.ports, http = ports, serve(ports)
    made.admin = Client(http, tenant.admin.secret, tenant.admin.key_id)
    made.authorizer = Client(http, tenant.authorizer.secret)
    return made


def _listed(ports: Ports, tenant: Tenant) -> list[str]:
    return content.revoked_ids(
        in_force.read_srl_body(ports, in_force.read_srl_head(ports, tenant.id))
    )


def _checked(tenant: Tenant) -> list[bool]:
    asked = ({"warrant_id": each} for each in WARRANTS)
    answers = [tenant.authorizer.get("/v1/revocations/check", params=each) for each in asked]
    return [answer.json()["revoked"] for answer in answers]


def _continues(source: Ports, target: Ports, tenant: Tenant, version: int) -> None:
    """Assert that the target says what the source said, under the next numbers."""
    before, after = (in_force.read_srl_head(each, tenant.id) for each in (source, target))
    assert after.version == version == before.version + 1
    assert (after.sequence or 0) >= (before.sequence or 0)
    assert after.key_id == before.key_id
    assert in_force.read_srl_body(target, before) == in_force.read_srl_body(source, before)
    assert deployment.read_deployment(source).part is DeploymentPart.MOVED
    assert deployment.read_deployment(target).part is DeploymentPart.SERVING
    was, now = log.head(source, tenant.id), log.head(target, tenant.id)
    assert was is not None
    assert now is not None
    assert now.size == was.size
    grown = sealing.extend(target, tenant.id)
    assert grown.size > was.size


def _sign(tenant: Tenant) -> int:
    (root,) = [each for each in tenant.admin.get("/v1/keys").json()["keys"] if each["name"] == "m"]
    path = f"/v1/keys/{root['id']}/sign"
    return int(tenant.admin.post(path, json={"payload": "aGVsbG8="}).status_code)


def _there_and_back(here: Ports, there: Ports, tenant: Tenant) -> None:
    """Move the data to `there`, use it there, and move it back; it says the same everywhere."""
    tenant.admin.post("/v1/keys", json={"type": "root", "name": "m"})
    tenant.revoke(WARRANTS[0])
    sealing.extend(here, tenant.id)
    moving.begin(here, there)
    assert moving.copy(here, there).put > 20
    tenant.revoke(WARRANTS[1])
    ((_, version),) = moving.finish(here, there)
    _continues(here, there, tenant, version)
    away = _moved(tenant, there)
    assert _checked(away) == [True, True, False]
    assert _sign(away) == 201
    assert {*WARRANTS[:2]} <= {*_listed(there, tenant)}
    away.revoke(WARRANTS[2])
    sealing.extend(there, tenant.id)
    _continues(there, here, tenant, _move(there, here))
    back = _moved(tenant, here)
    assert _checked(back) == [True, True, True]
    assert _sign(back) == 201
    assert {*WARRANTS} <= {*_listed(here, tenant)}


@pytest.fixture
def here(tmp_path: Path, clock: Clock) -> Iterator[Ports]:
    with _machine(tmp_path / "here", clock) as ports:
        yield ports


@pytest.fixture
def there(tmp_path: Path, clock: Clock) -> Iterator[Ports]:
    with _machine(tmp_path / "there", clock) as ports:
        yield ports


@pytest.fixture
def tenant(here: Ports) -> Tenant:
    return Tenant(here, serve(here), handle="acme")


@pytest.fixture
def patched() -> Iterator[pytest.MonkeyPatch]:
    """A patch that a test undoes itself, and no other with it."""
    with pytest.MonkeyPatch.context() as patched:
        yield patched


@pytest.mark.slow
def test_all_that_a_tenant_has_moves_and_comes_back(
    here: Ports, there: Ports, clock: Clock
) -> None:
    """F408a, OPS-16: An item of each kind moves to another machine and back, under other seals."""
    _there_and_back(here, there, tour.take(here, clock))


def _parts(*stores: Ports) -> list[DeploymentPart]:
    return [deployment.read_deployment(each).part for each in stores]


def test_two_stores_are_never_in_charge(here: Ports, there: Ports, tenant: Tenant) -> None:
    """F408b, OPS-13: A move that is stopped at any call is completed when it is repeated."""
    tenant.revoke(WARRANTS[0])
    for number in range(0, 400, 9):
        source, target = (broken_at(each, number, Crash()) for each in (here, there))
        try:
            _move(source, target)
        except Crash:
            serving = _parts(here, there).count(DeploymentPart.SERVING)
            assert serving <= 1 or deployment.read_deployment(there).version == 0
        else:
            break
    assert _parts(here, there) == [DeploymentPart.MOVED, DeploymentPart.SERVING]
    assert _checked(_moved(tenant, there)) == [True, False, False]


def test_a_source_that_changes_stays_in_charge(
    here: Ports, there: Ports, tenant: Tenant, patched: pytest.MonkeyPatch
) -> None:
    """F409a, OPS-16: If the source changes during the last pass, the move does not end."""
    moving.begin(here, there)
    writes = deployment.write

    def change_too(ports: Ports, *given: object) -> None:
        writes(ports, *given)  # type: ignore[arg-type]
        patched.undo()
        tenant.revoke(WARRANTS[0])

    patched.setattr(deployment, "write", change_too)
    with pytest.raises(InvalidState, match="still changes"):
        moving.finish(here, there)
    assert _parts(here, there) == [DeploymentPart.SERVING, DeploymentPart.RECEIVING]
    assert moving.finish(here, there)[0][0] == "acme"
    assert _checked(_moved(tenant, there)) == [True, False, False]
    assert moving.finish(here, there)[0][0] == "acme"


def test_a_change_before_a_crash_does_not_end_the_move(
    here: Ports, there: Ports, tenant: Tenant, patched: pytest.MonkeyPatch
) -> None:
    """F500a, OPS-16: If the source changed before a crash, the repeated move copies the change.

    The crash comes after the source was taken out of charge, and before the target is put in.
    """
    moving.begin(here, there)
    writes = deployment.write

    def crash(ports: Ports, *given: object) -> None:
        patched.undo()
        tenant.revoke(WARRANTS[0])
        writes(ports, *given)  # type: ignore[arg-type]
        raise Crash

    patched.setattr(deployment, "write", crash)
    with pytest.raises(Crash):
        moving.finish(here, there)
    assert _parts(here, there) == [DeploymentPart.MOVED, DeploymentPart.RECEIVING]
    moving.begin(here, there)
    assert moving.finish(here, there)[0][0] == "acme"
    assert _parts(here, there) == [DeploymentPart.MOVED, DeploymentPart.SERVING]
    assert _checked(_moved(tenant, there)) == [True, False, False]


def test_a_target_with_data_of_its_own_is_refused(here: Ports, there: Ports) -> None:
    """F409b, OPS-16: No data is overwritten: the target must be empty, or the former source."""
    for each, handle in ((here, "acme"), (there, "globex")):
        Tenant(each, serve(each), handle=handle)
    before = dict(there.store.everything(Table.KEYS))
    with pytest.raises(InvalidState, match="is not empty"):
        moving.begin(here, there)
    with pytest.raises(InvalidState, match="has begun"):
        moving.finish(here, there)
    assert dict(there.store.everything(Table.KEYS)) == before


def test_a_process_writes_until_the_last_comparison(
    here: Ports, there: Ports, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1121a, OPS-13: The target is in charge only when no process uses the source any more.

    A process learns within seconds that the data is moved. What it changes until then ends the
    move, instead of being lost.
    """

    def paused(seconds: float) -> None:
        assert seconds > AGE_SECONDS_MAX
        assert _parts(here, there) == [DeploymentPart.MOVED, DeploymentPart.RECEIVING]
        tenant.revoke(WARRANTS[0])

    moving.begin(here, there)
    monkeypatch.setattr(operation, "PACING", operation.RetryPacing(sleep=paused))
    with pytest.raises(InvalidState, match="still changes"):
        moving.finish(here, there)
    assert _parts(here, there) == [DeploymentPart.SERVING, DeploymentPart.RECEIVING]


def test_a_checkpoint_moves(here: Ports, there: Ports, tenant: Tenant) -> None:
    """F1122a, LOG-12: After a move, a sealed log that lost its head is not begun anew."""
    sealing.extend(here, tenant.id)
    _move(here, there)
    assert log.newest_checkpoint(there, tenant.id) == log.newest_checkpoint(here, tenant.id)


@pytest.mark.usefixtures("tenant")
def test_a_store_that_is_not_in_charge_is_not_moved(
    here: Ports, there: Ports, tmp_path: Path, clock: Clock
) -> None:
    """F409c, OPS-13, OPS-16: A store whose data has moved, or is newer, is not the source."""
    _move(here, there)
    with _machine(tmp_path / "third", clock) as third:
        with pytest.raises(InvalidSettings, match="was migrated"):
            moving.begin(here, third)
        moving.begin(there, third)
        with pytest.raises(InvalidState, match="has begun"):
            moving.finish(here, third)
        found = deployment.read_deployment(there)
        deployment.write(there, found, found.next(schema=SCHEMA + 1))
        with pytest.raises(InvalidSettings, match="schema"):
            moving.begin(there, third)


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize("item", [False, True], ids=["no item", "an item"])
def test_a_source_of_an_earlier_release_is_not_moved(here: Ports, there: Ports, item: bool) -> None:
    """F587a, OPS-12, OPS-16: A move raises no schema under processes that serve the source."""
    found = deployment.read_deployment(here)
    earlier = Put(ADDRESS, found.next(schema=SCHEMA - 1).to_item(), Expect.PRESENT)
    here.store.write(earlier if item else Delete(ADDRESS, Expect.PRESENT))
    with pytest.raises(InvalidState, match="update it"):
        moving.begin(here, there)
    assert moving.is_empty(there)
    deployment.mark_schema(here)
    _move(here, there)


@pytest.mark.usefixtures("tenant")
@pytest.mark.parametrize("begun", [False, True])
def test_a_target_gets_the_schema_of_its_data(here: Ports, there: Ports, begun: bool) -> None:
    """F587b, OPS-12: An earlier release refuses a store to which this one moves data.

    That is so if it was left with an earlier schema, and if an earlier release began the move.
    """
    if begun:
        moving.begin(here, there)
    else:
        _move(here, there)
        here, there = there, here
    found = deployment.read_deployment(there)
    deployment.write(there, found, found.next(schema=SCHEMA - 1))
    moving.begin(here, there)
    assert deployment.read_deployment(there).schema == SCHEMA


@pytest.mark.parametrize("harm", ["lost seal", "other seal", "unknown seal", "lost item", "more"])
def test_a_target_that_differs_is_not_put_in_charge(
    here: Ports, there: Ports, tenant: Tenant, harm: str
) -> None:
    """F409d, OPS-16: A seal that does not open, or any difference, ends the move."""
    tenant.admin.post("/v1/keys", json={"type": "root", "name": "k"})
    moving.begin(here, there)
    moving.copy(here, there)
    _harm(here, there, tenant, harm)
    if harm in ("lost item", "more"):
        moving.finish(here, there)  # The last pass mends it.
        assert list(moving._changes(here, there, moving.MigrationPass(), lambda _: None)) != []
        return
    with pytest.raises(DataCorrupt):
        moving.finish(here, there)
    assert _parts(here, there) == [DeploymentPart.SERVING, DeploymentPart.RECEIVING]


def _harm(here: Ports, there: Ports, tenant: Tenant, harm: str) -> None:
    of_keys = f"{tenant.id}#keys"
    found = dict(there.store.everything(Table.KEYS))
    address, item = next((key, each) for key, each in found.items() if key.pk == of_keys)
    other = Address(Table.KEYS, f"{tenant.id}#other")
    match harm:
        case "lost seal":
            there.store.write(Put(address, {**item, "sealed_seed": b"x" * 61}, Expect.PRESENT))
        case "other seal":
            there.store.write(Put(address, item_at(here, address), Expect.PRESENT))
        case "unknown seal":
            here.store.write(Put(other, {"sealed_seed": b"x"}, Expect.ABSENT))
        case "lost item":
            there.store.write(Delete(address, Expect.PRESENT))
        case _:
            there.store.write(Put(other, {"n": 1}, Expect.ABSENT))
