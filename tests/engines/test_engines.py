"""The contract suites on the engines that have a program: the short part of `make test-engines`."""

import platform
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.engines import suites
from tests.engines.programs import ENGINES, Engine

_WITH_PROGRAM: Final = {engine.name: engine for engine in ENGINES if engine.program}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"),
        reason="one of the engines is a program for Linux on x86-64",
    ),
]


@pytest.mark.parametrize("engine", _WITH_PROGRAM.values(), ids=_WITH_PROGRAM)
def test_an_engine_keeps_the_contracts(engine: Engine, tmp_path: Path) -> None:
    """The adapters keep their promises there, but for what the engine is known to get wrong."""
    if engine.is_optional and engine.missing:
        pytest.skip(f"there is no {engine.program}")
    with engine.start(tmp_path) as settings:
        outcome = suites.run(engine, suites.CONTRACTS, settings, tmp_path)
    assert not outcome.fault
    assert outcome.failed == engine.wrong
    assert outcome.passed > len(outcome.failed)
