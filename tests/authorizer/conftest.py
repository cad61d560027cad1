"""A service on loopback, and clients of it that are closed at the end."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from shared.authorizer import AuthorizerClient, FileStateStore, view
from tests.authorizer.clients import Made, arguments
from tests.authorizer.service import Service, serving


@pytest.fixture
def service() -> Iterator[Service]:
    with serving(Service()) as service:
        service.vouch()
        yield service


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Puts both clocks of all clients forward by so many seconds."""
    passed = [0.0]
    monkeypatch.setattr(view, "now", lambda: time.time() + sum(passed))
    monkeypatch.setattr(view, "monotonic", lambda: time.monotonic() + sum(passed))
    return passed.append


@pytest.fixture
def made(service: Service, tmp_path: Path) -> Iterator[Made]:
    """Makes clients of the service that share a state folder on disk."""
    with ExitStack() as closed:

        def make(**changes: Any) -> AuthorizerClient:
            store = FileStateStore(tmp_path / "state")
            client = AuthorizerClient(service.url, **arguments(state=store) | changes)
            closed.callback(client.close)
            return client

        yield make
