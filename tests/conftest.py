"""Fixtures that every room's tests share."""

from pathlib import Path

import pytest
from hypothesis import settings

from shared.ports import Ports
from tests.api import Instance, Tenant, serve
from tests.worlds import Clock, embedded

# Every test fails in which a secret gets out.
pytest_plugins = ["tests.leaks"]

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
def http(ports: Ports) -> Instance:
    return serve(ports)


@pytest.fixture
def tenant(ports: Ports, http: Instance) -> Tenant:
    return Tenant(ports, http, handle="acme")


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Tenant:
    """A tenant for all tests of a module whose requests are refused, or do not mind each other."""
    ports = embedded(tmp_path_factory.mktemp("standing"), Clock())
    return Tenant(ports, serve(ports), handle="acme")


@pytest.fixture
def other_tenant(ports: Ports, http: Instance) -> Tenant:
    return Tenant(ports, http, handle="globex")
