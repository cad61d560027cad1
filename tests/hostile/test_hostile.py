"""All clients and the relay keep their promises behind hostile or faulty HTTP."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.hostile.__main__ import run_all
from tests.hostile.cases import load_cases
from tests.kit import go, typescript

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def _go(folder: Path) -> list[str]:
    if not go.is_there():
        pytest.skip("no Go: `make .tools/go/.installed` installs it")
    return [str(go.built(folder)), "conformance"]


_COMMANDS: Final[dict[str, Callable[[Path], list[str]]]] = {
    "Python": lambda _: [sys.executable, "-m", "shared.authorizer", "conformance"],
    "relay": lambda _: [sys.executable, "-m", "tests.hostile.relay"],
    "Go": _go,
    "TypeScript": lambda _: typescript.command(),
}


@pytest.mark.parametrize("subject", _COMMANDS)
def test_a_subject_passes_all_cases(subject: str, tmp_path: Path) -> None:
    """F1600a: Behind faulty proxies, clients stay clear, poll gently, and leak nothing.

    No case makes a client answer CLEAR later than `max_staleness` after an acknowledged revocation.
    """
    command = shlex.join(_COMMANDS[subject](tmp_path))
    failed = [str(each) for each in run_all(command, load_cases()) if each.problems]
    assert failed == []
