"""Fixtures that every room's tests share."""

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from shared.ports import Ports
from tests.api import Tenant, serve
from tests.worlds import Clock, embedded


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ports(tmp_path: Path, clock: Clock) -> Ports:
    return embedded(tmp_path, clock)


@pytest.fixture
def http(ports: Ports) -> TestClient:
    return serve(ports)


@pytest.fixture
def tenant(ports: Ports, http: TestClient) -> Tenant:
    return Tenant(ports, http, handle="acme")


@pytest.fixture
def other_tenant(ports: Ports, http: TestClient) -> Tenant:
    return Tenant(ports, http, handle="globex")
