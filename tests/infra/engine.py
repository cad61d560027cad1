"""Another engine of DynamoDB's interface, as a process of its own."""

import platform
import sys
from http import HTTPStatus
from pathlib import Path
from typing import Final

import pytest

from tests.kit.processes import HOST, ROOT, Group, answers, free_port

_ENGINE: Final = ROOT / ".tools/engines/node_modules/@dynoxide/linux-x64/dynoxide"

# Of the tests that start it.
MARKS: Final = [
    pytest.mark.slow,
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"),
        reason="the engine is a program for Linux on x86-64",
    ),
]


def the_engine(folder: Path) -> tuple[Group, str]:
    """The engine, which is yet to be started, and its address."""
    port = free_port()
    command = [str(_ENGINE), "--port", str(port), "--db-path", str(folder / "engine.db")]
    group = Group(command, folder / "engine.log", lambda: answers(port, HTTPStatus.OK))
    return group, f"http://{HOST}:{port}"
