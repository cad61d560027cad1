"""Fixtures that every room's tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from starlette.testclient import TestClient

from shared.ports import Ports
from tests.api import Tenant, serve
from tests.worlds import Clock, embedded

# A busy machine is no fault of the code.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ports(tmp_path: Path, clock: Clock) -> Ports:
    return embedded(tmp_path, clock)


@pytest.fixture
def http(ports: Ports) -> Iterator[TestClient]:
    # Entered, so that all requests share one event loop.
    with serve(ports) as client:
        yield client


@pytest.fixture
def tenant(ports: Ports, http: TestClient) -> Tenant:
    return Tenant(ports, http, handle="acme")


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenant]:
    """A tenant for all tests of a module whose requests are refused, or do not mind each other."""
    ports = embedded(tmp_path_factory.mktemp("standing"), Clock())
    with serve(ports) as client:
        yield Tenant(ports, client, handle="acme")


@pytest.fixture
def other_tenant(ports: Ports, http: TestClient) -> Tenant:
    return Tenant(ports, http, handle="globex")
