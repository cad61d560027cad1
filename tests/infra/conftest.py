"""Fixtures of tests of commands, a data folder and `rescind`, and a sealed log."""

import copy
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from infra import data_folder
from infra.cli import __main__ as start
from tests.infra.commands import Command
from tests.kit.sealed_copies import SIZE, START, Log, entry, of


@pytest.fixture
def rescind(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """`rescind`, whose environment names no stores."""
    for name in ("RESCIND_STORE", "RESCIND_BLOBS", "RESCIND_KEY_WRAPPER"):
        monkeypatch.delenv(name, raising=False)
    return Command(start.main, capsys, monkeypatch)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with nothing in it yet but its keys."""
    folder = tmp_path / "data"
    data_folder.prepare(folder)
    return folder


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Signals end programs, also if the tests run with `nohup` or in the background of a script."""
    handlers: dict[signal.Signals, Any] = {
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
        signal.SIGINT: signal.default_int_handler,
    }
    before = {number: signal.signal(number, each) for number, each in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def whole() -> Log:
    return of([entry(number, START + timedelta(seconds=number)) for number in range(SIZE)])


@pytest.fixture
def log(whole: Log) -> Log:
    return copy.deepcopy(whole)
