"""Fixtures of the operations' tests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from shared.model import revocations
from shared.model.lists import schedule as srl_schedule
from shared.operations.base import operation
from shared.ports import Ports
from tests.engines.worlds import chosen
from tests.kit.aws import aws
from tests.kit.tenants import Tenant
from tests.kit.worlds import Clock, embedded, in_memory
from tests.operations.restores import Deployment, deployed


@pytest.fixture
def ports(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Ports]:
    """Those of the deployment, if the test takes one."""
    if "deployment" in request.fixturenames:
        deployment: Deployment = request.getfixturevalue("deployment")
        yield deployment.ports
        return
    with in_memory(tmp_path / "blobs"), chosen(tmp_path, clock) as ports:
        yield ports


@pytest.fixture
def tenant(ports: Ports) -> Tenant:
    return Tenant.create(ports)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who lost a race tries again without a pause, and nobody waits: the clock stands still."""
    pacing = operation.RetryPacing(pause=0, in_flight=0, sleep=lambda _seconds: None)
    monkeypatch.setattr(operation, "PACING", pacing)


@pytest.fixture(params=["one machine", "cloud"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Ports]:
    """Ports on one machine, and on a pretended cloud."""
    if request.param == "one machine":
        yield embedded(tmp_path, clock)
        return
    with aws() as account:
        yield account.ports(clock)


@pytest.fixture
def deployment(tmp_path: Path, clock: Clock) -> Iterator[Deployment]:
    with deployed(tmp_path, clock) as deployment:
        yield deployment


# How many partitions revocations have with `few_partitions`.
FEW_SHARDS: Final = 3


def make_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads of all partitions are alike: with fewer of them, there are fewer moments to try."""
    monkeypatch.setattr(revocations, "SHARDS", FEW_SHARDS)
    monkeypatch.setattr(srl_schedule, "MARK_PARTITIONS", 2)


@pytest.fixture
def few_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """See `make_few`."""
    make_few(monkeypatch)
