"""Fixtures of the functions' tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra import data_folder
from shared import wiring
from shared.ports import Ports
from tests.kit.worlds import close


@pytest.fixture
def from_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ports]:
    """What the handlers work on: what the environment names, a folder on this machine."""
    folder = tmp_path / "data"
    data_folder.prepare(folder)
    for name, value in data_folder.environment(folder).items():
        monkeypatch.setenv(name, value)
    wiring.from_environment.cache_clear()
    ports = wiring.from_environment()
    yield ports
    wiring.from_environment.cache_clear()
    close(ports)
