"""Fixtures of tests that run the installed client beside a server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.infra.following import Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "data")
    try:
        yield server
    finally:
        server.group.kill()
