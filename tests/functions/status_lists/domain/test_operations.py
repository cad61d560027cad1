"""Status lists below HTTP: what is given out at once, at a crash, and on each store."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import chain, count
from pathlib import Path

import pytest

from functions.status_lists import operations as status_lists
from functions.status_lists.operations import Allocation
from functions.status_lists.records import SIZE, StatusList, signer_address
from shared.adapters.local.sqlite import SqliteStore
from shared.adapters.postgresql.database import PostgresqlDatabase
from shared.adapters.postgresql.store import PostgresqlStore
from shared.errors import DataCorrupt, NotFound
from shared.operations.base import seals
from shared.operations.operator import moving
from shared.ports import Ports
from shared.ports.store import Delete, Expect
from shared.settings import uses_prepared_statements
from tests.kit import postgresql
from tests.kit.faults import Crash, broken_at
from tests.kit.tenants import Tenant, item_at
from tests.kit.worlds import Clock, embedded
from tests.operations.races import races


def make(ports: Ports, tenant: Tenant) -> StatusList:
    url = "https://rescind.example"
    return status_lists.create(ports, tenant.operator, name="badges", url=url)


@pytest.fixture(params=["sqlite", "postgresql"])
def on_disk(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Ports]:
    """Ports with a store that many threads use."""
    ports = embedded(tmp_path, clock)
    if request.param == "sqlite":
        with closing(SqliteStore(str(tmp_path / "store.db"))) as store:
            yield replace(ports, store=store)
        return
    database = PostgresqlDatabase(
        postgresql.emptied(), prepare=uses_prepared_statements(os.environ)
    )
    with closing(database):
        yield replace(ports, store=PostgresqlStore(database))


@pytest.mark.slow
def test_two_hundred_at_once(on_disk: Ports) -> None:
    """TOKEN-6, F1458a: Two hundred allocations at once give out no entry twice."""
    tenant = Tenant.create(on_disk)
    made = make(on_disk, tenant)

    def allocate(_: int) -> list[int]:
        return status_lists.allocate(on_disk, tenant.operator, list_id=made.id, count=7).indexes

    with ThreadPoolExecutor(16) as pool:
        given = [*chain.from_iterable(pool.map(allocate, range(200)))]
    assert len(set(given)) == 1400
    (found,) = status_lists.every(on_disk, tenant.operator)
    assert found.allocated == 1400


@pytest.mark.slow_on("cloud")
@pytest.mark.usefixtures("at_once")
def test_two_at_once(anywhere: Ports) -> None:
    """TOKEN-6, F1458b: Whenever a second allocation comes, each entry is given out once."""

    def world(ports: Ports) -> tuple[Tenant, StatusList]:
        tenant = Tenant.another(ports)
        return tenant, make(ports, tenant)

    def allocate(ports: Ports, of: tuple[Tenant, StatusList]) -> Allocation:
        tenant, made = of
        return status_lists.allocate(ports, tenant.operator, list_id=made.id, count=2)

    for race in races(anywhere, world, allocate, allocate):
        assert isinstance(race.first, Allocation)
        assert isinstance(race.second, Allocation)
        assert len({*race.first.indexes, *race.second.indexes}) == 4


@pytest.mark.parametrize("late", [False, True])
def test_a_crash(ports: Ports, tenant: Tenant, late: bool) -> None:
    """TOKEN-6, F1458c: A process that stops at any step gives out nothing that others get too."""
    made, given = make(ports, tenant), list[int]()
    for step in count():
        try:
            found = status_lists.allocate(
                broken_at(ports, step, Crash(), late=late),
                tenant.operator,
                list_id=made.id,
                count=3,
            )
        except Crash:
            found = status_lists.allocate(ports, tenant.operator, list_id=made.id, count=3)
            given += found.indexes
        else:
            given += found.indexes
            break
    assert step > 2
    assert len(set(given)) == len(given) == 3 * (step + 1)


@pytest.mark.parametrize("lost", ["list", "signer"])
def test_a_backup_of_a_part(ports: Ports, tenant: Tenant, lost: str) -> None:
    """TOKEN-6, F1457b: A list whose backup lacks an item gives out nothing, and stops no other.

    Nor does that of another tenant.
    """
    made, other = make(ports, tenant), Tenant.another(ports)
    theirs = make(ports, other)
    address = made.address if lost == "list" else signer_address(tenant.id)
    ports.store.write(Delete(address, Expect.PRESENT))
    assert status_lists.every(ports, tenant.operator) == []
    new = make(ports, tenant)
    assert [each.id for each in status_lists.every(ports, tenant.operator)] == [new.id]
    for gone in (made, theirs):
        with pytest.raises(NotFound):
            status_lists.allocate(ports, tenant.operator, list_id=gone.id, count=1)
    assert status_lists.allocate(ports, tenant.operator, list_id=new.id, count=1).indexes


@pytest.mark.slow
def test_each_entry_has_one_index(ports: Ports, tenant: Tenant) -> None:
    """TOKEN-6, F1458d: The order of a list is a permutation of all its entries."""
    assert sorted(make(ports, tenant).indexes(0, SIZE)) == list(range(SIZE))


@pytest.mark.slow_on("cloud")
def test_a_list_on_each_store(anywhere: Ports) -> None:
    """TOKEN-7, TOKEN-8, F1459a: A list is signed alike on one machine and on a pretended cloud.

    The seed of its signer opens for no other purpose, key or tenant.
    """
    tenant, other = Tenant.create(anywhere), Tenant.create(anywhere, "other")
    made = make(anywhere, tenant)
    index = status_lists.allocate(anywhere, tenant.operator, list_id=made.id, count=1).indexes[0]
    tenant.revoke(anywhere, f"{made.warrant_prefix}{index}")
    tenant.regenerate(anywhere)
    of, signed = status_lists.make(anywhere, made.id)
    assert of.is_made(signed)
    assert status_lists.read_cached(anywhere, of) == signed
    assert [*made.revoked_indexes(tenant.published(anywhere).revoked_ids)] == [index]
    signer = of.signer
    assert len(seals.unwrap_seed(anywhere, signer)) == 32
    assert signer.sealed_seed is not None
    for change in ({"purpose": "srl"}, {"key": "svc_key_a"}, {"tenant": other.id}):
        with pytest.raises(DataCorrupt):
            anywhere.sealer.unseal(signer.sealed_seed, context=signer.seal_context | change)


def test_a_move(anywhere: Ports, tmp_path: Path, clock: Clock) -> None:
    """OPS-16, F1459b: A move takes lists with their entries and their signer along."""
    tenant = Tenant.create(anywhere)
    made = make(anywhere, tenant)
    status_lists.allocate(anywhere, tenant.operator, list_id=made.id, count=9)
    (tmp_path / "target").mkdir()
    target = embedded(tmp_path / "target", clock)
    moving.copy(anywhere, target)
    assert not [*moving.differences(anywhere, target)]
    assert status_lists.every(target, tenant.operator)[0].allocated == 9
    of, signed = status_lists.make(target, made.id)
    assert of.is_made(signed)
    assert item_at(target, of.signer.address) != item_at(anywhere, of.signer.address)
